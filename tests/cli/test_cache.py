"""`spacy ctxvec cache`: what `fill` reads, training finds; `show` and `prune`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from printing import printed
from spacy.cli._util import app
from spacy.tokens import DocBin
from spacy.training import Corpus
from toys import TEXTS, examples, pipeline, trained
from typer.testing import CliRunner


def cache(*arguments: object):
    return CliRunner().invoke(app, ["ctxvec", "cache", *map(str, arguments)])


def cache_json(*arguments: object):
    result = cache(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    nlp, _ = trained(("tagger",), frozen=True)
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    nlp = pipeline()
    DocBin(docs=[example.reference for example in examples(nlp)]).to_disk(tmp_path / "t.spacy")
    return tmp_path / "t.spacy"


def test_training_finds_what_fill_has_read(saved, docs, folder, tmp_path):
    report = cache_json("fill", saved, docs, "--folder", folder)
    assert report == {
        "component": "ctxvec", "folder": str(folder), "known": 0, "added": 3, "no_room": 0,
    }  # fmt: skip
    assert cache_json("fill", saved, docs, "--folder", folder)["known"] == 3
    place = {"max_mb": 50, "where": "disk", "folder": str(folder)}
    nlp = pipeline(("tagger",), frozen=True, feature_cache=place)
    nlp.initialize(lambda: examples(nlp))
    nlp.get_pipe("ctxvec").model.from_bytes((saved / "ctxvec" / "model").read_bytes())
    nlp.update(list(Corpus(docs)(nlp)))
    cached = nlp.get_pipe("ctxvec").features
    assert (cached.hits, cached.misses) == (3, 0)


def test_a_training_config_names_the_encoder_and_the_place(docs, folder, tmp_path):
    model = {"init": "random"}
    place = {"max_mb": 50, "where": "disk", "folder": str(folder), "dtype": "float16"}
    nlp = pipeline(("ner",), frozen=True, model=model, feature_cache=place)
    nlp.config.to_disk(tmp_path / "train.cfg")
    assert cache_json("fill", tmp_path / "train.cfg", docs)["folder"] == str(folder)
    (found,) = cache_json("show", "--folder", folder)["models"]
    assert found["dtype"] == "float16" and found["texts"] == len(TEXTS)


def test_fill_stops_at_the_bound(saved, docs, folder):
    report = cache_json("fill", saved, docs, "--folder", folder, "--max-gb", "1e-6")
    assert report["no_room"] == 3 - report["added"] > 0


def test_in_words(saved, docs, folder):
    assert "3 texts added, 0 known" in printed(cache("fill", saved, docs, "--folder", folder))
    assert "random" in printed(cache("show", "--folder", folder))
    assert "Removed 0.0 MB" in printed(cache("prune", "--folder", folder, "--all"))
    assert printed(cache("show", "--folder", folder)) == f"0.0 MB in {folder}"


def test_prune_by_size_and_by_model(saved, docs, folder):
    cache_json("fill", saved, docs, "--folder", folder)
    cache_json("fill", saved, docs, "--folder", folder, "--dtype", "float16")
    full, half = sorted(
        cache_json("show", "--folder", folder)["models"], key=lambda model: -model["bytes"]
    )
    assert full["dtype"] == "float32" and half["dtype"] == "float16"
    assert full["bytes"] > half["bytes"] > full["bytes"] / 3
    assert cache_json("prune", "--folder", folder, "--max-gb", "1")["removed"] == 0
    report = cache_json("prune", "--folder", folder, "--model", half["name"])
    assert report["removed"] == half["bytes"]
    assert [model["name"] for model in report["models"]] == [full["name"]]
    assert cache_json("prune", "--folder", folder, "--max-gb", "0")["models"] == []


def test_the_default_folder_is_beside_downloads(saved, docs, monkeypatch, tmp_path):
    monkeypatch.setenv("CTXVEC_CACHE", str(tmp_path / "root"))
    cache_json("fill", saved, docs)
    assert cache_json("show")["folder"] == str(tmp_path / "root" / "features")
    assert len(cache_json("show")["models"]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["prune"], "Which layers are to go?"),
        (["prune", "--model", "ab"], "holds no layers of a model ab"),
        (["fill", "absent.cfg", "x.spacy"], "Cannot make a pipeline of the config absent.cfg"),
        (["fill", "absent", "x.spacy"], "There is no model at absent"),
    ],
)
def test_mistakes_are_told_in_words(arguments, message, monkeypatch, tmp_path):
    monkeypatch.setenv("CTXVEC_CACHE", str(tmp_path))
    result = cache(*arguments)
    assert result.exit_code == 1
    assert message in printed(result)


def test_docs_that_are_none(saved, tmp_path, folder):
    (tmp_path / "bad.spacy").write_bytes(b"no docs")
    assert "Cannot read" in printed(cache("fill", saved, tmp_path / "bad.spacy"))
    assert "There is nothing at" in printed(cache("fill", saved, tmp_path / "absent.spacy"))
    assert cache("fill", saved, tmp_path / "bad.spacy", "--dtype", "int8").exit_code == 1


def test_a_pipeline_without_an_encoder(docs, tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    assert "has no `ctxvec` component" in printed(cache("fill", tmp_path / "blank", docs))
    spacy.blank("en").config.to_disk(tmp_path / "blank.cfg")
    assert "has no `ctxvec` component" in printed(cache("fill", tmp_path / "blank.cfg", docs))
