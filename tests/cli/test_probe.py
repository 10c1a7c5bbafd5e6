"""`spacy ctxvec probe`: its commands, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spacy
from printing import printed
from spacy.cli._util import app
from spacy.tokens import Doc, DocBin
from typer.testing import CliRunner

from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig


def probe(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "probe", *arguments])


@pytest.fixture
def data(tmp_path: Path) -> str:
    vocab = spacy.blank("en").vocab
    words, deps = ["cats", "see", "dogs", "."], ["nsubj", "ROOT", "obj", "punct"]
    doc = Doc(vocab, words=words, tags=["N", "V", "N", "."], deps=deps, heads=[1, 1, 1, 1])
    DocBin(docs=[doc] * 8).to_disk(tmp_path / "docs.spacy")
    return str(tmp_path / "docs.spacy")


@pytest.fixture
def model(tiny_config: BiLMConfig, tmp_path: Path) -> str:
    state = BiLM(tiny_config).state_dict()
    save_native(EncoderModel(tiny_config, state, {"name": "tiny", "lang": "en"}), tmp_path / "m")
    return str(tmp_path / "m")


@pytest.mark.parametrize("task", ["pos", "dep"])
def test_linear_probes(data: str, model: str, task: str) -> None:
    result = probe(task, data, data, "--model", model, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert len(found["layers"]) == 3 and found["n_train"] == 32
    assert found["n_classes"] == (3 if task == "pos" else 4)
    result = probe(task, data, data, "--model", model)
    for said in ("layer 2: ", "most frequent class", "32 words to learn from"):
        assert said in printed(result)


def test_senses(model: str, tmp_path: Path) -> None:
    (tmp_path / "x.data.xml").write_text(
        '<corpus><sentence id="s"><instance id="a" lemma="bank" pos="NOUN">bank</instance>'
        '</sentence></corpus>', "utf8"
    )  # fmt: skip
    (tmp_path / "x.gold.key.txt").write_text("a bank%1\n", "utf8")
    path = str(tmp_path / "x.data.xml")
    result = probe("wsd", path, path, "--model", model)
    assert result.exit_code == 0, result.output
    for said in ("layer 0: 100.0%", "most frequent sense", "100.0% of the test words"):
        assert said in printed(result)


def test_missing_files_are_named(model: str, tmp_path: Path) -> None:
    for task, name in (("pos", "none.spacy"), ("wsd", "none.data.xml")):
        path = str(tmp_path / name)
        result = probe(task, path, path, "--model", model)
        assert result.exit_code == 1 and "none" in printed(result)
