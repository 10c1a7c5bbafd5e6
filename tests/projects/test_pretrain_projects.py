"""The projects `pretrain_your_language` and `pretrain_en`: nothing here trains a model."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
from loading import PROJECTS, Load, loader
from spacy.tokens import Doc, DocBin
from thinc.api import Config

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.training.config import read_pretrain_config

LANGUAGE, ENGLISH = (PROJECTS / name for name in ("pretrain_your_language", "pretrain_en"))


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    yield from loader(monkeypatch, LANGUAGE)


@pytest.fixture
def load_english(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    yield from loader(monkeypatch, ENGLISH)


@pytest.fixture
def encoder(tmp_path: Path) -> Path:
    """A model folder of random weights, small."""
    config = BiLMConfig(width=8, hidden_width=4, n_layers=1, filters=((1, 4), (2, 4)))
    weights = BiLM(config).state_dict()
    save_native(EncoderModel(config, weights, {"lang": "xx"}), tmp_path / "encoder")
    return tmp_path / "encoder"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A folder with the three parts of a treebank."""
    doc = Doc(spacy.blank("xx").vocab, ["a", "b"], heads=[1, 1], deps=["x", "ROOT"])
    for part in ("train", "dev", "test"):
        DocBin(docs=[doc]).to_disk(tmp_path / f"{part}.spacy")
    return tmp_path


@pytest.mark.parametrize("name", ["pretrain", "pretrain_share"])
def test_pretraining_configs(name: str, tmp_path: Path) -> None:
    config = read_pretrain_config(LANGUAGE / "configs" / f"{name}.cfg", tmp_path)
    assert config.licence == "CC BY-SA 4.0" and config.sources
    assert 0 < config.training.dropout < 1


def test_documents_of_plain_text(load: Load) -> None:
    read = load("split_text").plain_documents
    assert read(["a\n", "b\n", "\n", "\n", "c"]) == [["a", "b"], ["c"]]
    assert read(["a\n", "b\n"]) == read(["\n", "a\n", "b\n", "\n"]) == [["a"], ["b"]]
    assert read([]) == read(["\n"]) == []


def test_chapters_of_verses(load: Load) -> None:
    read = load("split_text").verse_documents
    assert read(["b.MAT.1.1\tA,\n", "b.MAT.1.2\tb.\n", "b.MAT.2.1\tC.\n"]) == [["A, b."], ["C."]]
    with pytest.raises(CtxvecError, match="TAB text"):
        read(["no tab\n"])


def test_held_out_documents(load: Load, tmp_path: Path) -> None:
    (tmp_path / "LICENSE.txt").write_text("none\n")
    (tmp_path / "SOURCES.txt").write_text("none\n")
    (tmp_path / "a.txt").write_text("\n\n".join("abcdef"))
    (tmp_path / "b.tsv").write_text("b.X.1.1\tg\n")
    load("split_text").main(tmp_path, tmp_path / "out", every=3)
    assert (tmp_path / "out" / "train.txt").read_text() == "a\n\nb\n\nd\n\ne\n\ng\n"
    assert (tmp_path / "out" / "heldout.txt").read_text() == "c\n\nf\n"
    with pytest.raises(CtxvecError, match="one of every 20 documents of 7"):
        load("split_text").main(tmp_path, tmp_path / "out", every=20)


def test_treebank_parts(load: Load, tmp_path: Path) -> None:
    rows = ["1-2\tmoo\t_\t_\t_\t_\t_\t_\t_\t_", "1\tmu\tmu\tPRON\tP\t_\t2\tnsubj\t_\t_"]
    rows += ["2\ta\ta\tAUX\tI\t_\t0\troot\t_\t_", "", ""]
    for part in ("train", "dev", "test"):
        (tmp_path / f"x-ud-{part}.conllu").write_text("\n".join(rows))
    load("treebank").main(tmp_path, tmp_path / "out")
    (doc,) = DocBin().from_disk(tmp_path / "out" / "dev.spacy").get_docs(spacy.blank("xx").vocab)
    assert [(t.text, t.tag_, t.head.i, t.dep_) for t in doc] == [
        ("mu", "P", 1, "nsubj"),
        ("a", "I", 1, "ROOT"),
    ]
    (tmp_path / "y-ud-dev.conllu").write_text("")
    with pytest.raises(CtxvecError, match="found 2"):
        load("treebank").find_part(tmp_path, "dev")


