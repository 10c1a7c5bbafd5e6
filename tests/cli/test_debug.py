"""`spacy ctxvec debug`: what a pipeline is, and each mistake with what to change."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from printing import printed
from spacy.cli._util import app
from spacy.util import load_config
from toys import blank_with_encoder, pipeline, trained
from transformer_files import write_bert
from typer.testing import CliRunner

from spacy_ctxvec.analysis import checkup
from spacy_ctxvec.analysis.checkup import check_up, cut_words
from spacy_ctxvec.cli.opening import pipeline_around
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.precision import possible

CONFIG = Path(__file__).resolve().parents[2] / "configs" / "ner_frozen.cfg"


@pytest.fixture(autouse=True)
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup.os, "getloadavg", lambda: (0.1, 0.1, 0.1))
    monkeypatch.setattr(checkup.torch, "get_num_threads", lambda: 2)


def debug(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "debug", *arguments])


def problems(nlp) -> dict[str, str]:
    return {finding.component: finding.problem for finding in check_up(nlp)}


def test_a_trained_pipeline_is_in_order(tmp_path: Path) -> None:
    nlp, _ = trained(frozen=True)
    assert not check_up(nlp)
    nlp.to_disk(tmp_path)
    result = debug(str(tmp_path))
    assert result.exit_code == 0, result.output
    for said in ("read by: tagger, ner", "frozen", "Nothing wrong"):
        assert said in printed(result)


def test_a_training_config_and_the_words_of_a_text(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(f"A word {'x' * 60} is long.\n", "utf8")
    result = debug(str(CONFIG), "--text", str(tmp_path / "text.txt"), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["encoders"]["ctxvec"]
    assert found["listeners"] == ["ner"] and found["weights"] == "en_sm"
    assert found["text"]["cut"] == 1 and found["text"]["examples"] == ["x" * 60]
    assert found["text"]["longest_read"] == 48
    result = debug(str(CONFIG), "--text", str(tmp_path / "text.txt"))
    assert "1 of 6 words are longer than the 48 bytes" in printed(result)


def test_words_are_counted_in_bytes() -> None:
    nlp = blank_with_encoder(lang="xx")
    nlp.initialize()
    pipe = nlp.get_pipe("ctxvec")
    limit = shim_of(pipe.model).module.config.max_characters - 2
    docs = [nlp.make_doc("a" * limit), nlp.make_doc("é" * limit), nlp.make_doc("  ")]
    assert cut_words(pipe, docs)["cut"] == 1 and cut_words(pipe, docs)["words"] == 2


def test_words_of_transformers_are_counted_in_pieces(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="needs the package transformers")
    nlp = pipeline_around(load_model(write_bert(tmp_path)))
    docs = [nlp.make_doc("a" * n) for n in (1, 32, 33)]
    found = cut_words(nlp.get_pipe("ctxvec"), docs)
    assert found is not None and found["examples"] == ["a" * 33] and found["unit"] == "pieces"


def test_each_mistake_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp, _ = trained(frozen=True)
    pipe = nlp.get_pipe("ctxvec")
    nlp.config["training"]["frozen_components"] = ["ctxvec"]
    assert "frozen_components" in problems(nlp)["ctxvec"]
    nlp.config["training"]["annotating_components"] = ["ctxvec"]
    assert not check_up(nlp)
    possible.cache_clear()
    monkeypatch.setattr("spacy_ctxvec.nn.precision.has_int8", lambda device: False)
    shim_of(pipe.model).module.set_precision("int8")
    assert "precision = int8" in problems(nlp)["ctxvec"]
    possible.cache_clear()


def test_an_encoder_that_nothing_reads() -> None:
    nlp = blank_with_encoder(store="none")
    nlp.initialize()
    assert "nothing reads it" in problems(nlp)["ctxvec"]


def test_an_encoder_that_cannot_learn() -> None:
    listener = {
        "@architectures": "spacy-ctxvec.Listener.v1", "width": 16, "grad_factor": 0.0,
        "mix": {"@architectures": "spacy-ctxvec.ScalarMix.v1"},
    }  # fmt: skip
    nlp = pipeline(("tagger",), frozen=False, tok2vec=listener, feature_cache={"max_mb": 1})
    found = [finding.problem for finding in check_up(nlp)]
    assert any("no listener sends it a gradient" in problem for problem in found)
    assert any("no use for a feature cache" in problem for problem in found)


def test_a_mix_that_has_not_been_trained() -> None:
    nlp, _ = trained(frozen=True, steps=0)
    assert {"tagger", "ner"} <= problems(nlp).keys()


def test_a_component_before_its_encoder() -> None:
    nlp = pipeline(("tagger",))
    nlp._components.reverse()  # spaCy lets a config do so
    assert "comes after it" in problems(nlp)["tagger"]


@pytest.mark.parametrize(
    ("threads", "load", "said"), [(1, 0.0, "one thread"), (2, 9.0, "is busy"), (2, 0.0, None)]
)
def test_the_machine(monkeypatch: pytest.MonkeyPatch, threads, load, said) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(checkup.os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(checkup.os, "cpu_count", lambda: 2)
    found = problems(trained(frozen=True)[0]).get("this machine")
    assert (said in found) if said else found is None


def test_what_is_no_pipeline(tmp_path: Path) -> None:
    result = debug(str(tmp_path / "nowhere.cfg"))
    assert result.exit_code == 1
    load_config(CONFIG).to_disk(tmp_path / "x.cfg")
    assert debug(str(tmp_path / "x.cfg")).exit_code == 0
