"""The project `results_core`: configs of every representation on every task, and EmoBank."""

from __future__ import annotations

import bz2
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from loading import PROJECTS, Load, loader
from spacy.tokens import Doc, DocBin
from spacy.util import load_model_from_config, registry
from thinc.api import Config
from transformer_files import write_bert

from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.layers import listener
from spacy_ctxvec.layers.scalar_mix import settings_of
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig
from spacy_ctxvec.pipe.component import Ctxvec
from spacy_ctxvec.pipe.linking import nodes
from spacy_ctxvec.text.corpus import Corpus

SYSTEMS = ("hash", "hash_glove", "top", "mean", "mix", "mix_glove", "all")
TASKS = {"wikigold": ["ner"], "ewt": ["tagger", "parser"], "emobank": ["textcat"]}


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    yield from loader(monkeypatch, PROJECTS / "results_core")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_every_representation_makes_a_pipeline(load: Load, task: str, system: str, tmp_path: Path):
    representations = load("representations")
    config = representations.training(task, 0, system, 1, tmp_path, tmp_path).config
    expected = representations.SYSTEMS[system]
    assert bool(config["paths"].get("vectors")) == bool(expected.static)
    assert config["system"]["seed"] == 1
    nlp = load_model_from_config(Config(config).interpolate(), auto_fill=True)
    assert [name for name in nlp.pipe_names if name not in ("ctxvec", "tok2vec")] == TASKS[task]
    static = [node for _, pipe in nlp.pipeline for node in nodes(pipe) if "static" in node.name]
    assert bool(static) == bool(expected.static)
    encoders = [pipe for _, pipe in nlp.pipeline if isinstance(pipe, Ctxvec)]
    assert len(encoders) == bool(expected.encoder) and all(pipe.frozen for pipe in encoders)
    mixes = [node for _, pipe in nlp.pipeline for node in nodes(pipe) if node.name == "ctxvec_mix"]
    assert len(mixes) == (len(TASKS[task]) if expected.encoder else 0)
    assert all(settings_of(mix).mode == expected.mode for mix in mixes)


def test_heads_differ_in_nothing_else(load: Load, tmp_path: Path):
    training = load("representations").training
    for task in TASKS:
        made = [training(task, 0, system, 0, tmp_path, tmp_path) for system in SYSTEMS]
        trainings = [one.config["training"] for one in made]
        assert len({one.fingerprint for one in made}) == len(SYSTEMS)
        assert all(training == trainings[0] for training in trainings)


@pytest.mark.parametrize("task", TASKS)
def test_a_tuned_encoder_learns_from_its_step_on(load: Load, task: str, tmp_path: Path):
    config = load("representations").training(task, 0, "tuned", 0, tmp_path, tmp_path).config
    config["training"]["before_update"]["components"] = {"ctxvec": 1}
    resolved = Config(config).interpolate()
    nlp = load_model_from_config(resolved, auto_fill=True)
    encoder = nlp.get_pipe("ctxvec")
    callback = registry.resolve({"callback": resolved["training"]["before_update"]})["callback"]
    for step, frozen in enumerate((True, False)):
        callback(nlp, {"step": step})
        assert encoder.frozen == frozen
    assert encoder.learn_rate_factor < 1
    factors = [listener.settings_of(node).grad_factor for node in encoder.listeners]
    assert factors == [1.0] * len(TASKS[task])


def test_a_transformer_is_read_as_the_encoder_is(load: Load, tmp_path: Path):
    pytest.importorskip("transformers", reason="needs the package transformers")
    folder = write_bert(tmp_path / "bert")
    training = load("representations").training
    folders = {"transformer": folder}
    made = training("emobank", 0, "transformer", 1, tmp_path, tmp_path, folders=folders)
    nlp = load_model_from_config(Config(made.config).interpolate(), auto_fill=True)
    assert nlp.pipe_names == ["ctxvec", "textcat"]
    assert nlp.get_pipe("ctxvec").model.get_dim("nO") == 8
    mixes = [node for node in nodes(nlp.get_pipe("textcat")) if node.name == "ctxvec_mix"]
    assert [settings_of(mix).mode for mix in mixes] == ["learned"]
    own = training("emobank", 0, "mix", 1, tmp_path, tmp_path)
    assert made.config["training"] == own.config["training"]
    other = write_bert(tmp_path / "other")  # of other random weights
    folders = {"transformer": other}
    again = training("emobank", 0, "transformer", 1, tmp_path, tmp_path, folders=folders)
    assert len({one.fingerprint for one in (made, again, own)}) == 3


def test_each_half_of_the_model_gives_its_part_of_the_layers(load: Load, tmp_path: Path):
    load("halves").main(tmp_path)
    words = ["Both", "halves", "read", "this", "."]
    whole = open_pipeline(None)
    layers = whole(Doc(whole.vocab, words=words))._.ctxvec.layers
    for direction, columns in (("forward", slice(0, 256)), ("backward", slice(256, 512))):
        nlp = open_pipeline(str(tmp_path / direction))
        half = nlp(Doc(nlp.vocab, words=words))._.ctxvec.layers
        np.testing.assert_allclose(half, layers[:, :, columns], atol=1e-5)