def test_config_with_changes(load: Load, tmp_path: Path) -> None:
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("# why\n\nner/*/dev*\n")
    changes = ["name=yo", "training.tokens=5", "model.filters=[[1,2]]"]
    out = tmp_path / "out.cfg"
    load("write_config").main(
        LANGUAGE / "configs" / "pretrain_share.cfg", out, changes[:2], patterns, Path("/data")
    )
    config = read_pretrain_config(out, tmp_path)
    assert (config.name, config.training.tokens) == ("yo", 5)
    assert config.exclude == ["/data/ner/*/dev*"]
    section: dict[str, Any] = {"model": {"filters": []}}
    load("write_config").set_value(section, changes[2])
    assert section["model"]["filters"] == [[1, 2]]
    for wrong in ("model.nope=1", "model", "nope.filters=2"):
        with pytest.raises(CtxvecError, match="NAME=VALUE"):
            load("write_config").set_value(section, wrong)


def trainings(load: Load, corpus: Path, encoder: Path, settings: list[str]) -> dict[str, Any]:
    systems = {"hash": None, "own": encoder}
    make = load("parsing").parse_trainings
    return make("t", corpus, "xx", systems, range(2), settings, corpus / "cells")


def test_systems_differ_in_what_heads_read_alone(load: Load, corpus: Path, encoder: Path) -> None:
    found = trainings(load, corpus, encoder, ["max_steps=5"])
    hashed, own = found["hash"][1].config, found["own"][1].config
    assert own["components"]["ctxvec"]["model"]["width"] == 8
    assert own["components"]["ctxvec"]["model"]["filters"] == [[1, 4], [2, 4]]
    assert own["paths"]["encoder"] == str(encoder.resolve())
    for config in (hashed, own):
        for head in ("tagger", "parser"):
            config["components"][head]["model"].pop("tok2vec")
    for section in ("training", "corpora", "system"):
        assert hashed[section] == own[section]
    for head in ("tagger", "parser"):
        assert hashed["components"][head] == own["components"][head]
    assert hashed["training"]["max_steps"] == 5 and hashed["system"]["seed"] == 1


def test_pipelines_of_the_configs_start(load: Load, corpus: Path, encoder: Path) -> None:
    for system, (training, _) in trainings(load, corpus, encoder, []).items():
        nlp = spacy.util.load_model_from_config(training.config.interpolate(), auto_fill=True)
        assert nlp.pipe_names[1:] == ["tagger", "parser"], system


def test_fingerprints(load: Load, corpus: Path, encoder: Path) -> None:
    def prints() -> set[str]:
        every = trainings(load, corpus, encoder, []).values()
        return {training.fingerprint for own in every for training in own}

    before = prints()
    assert len(before) == 4 and prints() == before
    weights = encoder / "model.safetensors"
    weights.write_bytes(weights.read_bytes() + b"x")
    assert len(prints() & before) == 2, "other weights: those of the hash embeddings still count"
    before = prints()
    (encoder / "tokenizer.json").write_text("{}")
    assert len(prints() & before) == 2, "another tokenizer"
    examples = corpus / "train.spacy"
    examples.write_bytes(examples.read_bytes() + b"x")
    assert not prints() & before, "other examples"


def test_names_of_encoders(load: Load) -> None:
    named = load("parsing").named_encoders
    assert named(["a=x", "b=y/z"]) == {"a": Path("x"), "b": Path("y/z")}
    for wrong in (["a"], ["a="], ["=x"], ["a/b=x"], ["hash=x"], ["a=x", "a=y"]):
        with pytest.raises(CtxvecError, match="NAME=FOLDER"):
            named(wrong)


def test_a_folder_without_model_is_named(load: Load, corpus: Path) -> None:
    with pytest.raises(CtxvecError, match="model folder"):
        trainings(load, corpus, corpus / "none", [])


