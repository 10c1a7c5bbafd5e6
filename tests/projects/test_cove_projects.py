"""The projects `cove_tatoeba` and `cove_multi30k`, on made-up data; trainings are of one step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
import torch
from loading import PROJECTS, Load, loader
from spacy.strings import get_string_id
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Corpus
from spacy.training.initialize import init_nlp

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.formats.translator import MARKS, TranslationModel, save_translation_model
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.layers.listener import is_listener, settings_of, state_of
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig
from spacy_ctxvec.nn.nmt import NMTConfig, Translator
from spacy_ctxvec.text.pair_corpus import build_pair_corpus
from spacy_ctxvec.training.config import read_nmt_config

TATOEBA, MULTI30K = PROJECTS / "cove_tatoeba", PROJECTS / "cove_multi30k"
TREE = r"(3 (2 (2 -LRB-) (4 good\/great)) (2 film))"
CORPORA = ("wikigold", "sst5")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    yield from loader(monkeypatch, TATOEBA)


@pytest.fixture
def encoders(tmp_path: Path) -> dict[str, Path]:
    """Model folders of random weights, small."""
    cove, bilm = MTLSTMConfig(3, 4, 1), BiLMConfig(8, 4, filters=((1, 4), (2, 4)))
    for name, config, module in (("cove", cove, MTLSTM(cove)), ("bilm", bilm, BiLM(bilm))):
        model = EncoderModel(config, module.state_dict(), {"lang": "en"})
        save_native(model, tmp_path / name)
    return {name: tmp_path / name for name in ("cove", "bilm")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A working folder: vectors, two folds of WikiGold, and SST-5."""
    nlp = spacy.blank("en")
    for word in ("Bonn", "good", "film"):
        nlp.vocab.set_vector(word, np.random.default_rng(0).random(3, dtype="float32"))
    nlp.to_disk(tmp_path / "vectors")
    doc = Doc(nlp.vocab, ["Bonn", "is", "good"])
    doc.ents = [Span(doc, 0, 1, label="LOC")]
    doc.cats = {"negative": 0.0, "positive": 1.0}
    other = Doc(nlp.vocab, ["bad", "film"])
    other.cats = {"negative": 1.0, "positive": 0.0}
    for name in ("wikigold/0", "wikigold/1", "sst5/0"):
        folder = tmp_path / "corpus" / name
        folder.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            DocBin(docs=[doc, other], store_user_data=True).to_disk(folder / f"{part}.spacy")
        srsly.write_json(folder / "test_units.json", [0, 1])
    return tmp_path


def training(load: Load, root: Path, encoders: Any, corpus: str, system: str, *more: str) -> Any:
    systems = load("systems")
    own = systems.available_systems(encoders)[system]
    return systems.system_training(corpus, 0, system, own, 1, root, root / "vectors", more)


@pytest.mark.parametrize(
    "path", [TATOEBA / "configs/tatoeba.cfg", MULTI30K / "configs/multi30k.cfg"]
)
def test_translation_configs(path: Path, tmp_path: Path) -> None:
    config = read_nmt_config(path, tmp_path)
    assert config.name == path.parents[1].name and config.sources
    assert ".bz2" not in str(config.train), "the command `data` unpacks"


def test_words_of_trees(load: Load) -> None:
    prepare = load("prepare")
    doc = prepare.tree_doc(spacy.blank("en").vocab, TREE, "here")
    assert [token.text for token in doc] == ["(", "good/great", "film"]
    assert doc.text == "( good/great film "
    assert doc.cats == {name: float(name == "positive") for name in prepare.CLASSES}
    for wrong in ("", "good film", "(3 )", "(5 (2 good))"):
        with pytest.raises(CtxvecError, match="here: expected a tree"):
            prepare.tree_doc(spacy.blank("en").vocab, wrong, "here")