def test_other_encoders_and_vectors_come_from_folders(load: Load, tmp_path: Path):
    representations = load("representations")
    assert "forward" not in representations.available({})
    folders = {"floret": tmp_path / "floret", "cove": tmp_path / "cove"}
    assert {"hash_floret", "cove_glove"} <= representations.available(folders).keys()
    with pytest.raises(CtxvecError, match=r"nonsense: expected one of .*cove"):
        representations.available({"nonsense": tmp_path})
    write_cove(tmp_path / "cove")
    made = representations.training("ewt", 0, "cove_glove", 0, tmp_path, tmp_path, (), folders)
    nlp = load_model_from_config(Config(made.config).interpolate(), auto_fill=True)
    assert nlp.get_pipe("ctxvec").model.get_dim("nO") == 8
    assert made.config["paths"]["vectors"] == str(tmp_path.resolve())
    made = representations.training("ewt", 0, "hash_floret", 0, tmp_path, tmp_path, (), folders)
    assert made.config["paths"]["vectors"] == str((tmp_path / "floret").resolve())


def write_cove(folder: Path) -> None:
    config = MTLSTMConfig(input_width=6, hidden_width=4, n_layers=2)
    save_native(EncoderModel(config, MTLSTM(config).state_dict(), {"name": "tiny"}), folder)


def test_valence_is_cut_at_the_quintiles_of_the_training_part(load: Load, tmp_path: Path):
    rows = [f"t{i},train,{v},3.0,3.0,Sentence {i}." for i, v in enumerate([1, 2, 3, 3, 3, 4, 5])]
    rows += [
        'd,dev,2.9,3.0,3.0,"One, with a comma."',
        "e,test,4.9,3.0,3.0,Another.",
        "n,test,3,3,3,",
    ]
    text = "\n".join(["id,split,V,A,D,text", *rows]) + "\n"
    (tmp_path / "x.csv.bz2").write_bytes(bz2.compress(text.encode("utf8")))
    load("emobank").main(tmp_path / "x.csv.bz2", tmp_path / "out")
    vocab = spacy.blank("en").vocab
    docs = {
        part: list(DocBin().from_disk(tmp_path / "out" / f"{part}.spacy").get_docs(vocab))
        for part in ("train", "dev", "test")
    }
    assert [len(part) for part in docs.values()] == [7, 1, 1]
    classes = [max(doc.cats, key=lambda name: doc.cats[name]) for doc in docs["train"]]
    assert classes == sorted(classes) and len(set(classes)) > 2
    assert docs["dev"][0].text == "One, with a comma."


def test_floret_reads_whole_pieces_of_the_corpus(load: Load):
    corpus = Corpus.in_memory([["a", "b"], ["b"], ["c", "a", "a"], ["d"]])
    pieces = load("floret_vectors").pieces
    assert list(pieces(corpus, 4)) == [["a", "b"], ["b"], ["c", "a", "a"]]
    assert list(pieces(corpus, 1)) == [["a", "b"]]
    assert sum(map(len, pieces(corpus, 99))) == 7


def test_unknown_tasks_and_systems_are_named(load: Load):
    with pytest.raises(CtxvecError, match="expected one of wikigold"):
        load("core").main(only=["nonsense"])
    with pytest.raises(CtxvecError, match="nonsense: expected one of hash"):
        load("core").main(systems="mix,nonsense")