def fake_result(training: Any, right: int, **more: Any) -> dict[str, Any]:
    return {
        "fingerprint": training.fingerprint,
        "budget": {"max_steps": 1, "patience": 1, "eval_frequency": 1},
        "counts": [[2, 2, right, right], [2, 1, 1, 0]],
        "train_seconds": 2.0,
        "gpu_id": -1,
        **more,
    }


def test_finished_trainings_are_skipped(load: Load, corpus: Path, encoder: Path) -> None:
    found = trainings(load, corpus, encoder, [])
    todo = load("parsing").by_seed(found)
    assert [t.name for t in todo] == ["t-hash-0", "t-own-0", "t-hash-1", "t-own-1"]
    done, failing = [], {"t-own-0"}

    def trainer(training: Any) -> None:
        done.append(training.name)
        if training.name in failing:
            raise CtxvecError("no")
        load("cells").write_atomically(training.result, fake_result(training, 1))

    train_all = load("trainings").train_all
    assert train_all(todo, trainer, jobs=2) == [todo[1]] and len(done) == 4
    failing.clear()
    assert train_all(todo, trainer) == [] and done[4:] == ["t-own-0"]
    assert train_all(load("parsing").by_seed(trainings(load, corpus, encoder, ["dropout=0.3"])),
                     trainer) == [] and len(done) == 9  # fmt: skip