def test_conversion(load: Load, tmp_path: Path) -> None:
    for name in ("wikigold", "sst5"):
        (tmp_path / name).mkdir()
    documents = "\n\n-DOCSTART- O\n\n".join(["A I-LOC\n\nB O"] * 4)
    (tmp_path / "wikigold" / "wikigold.conll.txt").write_text(documents)
    with pytest.raises(CtxvecError, match=r"train\.txt, found none"):
        load("prepare").write_trees(tmp_path / "sst5", tmp_path / "out")
    for part in ("train", "dev", "test"):
        (tmp_path / "sst5" / f"{part}.txt").write_text(f"{TREE}\n{TREE}\n")
    load("prepare").main(tmp_path, tmp_path / "out", n_folds=2)
    vocab = spacy.blank("en").vocab
    (first, _) = DocBin().from_disk(tmp_path / "out/sst5/0/dev.spacy").get_docs(vocab)
    assert first.cats["positive"] == 1.0
    assert {path.name for path in (tmp_path / "out" / "wikigold").iterdir()} == {"0", "1"}


def test_systems_need_their_encoders(load: Load, encoders: dict[str, Path]) -> None:
    available = load("systems").available_systems
    assert list(available({})) == ["static"]
    assert list(available({"bilm": encoders["bilm"]})) == ["static", "static_bilm"]
    assert available(encoders)["static_both"] == encoders and len(available(encoders)) == 4


@pytest.mark.parametrize("corpus", CORPORA)
def test_systems_differ_in_what_is_concatenated_alone(
    load: Load, root: Path, encoders: dict[str, Path], corpus: str
) -> None:
    systems = load("systems")
    configs, parts = {}, {}
    for system, names in systems.SYSTEMS.items():
        config = training(load, root, encoders, corpus, system, "max_steps=5").config
        (head,) = set(config["components"]) - set(names)
        assert config["nlp"].pop("pipeline") == [*names, head]
        sources = config["components"][head]["model"]["tok2vec"]["embed"]["*"].pop("sources")
        parts[system] = {
            part.get("upstream") for part in sources.values() if isinstance(part, dict)
        }
        for name in names:
            config["components"].pop(name)
        for section in ("paths", "initialize"):
            config.pop(section)
        configs[system] = config
    assert parts == {system: {None, *names} for system, names in systems.SYSTEMS.items()}
    assert all(config == configs["static"] for config in configs.values())
    assert configs["static"]["training"]["max_steps"] == 5
    assert set(configs["static"]["training"]["score_weights"]) == (
        {"ents_f"} if corpus == "wikigold" else {"cats_micro_f", "cats_score"}
    )


@pytest.mark.parametrize("corpus", CORPORA)
def test_encoders_are_frozen_and_each_has_its_listener(
    load: Load, root: Path, encoders: dict[str, Path], corpus: str
) -> None:
    own = training(load, root, encoders, corpus, "static_both")
    nlp = init_nlp(own.config.interpolate())
    head = nlp.get_pipe(nlp.pipe_names[-1]).model
    listeners = {settings_of(node).upstream: node for node in head.walk() if is_listener(node)}
    modules = {name: shim_of(nlp.get_pipe(name).model).module for name in encoders}
    before = {name: [p.detach().clone() for p in m.parameters()] for name, m in modules.items()}
    mixes = {name: node.layers[0].get_param("weights").copy() for name, node in listeners.items()}
    examples = list(Corpus(own.corpus / "train.spacy")(nlp))
    optimizer = nlp.create_optimizer()
    for _ in range(2):
        nlp.update(examples, sgd=optimizer)
    for name, width, n_layers in (("cove", 8, 1), ("bilm", 8, 3)):
        node = listeners[name]
        assert state_of(node).upstream is nlp.get_pipe(name)
        assert node.layers[0].get_param("mean").shape == (n_layers, width)
        assert all(map(torch.equal, before[name], modules[name].parameters()))
        if n_layers > 1:
            assert (mixes[name] != node.layers[0].get_param("weights")).any()
    (static,) = [node for node in head.walk() if node.name == "static_vectors"]
    assert static.get_dim("nM") == 3 and static.get_dim("nO") == 96


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize("system", ["static", "static_both"])
def test_training_and_testing(
    load: Load, root: Path, encoders: dict[str, Path], corpus: str, system: str
) -> None:
    steps = ["max_steps=1", "eval_frequency=1", "patience=0"]
    own = training(load, root, encoders, corpus, system, *steps)
    own.result.parent.mkdir()
    own.config.to_disk(root / "own.cfg", interpolate=False)
    load("train_one").main(root / "own.cfg", own.result, own.corpus, own.task, own.fingerprint)
    result = srsly.read_json(own.result)
    assert own.is_done and len(result["gold"]) == len(result["predicted"]) == 2
    if corpus == "sst5":
        assert result["gold"] == ["positive", "negative"] and "cats_micro_f" in result["dev"]


