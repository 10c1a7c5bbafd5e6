"""`spacy ctxvec init-config`: every combination of answers is a valid config, and trains."""

from __future__ import annotations

from datetime import date
from itertools import product
from pathlib import Path

import pytest
import spacy
from printing import printed
from spacy.cli._util import app
from spacy.cli.debug_config import debug_config
from spacy.cli.train import train
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.util import load_config
from typer.testing import CliRunner

from spacy_ctxvec.cli.opening import first_encoder
from spacy_ctxvec.cli.starter_config import COMPONENTS
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig

PIPELINES = [*COMPONENTS, "tagger,morphologizer,parser,ner"]
OWN, SHIPPED = "own", "en_sm"
ANSWERS = list(product(PIPELINES, ("efficiency", "accuracy"), (SHIPPED, OWN)))
TODAY = [ANSWERS[(date.today().toordinal() + i * 13) % len(ANSWERS)] for i in range(3)]


def init_config(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "init-config", *arguments])


@pytest.fixture
def own_model(tiny_config: BiLMConfig, tmp_path: Path) -> str:
    model = EncoderModel(tiny_config, BiLM(tiny_config).state_dict(), {"name": "own", "lang": "sv"})
    save_native(model, tmp_path / "own")
    return str(tmp_path / "own")


@pytest.fixture
def corpus(tmp_path: Path) -> dict[str, str]:
    """Docs that are annotated for every component; the parser drops relations rarer than 30."""
    path = tmp_path / "docs.spacy"
    DocBin(docs=[annotated(spacy.blank("en"), i) for i in range(36)], store_user_data=True).to_disk(
        path
    )
    return {"paths.train": str(path), "paths.dev": str(path)}


def annotated(nlp: Language, number: int) -> Doc:
    animal = ("cat", "dog", "owl")[number % 3]
    doc = Doc(
        nlp.vocab,
        words=["The", animal, "sleeps", ".", "It", "dreams", "."],
        tags=["DT", "NN", "VB", ".", "PR", "VB", "."],
        pos=["DET", "NOUN", "VERB", "PUNCT", "PRON", "VERB", "PUNCT"],
        morphs=["", "Number=Sing", "", "", "", "", ""],
        lemmas=["the", animal, "sleep", ".", "it", "dream", "."],
        heads=[1, 2, 2, 2, 5, 5, 5],
        deps=["det", "nsubj", "ROOT", "punct", "nsubj", "ROOT", "punct"],
    )
    doc.ents = [Span(doc, 1, 2, "ANIMAL")]
    doc.spans["sc"] = [Span(doc, 0, 2, "SUBJECT")]
    doc.cats = {"CAT": float(animal == "cat"), "OTHER": float(animal != "cat")}
    return doc


def written(path: Path, own: str, pipeline: str, optimize: str, encoder: str) -> Path:
    own_or_shipped = own if encoder == OWN else SHIPPED
    lang = "sv" if encoder == OWN else "en"
    options = ["-p", pipeline, "-o", optimize, "-e", own_or_shipped, "-l", lang, "--cpu"]
    result = init_config(str(path), *options)
    assert result.exit_code == 0, result.output
    return path


@pytest.mark.parametrize(("pipeline", "optimize", "encoder"), ANSWERS)
def test_every_combination_is_valid(tmp_path, own_model, pipeline, optimize, encoder):
    path = written(tmp_path / "x.cfg", own_model, pipeline, optimize, encoder)
    assert debug_config(path, overrides={"paths.train": "a", "paths.dev": "b"}) is None
    config = load_config(path, interpolate=False)
    assert config["nlp"]["pipeline"] == ["ctxvec", *pipeline.split(",")]
    assert ("before_update" in config["training"]) and config["components"]["ctxvec"]["frozen"]
    assert "# " in path.read_text("utf8")


@pytest.mark.parametrize(("pipeline", "optimize", "encoder"), TODAY)
def test_some_of_them_train(tmp_path, own_model, corpus, pipeline, optimize, encoder):
    """Others on another day."""
    trains(tmp_path, own_model, corpus, pipeline, optimize, encoder)


@pytest.mark.slow
@pytest.mark.parametrize(("pipeline", "optimize", "encoder"), ANSWERS)
def test_all_of_them_train(tmp_path, own_model, corpus, pipeline, optimize, encoder):
    trains(tmp_path, own_model, corpus, pipeline, optimize, encoder)


def trains(tmp_path, own_model, corpus, pipeline, optimize, encoder) -> None:
    path = written(tmp_path / "x.cfg", own_model, pipeline, optimize, encoder)
    steps = {"training.max_steps": 20, "training.eval_frequency": 10}
    train(path, tmp_path / "out", overrides={**corpus, **steps})
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert shim_of(first_encoder(nlp).model).info["name"] == ("own" if encoder == OWN else "en_sm")
    assert len(nlp("The cat sleeps.")) == 4


def test_without_a_terminal_defaults_are_taken_and_written_out():
    result = init_config("-")
    assert result.exit_code == 0
    assert 'pipeline = ["ctxvec","ner"]' in result.stdout.replace(", ", ",")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-p", "ner,nonsense"], "components: nonsense. Expected some of tagger"),
        (["-p", ","], "components: none"),
        (["-l", "de"], "reads English, and lang is 'de'"),
        (["-o", "speed"], "optimize = speed"),
        (["-e", "nowhere"], "nowhere"),
    ],
)
def test_bad_answers_are_named(tmp_path, options, said):
    result = init_config(str(tmp_path / "x.cfg"), *options)
    assert result.exit_code == 1 and said in printed(result)
    assert not (tmp_path / "x.cfg").exists()


def test_no_config_is_replaced_unasked(tmp_path):
    path = tmp_path / "x.cfg"
    path.write_text("mine", "utf8")
    result = init_config(str(path))
    assert result.exit_code == 1 and "--force" in printed(result)
    assert path.read_text("utf8") == "mine"
    assert init_config(str(path), "--force", "--gpu").exit_code == 0
    assert 'gpu_allocator = "pytorch"' in path.read_text("utf8")