def test_training_process(
    load: Load, corpus: Path, encoder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = trainings(load, corpus, encoder, [])["own"][0]
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        seen.append(command)
        return subprocess.CompletedProcess(command, len(seen) - 1)

    module = load("trainings")
    monkeypatch.setattr(module.subprocess, "run", run)
    module.train_in_process(training, test=False)
    assert seen[0][-1] == "--no-test" and training.fingerprint in seen[0]
    saved = Config().from_disk(training.result.with_suffix(".cfg"), interpolate=False)
    assert saved["paths"]["encoder"] == str(encoder.resolve())
    with pytest.raises(CtxvecError, match=r"code 1, see .*t-own-0\.log"):
        module.train_in_process(training)


def test_counting_of_heads(load: Load) -> None:
    vocab = spacy.blank("xx").vocab
    gold = Doc(vocab, ["a", "b", "."], heads=[1, 1, 1], deps=["x", "ROOT", "punct"], tags=[*"NVP"])
    found = Doc(vocab, ["a", "b", "."], heads=[1, 1, 0], deps=["y", "ROOT", "punct"], tags=[*"NNP"])
    assert load("train_one").count_right(gold, found) == [3, 2, 2, 1]
    assert load("train_one").count_right(gold, gold) == [3, 3, 3, 3]


def test_report(
    load: Load, corpus: Path, encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = trainings(load, corpus, encoder, [])
    write, results = load("cells").write_atomically, tmp_path / "results"
    for system, own in found.items():
        for seed, training in enumerate(own):
            write(training.result, fake_result(training, seed if system == "hash" else 2))
    load("parse").report("wo", found, results / "wo.json")
    scores = srsly.read_json(results / "wo.json")["scores"]
    las = {score["system"]: score for score in scores if score["measure"] == "LAS"}
    assert las["hash"]["seeds"] == [0.0, 0.25] and las["hash"]["difference"] is None
    assert las["hash"]["error"] == pytest.approx(0.125)
    assert las["own"]["mean"] == 0.5 and las["own"]["difference"] == pytest.approx(0.375)
    row = {"share": 1.0, "trained": 10**6, "forward": 300.0, "backward": 290.0}
    srsly.write_json(results / "shares.json", [{**row, "tokens": 740000, "unknown_rate": 0.061}])
    readme = tmp_path / "README.md"
    readme.write_text("above\n<!-- results:start -->\n<!-- results:end -->\n")
    load("write_readme").main(results, readme)
    text = readme.read_text()
    assert "| Wolof (WTB) | own | LAS | 50.0 | 0.0 | 0.0 | 50.0 50.0 | +37.5 (" in text
    assert "| 1 % | 740,000 | 1,000,000 | 300.0 | 290.0 | 6.1% |" in text


def test_incomplete_systems_and_other_budgets(load: Load, corpus: Path, encoder: Path) -> None:
    found = trainings(load, corpus, encoder, [])
    read, write = load("summary").read_results, load("cells").write_atomically
    write(found["hash"][0].result, fake_result(found["hash"][0], 1))
    assert read(found["hash"]) is None
    write(found["hash"][1].result, fake_result(found["hash"][1], 1, budget={"max_steps": 2}))
    with pytest.raises(CtxvecError, match="budgets"):
        read(found["hash"])


def test_missing_baseline_means_no_difference(load: Load) -> None:
    counts = {"F": np.ones((2, 3, 3), dtype="int64")}
    (score,) = load("summary").score_systems("c", {"new": counts}, "old")
    assert score.mean == 1.0 and score.difference is None


def test_shares(load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shares = load("shares")
    assert shares.parse_shares("1,2.5") == [1.0, 2.5]
    for wrong in ("", "0", "101", "a"):
        with pytest.raises(CtxvecError, match="percents"):
            shares.parse_shares(wrong)
    model = tmp_path / "share-1-60" / "model"
    model.mkdir(parents=True)
    assert shares.share_models(tmp_path, "1,5", 60) == {"share-1": model}
    assert "No model of 5 %" in capsys.readouterr().err


def test_a_share_is_made_once(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares, work = load("shares"), tmp_path / "share-1-60"
    calls: list[str] = []
    fails = False

    def ctxvec(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        calls.append(command[0])
        if fails:
            return subprocess.CompletedProcess(command, 1)
        (work / "model").mkdir(exist_ok=True)
        (work / "corpus").mkdir(exist_ok=True)
        srsly.write_json(work / "corpus" / "meta.json", {"n_tokens": 7})
        found = json.dumps({"forward": 3.0, "backward": 2.0, "unknown_rate": 0.1})
        return subprocess.CompletedProcess(command, 0, stdout=found.encode())

    monkeypatch.setattr(shares, "ctxvec", ctxvec)
    for _ in range(2):
        shares.main("1", tmp_path, tokens=60, data=tmp_path)
    assert calls == ["pretrain", "evaluate-lm"]
    (row,) = srsly.read_json(tmp_path / "results" / "shares.json")
    assert (row["share"], row["tokens"], row["forward"]) == (1.0, 7, 3.0)
    fails = True
    (work / "pretrain.cfg").write_text("other settings")
    assert not shares.pretrain(work, tmp_path, -1), "the model is that of the settings before"


def test_excluded_files_are_checked(load_english: Load, tmp_path: Path) -> None:
    exclude = load_english("exclude")
    for name in ("text/heldout/a.txt", "ner/x/dev.conll", "ner/x/train.conll"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("a\n")
    patterns = tmp_path / "patterns.txt"
    patterns.write_text("text/heldout\n**/dev*\n")
    exclude.PATTERNS = patterns
    assert exclude.excluded(tmp_path) == ["ner/x/dev.conll", "text/heldout/a.txt"]
    with pytest.raises(CtxvecError, match="name 2 files"):
        exclude.main(tmp_path)
    exclude.N_FILES, exclude.DIGEST = 2, exclude.digest(exclude.excluded(tmp_path))
    exclude.main(tmp_path)


def test_comparison_of_encoders(load_english: Load, corpus: Path, encoder: Path) -> None:
    compare = load_english("compare")
    known = (*compare.NER, compare.EWT)
    assert compare.chosen([], known) == ["wikigold", "wnut17", "bc5cdr", "ewt"]
    assert compare.chosen(["ewt", "wnut17"], known) == ["wnut17", "ewt"]
    with pytest.raises(CtxvecError, match="nope: expected one of"):
        compare.chosen(["nope"], known)
    for fold in "01":
        (corpus / "corpus" / "wikigold" / fold).mkdir(parents=True)
    encoders = {"old": encoder, "new": encoder}
    grid = compare.corpus_trainings("wikigold", encoders, corpus, 2, ["max_steps=7"])
    names = [f"wikigold-{fold}-old-{seed}" for seed in range(2) for fold in range(2)]
    assert [training.name for training in grid["old"]] == names
    config = grid["new"][3].config
    assert config["training"]["max_steps"] == 7 and config["system"]["seed"] == 1
    assert config["components"]["ctxvec"]["model"]["width"] == 8
    assert config["initialize"]["components"]["ctxvec"]["loader"]["path"] == "${paths.encoder}"


def test_comparison_pools_folds(load_english: Load, corpus: Path, encoder: Path) -> None:
    compare = load_english("compare")
    for fold in "01":
        (corpus / "corpus" / "wikigold" / fold).mkdir(parents=True)
    grid = compare.corpus_trainings("wikigold", {"old": encoder, "new": encoder}, corpus, 2, [])
    gold = [[[0, 1, "LOC"]], [[0, 1, "PER"]]]
    for name, own in grid.items():
        for fold, training in enumerate(own):
            predicted = gold if name == "new" else [gold[0], []]
            units = [2 * (fold % 2), 2 * (fold % 2) + 1]
            entities = {"gold": gold, "predicted": predicted, "units": units}
            result = fake_result(training, 1, **entities)
            load_english("cells").write_atomically(training.result, result)
    output = corpus / "results.json"
    compare.report({"wikigold": grid}, 2, output)
    old, new = srsly.read_json(output)["scores"]
    assert old["mean"] == pytest.approx(2 / 3) and new["mean"] == 1.0
    assert new["difference"] == pytest.approx(1 / 3)
    assert "| WikiGold | new | F | 100.0 |" in output.with_suffix(".md").read_text()


def test_every_recipe_is_a_config_that_can_be_run(load_english: Load, tmp_path: Path) -> None:
    recipes = load_english("recipes")
    found = {}
    for name, recipe in recipes.RECIPES.items():
        config = Config().from_disk(recipe.base).merge({"pretrain": recipe.changes})
        config.to_disk(tmp_path / f"{name}.cfg")
        found[name] = read_pretrain_config(tmp_path / f"{name}.cfg", tmp_path)
    assert found["original_recipe"].model == found["default"].model
    assert found["original_recipe"].training == found["original"].training
    costs = [multiply_adds(found[name].model) for name in ("projected", "default")]
    assert costs[0] == pytest.approx(costs[1], rel=0.01)


def multiply_adds(sizes: BiLMConfig) -> int:
    """Of a token, in one LSTM."""
    cells, width = sizes.hidden_width, sizes.token_width
    return 4 * cells * 2 * width + (cells * width if cells != width else 0)


def test_recipes_take_the_text_that_others_have_prepared(
    load_english: Load, tmp_path: Path
) -> None:
    recipes = load_english("recipes")
    settings = {"unit": "paragraph", "max_tokens": 9, "corpus_tokens": 5}
    for name, unit in (("a", "paragraph"), ("b", "paragraph"), ("c", "sentence")):
        (tmp_path / name).mkdir()
        block = {"pretrain": settings | {"unit": unit}}
        Config(block).to_disk(tmp_path / name / recipes.BASE)
    for text in recipes.TEXTS:
        assert not recipes.take_text(tmp_path / "b")
        (tmp_path / "a" / text).mkdir()
        srsly.write_json(tmp_path / "a" / text / "meta.json", {"n_tokens": 5})
    assert recipes.take_text(tmp_path / "b") and recipes.take_text(tmp_path / "a")
    assert (tmp_path / "b" / "heldout" / "meta.json").is_file()
    assert not recipes.take_text(tmp_path / "c")


def test_the_table_of_recipes_has_the_best_one_first(load_english: Load) -> None:
    row = {"trained": 1000, "speed": 50.4, "unknown_rate": 0.05, "backward": 9.0}
    rows = [row | {"title": "a", "forward": 12.0}, row | {"title": "b", "forward": 11.0}]
    lines = load_english("recipes").render(rows, 2.5).splitlines()
    assert "--minutes 2.5" in lines[0] and "5.0% unknown" in lines[0]
    assert lines[-2:] == ["| b | 50 | 1,000 | 11.0 | 9.0 |", "| a | 50 | 1,000 | 12.0 | 9.0 |"]