def test_fingerprints_see_vectors_and_all_encoders(
    load: Load, root: Path, encoders: dict[str, Path]
) -> None:
    def found() -> str:
        return training(load, root, encoders, "sst5", "static_both").fingerprint

    prints = {found(), found()}
    for path in (encoders["cove"] / "model.safetensors", encoders["bilm"] / "model.safetensors",
                 root / "vectors" / "vocab" / "vectors"):  # fmt: skip
        path.write_bytes(path.read_bytes() + b"x")
        prints.add(found())
    assert len(prints) == 4


def test_an_encoder_of_the_wrong_kind(load: Load, root: Path, encoders: dict[str, Path]) -> None:
    swapped = {"cove": encoders["bilm"]}
    with pytest.raises(CtxvecError, match=r"components\.cove\] is a .*CoVe.v1.* is a .*BiLM.v1"):
        training(load, root, swapped, "sst5", "static_cove")


def test_grid(load: Load, root: Path, encoders: dict[str, Path]) -> None:
    compare = load("compare")
    assert compare.chosen([], CORPORA) == list(CORPORA)
    assert compare.chosen(["sst5"], CORPORA) == ["sst5"]
    with pytest.raises(CtxvecError, match="nope: expected one of"):
        compare.chosen(["nope"], CORPORA)
    grid = compare.corpus_trainings("wikigold", encoders, root, root / "vectors", 2)
    names = [f"wikigold-{fold}-static_cove-{seed}" for seed in range(2) for fold in range(2)]
    assert [own.name for own in grid["static_cove"]] == names and len(grid) == 4
    grid = compare.corpus_trainings("wikigold", {}, root, root / "vectors", 2, folds=1)
    assert [own.name for own in grid["static"]] == ["wikigold-0-static-0", "wikigold-0-static-1"]


def fake_result(own: Any, predicted: list[Any]) -> dict[str, Any]:
    gold = ["a", "b"] if own.task == "classes" else [[[0, 1, "LOC"]], [[0, 1, "PER"]]]
    return {
        "fingerprint": own.fingerprint,
        "budget": {"max_steps": 1, "patience": 1, "eval_frequency": 1},
        "gold": gold,
        "predicted": predicted,
        "units": [0, 1],
        "train_seconds": 2.0,
        "gpu_id": -1,
    }