def test_the_first_fold_is_reported_beside_all(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    core = load("core")
    seeds, folds = 2, 3
    names = [f"{seed}.{fold}" for seed in range(seeds) for fold in range(folds)]
    grid = {"wikigold": {"hash_glove": names, "mix": [*names[:-1], "missing"]}}
    run = {"budget": {"max_steps": 1}, "train_seconds": 1, "gpu_id": -1}

    def read(trainings: list[str]) -> list[dict[str, object]] | None:
        return None if "missing" in trainings else [{**run, "name": name} for name in trainings]

    def counts(corpus: str, results: list[dict[str, object]], n: int) -> dict[str, np.ndarray]:
        assert n == seeds
        right = 1 if len(results) == seeds * folds else 2
        assert right == 1 or {result["name"] for result in results} == {"0.0", "1.0"}
        return {"F": np.full((seeds, 4, 3), (right, 2, 2))}

    monkeypatch.setattr(core, "read_results", read)
    monkeypatch.setattr(core, "corpus_counts", counts)
    readme = tmp_path / "README.md"
    readme.write_text("<!-- results:start -->\n<!-- results:end -->\n")
    core.report(grid, seeds, tmp_path / "results.json", readme)
    scores = srsly.read_json(tmp_path / "results.json")["scores"]
    found = {(score["corpus"], score["system"]): score["mean"] for score in scores}
    first = {("wikigold_0", "hash_glove"): 1.0, ("wikigold_0", "mix"): 1.0}
    assert found == {("wikigold", "hash_glove"): 0.5} | first
    assert "| WikiGold, first fold | biLM, learned mix |" in readme.read_text()


def test_the_overview_marks_what_is_of_one_fold(load: Load):
    def score(corpus: str, system: str, measure: str, mean: float) -> dict[str, object]:
        names = {"corpus": corpus, "system": system, "measure": measure}
        return {**names, "mean": mean, "deviation": 0.01}

    scores = [
        score("wikigold", "mix", "F", 0.7), score("wikigold_0", "mix", "F", 0.72),
        score("wikigold_0", "all", "F", 0.69), score("ewt", "mix", "LAS", 0.81),
        score("ewt", "mix", "UAS", 0.85),
    ]  # fmt: skip
    lines = load("overview").render({"scores": scores}).splitlines()
    assert lines[2:] == [
        "| biLM, learned mix | 70.0 ± 1.0 |  |  |  | 81.0 ± 1.0 |  |",
        "| biLM, learned mix + GloVe + hash embeddings | 69.0 ± 1.0 † |  |  |  |  |  |",
    ]


def test_costs_of_a_pipeline_stand_beside_its_scores(load: Load, tmp_path: Path):
    costs = load("costs")
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "pipeline")
    docs = [nlp.make_doc("Two words"), nlp.make_doc("")]
    DocBin(docs=docs).to_disk(tmp_path / "test.spacy")
    found = costs.measure(str(tmp_path / "pipeline"), tmp_path, 2)
    assert 0 < found["least"] <= found["words_per_second"] <= found["most"]
    assert found["disk_mb"] < 1
    scores = [{"corpus": "wnut17", "system": "mix", "mean": 0.25}]
    record = {
        "date": "today", "machine": {"processor": "P", "threads": 1, "spacy": "3", "torch": "2"},
        "rounds": 2, "batch_size": 8, "pipelines": {"mix": found},
    }  # fmt: skip
    text = costs.render(record, scores)
    assert "| biLM, learned mix |  | 25.0 |  |" in text


def test_a_share_is_drawn_by_the_seed(load: Load, tmp_path: Path):
    nlp = spacy.blank("en")
    examples = tmp_path / "train.spacy"
    DocBin(docs=[nlp.make_doc(f"example {i}") for i in range(40)]).to_disk(examples)

    def texts(percent: int, seed: int) -> list[str]:
        path = tmp_path / "shares" / f"{percent}-{seed}.spacy"
        load("learning").write_share(examples, path, percent, seed)
        return [doc.text for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]

    assert len(texts(10, 0)) == 4 and texts(10, 0) == texts(10, 0)
    assert texts(10, 0) != texts(10, 1)
    assert len(texts(1, 0)) == 1


def test_a_training_on_a_share_differs_in_its_examples_alone(load: Load, tmp_path: Path):
    corpus = tmp_path / "corpus" / "wikigold" / "0"
    corpus.mkdir(parents=True)
    doc = spacy.blank("en").make_doc("an example")
    DocBin(docs=[doc]).to_disk(corpus / "train.spacy")
    whole = load("representations").training("wikigold", 0, "mix", 1, tmp_path, tmp_path)
    on_share = load("learning").on_share
    assert on_share(whole, 100, 1, tmp_path) is whole
    share = on_share(whole, 10, 1, tmp_path)
    assert share.name == "wikigold-0-mix-1-10" and share.corpus == whole.corpus
    assert Path(share.config["paths"]["train"]).is_file()
    share.config["paths"]["train"] = whole.config["paths"]["train"]
    assert share.config == whole.config


def test_how_much_is_enough(load: Load):
    learning = load("learning")
    curve = [(1, 0.1), (10, 0.3), (100, 0.5)]
    assert learning.reached(curve, 0.05) == 1
    assert learning.reached(curve, 0.3) == 10
    assert learning.reached(curve, 0.4) == pytest.approx(31.6)
    assert learning.reached(curve, 0.6) is None
    scores = [
        {"system": system, "percent": percent, "mean": mean, "deviation": 0.0, "measure": "F"}
        for system, means in {"hash_glove": (0.1, 0.4), "mix": (0.3, 0.5)}.items()
        for percent, mean in zip((10, 100), means)
    ]
    report = {"corpus": "wikigold", "scores": scores, "enough": learning.enough(scores)}
    run = {"command": "c", "date": "d", "device": "CPU", "budget": {}, "train_seconds": 1,
           "versions": {}, "note": ""}  # fmt: skip
    text = learning.render({**report, "run": run}, "learning.png")
    assert "| biLM, learned mix | 30.0 ± 0.0 | 50.0 ± 0.0 |" in text
    assert "reaches HashEmbedCNN + GloVe on all data with 31.6 % of it" in text
