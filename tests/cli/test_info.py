"""`spacy ctxvec info`: models, pipelines, and plain words where there is neither."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from printing import printed
from spacy.cli._util import app
from toys import trained
from typer.testing import CliRunner

from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig


def info(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "info", *arguments])


@pytest.fixture
def model_folder(tiny_config: BiLMConfig, tmp_path: Path) -> Path:
    facts = {"name": "tiny", "lang": "sv", "perplexity": {"forward": 12.5, "backward": 13.0}}
    model = EncoderModel(tiny_config, BiLM(tiny_config).state_dict(), facts)
    save_native(model, tmp_path / "model", dtype="float16")
    return tmp_path / "model"


def test_the_shipped_model() -> None:
    result = info()
    assert result.exit_code == 0, result.output
    for said in ("en_sm", "sha256", "parameters", "threads", "gpu", "python"):
        assert said in printed(result)


def test_a_model_folder(model_folder: Path) -> None:
    result = info(str(model_folder), "--json")
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    weights = (model_folder / "model.safetensors").read_bytes()
    assert data["model"]["sha256"] == hashlib.sha256(weights).hexdigest()
    assert data["model"]["perplexity"]["forward"] == 12.5
    assert data["model"]["sizes"]["width"] == 12
    assert "12.5" in printed(info(str(model_folder)))


def test_a_model_folder_becomes_a_pipeline_of_its_language(model_folder: Path) -> None:
    nlp = open_pipeline(str(model_folder))
    assert nlp.lang == "sv"
    assert nlp("En bank vid en bank.")[1].vector.shape == (12,)


def test_names_mean_the_same_as_for_other_commands(model_folder: Path, tmp_path: Path) -> None:
    assert "sha256" in printed(info("en_sm")) and open_pipeline("en_sm")("a bank")[1].has_vector
    work = tmp_path / "work"
    shutil.copytree(model_folder, work / "model")
    assert "12.5" in printed(info(str(work))) and open_pipeline(str(work)).lang == "sv"
    shutil.rmtree(work / "model")
    (work / "checkpoint.pt").touch()
    assert "has not come to its end" in printed(info(str(work)))
    with pytest.raises(CtxvecError, match="has not come to its end"):
        open_pipeline(str(work))


def test_a_saved_pipeline(tmp_path: Path) -> None:
    nlp, _ = trained(("tagger",), frozen=True)
    nlp.to_disk(tmp_path / "pipeline")
    result = info(str(tmp_path / "pipeline"), "--json")
    assert result.exit_code == 0, result.output
    encoder = json.loads(result.stdout)["pipeline"]["encoders"]["ctxvec"]
    assert encoder["settings"]["frozen"] is True
    assert sum(encoder["listeners"]["tagger"]["weights"]) == pytest.approx(1)
    assert "tagger" in printed(info(str(tmp_path / "pipeline")))


def test_neither(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "There is no model at" in printed(info(str(tmp_path / "missing")))
    result = info(str(tmp_path / "empty"))
    assert result.exit_code == 1
    assert "Expected: a folder with" in printed(result)


def test_a_broken_pipeline(tmp_path: Path) -> None:
    (tmp_path / "config.cfg").write_text("[nlp", encoding="utf8")
    (tmp_path / "meta.json").write_text("{}", encoding="utf8")
    result = info(str(tmp_path))
    assert result.exit_code == 1
    assert "Cannot load the pipeline" in printed(result)