def test_report_and_readme(
    load: Load, root: Path, encoders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    compare = load("compare")
    hits = {"wikigold": [[[0, 1, "LOC"]], []], "sst5": ["a", "a"]}
    everything = {"wikigold": [[[0, 1, "LOC"]], [[0, 1, "PER"]]], "sst5": ["a", "b"]}
    bilm = {"bilm": encoders["bilm"]}
    for corpus in CORPORA:
        grid = compare.corpus_trainings(corpus, bilm, root, root / "vectors", 2, folds=1)
        for system, trainings in grid.items():
            predicted = (hits if system == "static" else everything)[corpus]
            for own in trainings:
                load("cells").write_atomically(own.result, fake_result(own, predicted))
        compare.report(corpus, grid, 2, root / "results" / f"{corpus}.json")
    static, bilm_score = srsly.read_json(root / "results" / "sst5.json")["scores"]
    assert static["seeds"] == [0.5, 0.5] and static["measure"] == "accuracy"
    assert bilm_score["mean"] == 1.0 and bilm_score["difference"] == pytest.approx(0.5)
    table = (root / "results" / "wikigold.md").read_text()
    assert "| WikiGold | GloVe + biLM | F | 100.0 |" in table and "folds pooled: 1" in table

    readme = root / "README.md"
    readme.write_text("above\n<!-- results:start -->\n<!-- results:end -->\n")
    load("write_readme").main(root / "results", readme)
    assert "| SST-5 | GloVe + biLM | accuracy | 100.0 |" in readme.read_text()
    with pytest.raises(CtxvecError, match="found none"):
        load("write_readme").main(root / "none", readme)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """What a working folder of `train-nmt` has in the end, with random weights."""
    words = ["the", "cat", "dog", "sees", "."]
    settings = {"source_lang": "en", "target_lang": "de", "lower": True}
    sides = {"en": ["The cat sees .", "The dog |"] * 8, "de": ["Die Katze .", "Hund Hund"] * 8}
    for side, lines in sides.items():
        (tmp_path / f"test.{side}").write_text("\n".join(lines))
    files = [(str(tmp_path / "test.en"), str(tmp_path / "test.de"))]
    build_pair_corpus(files, tmp_path / "work" / "heldout", **settings)
    encoder = MTLSTMConfig(3, 4, 2)
    target = [*MARKS, "die", "katze", "hund", "."]
    torch.manual_seed(0)
    translator = Translator(NMTConfig(len(target), target_width=4, encoder=encoder)).eval()
    table = WordTable.of(
        np.array([get_string_id(word) for word in words], dtype="uint64"),
        np.arange(len(words)),
        np.random.default_rng(0).random((len(words), 3), dtype="float32"),
    )
    model = EncoderModel(encoder, dict(translator.encoder.state_dict()), {"lang": "en"}, table)
    save_translation_model(
        TranslationModel(model, translator, target, settings), tmp_path / "work" / "model"
    )
    record = {"step": 9, "tokens": 7_000_000, "seconds": 5400.0, "loss": 1.0}
    (tmp_path / "work" / "log.jsonl").write_text(srsly.json_dumps(record) + "\n")
    return tmp_path / "work"


def test_bleu_of_held_out_pairs_and_of_files(
    load: Load, work: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bleu, results = load("bleu"), tmp_path / "results"
    page = tmp_path / "attention.html"
    bleu.main(work, output=results / "bleu.json", attention=page)
    held_out = srsly.read_json(results / "bleu.json")
    assert (
        held_out["n_pairs"] == 16 and held_out["beam"] == 5 and "tok:none" in held_out["signature"]
    )
    assert (held_out["train_seconds"], held_out["train_steps"]) == (5400.0, 9)
    assert len(held_out["samples"]) == 10 and page.read_text().count("<section>") == 10
    assert held_out["samples"][0]["source"] == "the cat sees ."
    assert held_out["samples"][-1]["reference"] == "hund hund"
    bleu.main(
        work / "model", tmp_path / "test.en", tmp_path / "test.de", output=tmp_path / "b.json"
    )
    files = srsly.read_json(tmp_path / "b.json")
    assert "train_seconds" not in files
    for name in ("bleu", "perplexity", "unknown_rate", "samples"):
        assert files[name] == held_out[name]
    with pytest.raises(CtxvecError, match="reference translations"):
        bleu.main(work, tmp_path / "test.en")

    readme = tmp_path / "README.md"
    readme.write_text("<!-- results:start -->\n<!-- results:end -->\n")
    load("write_readme").main(results, readme)
    text = readme.read_text()
    assert "on 16 pairs" in text and "Training: 1.5 h, 9 steps, 7.0 M tokens." in text
    assert r"| the dog \| | hund hund |" in text
