"""`spacy ctxvec benchmark`: every system measured, in words and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from printing import printed
from spacy.cli._util import app
from typer.testing import CliRunner

from spacy_ctxvec.analysis import benchmark
from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig


def run(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "benchmark", *arguments])


@pytest.fixture
def model(tiny_config: BiLMConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(benchmark, "N_LATENCIES", 3)
    state = BiLM(tiny_config).state_dict()
    save_native(EncoderModel(tiny_config, state, {"name": "tiny", "lang": "en"}), tmp_path / "m")
    return str(tmp_path / "m")


def test_every_system_in_one_run(model: str) -> None:
    result = run(model, "--words", "150", "--rounds", "1", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["words"] == 150 and found["machine"]["processor"]
    systems = {"float32", benchmark.COLD, benchmark.HASH_EMBED_CNN, benchmark.LIBRARY_LSTM}
    assert set(found["batch_sizes"]) == {"1", "32", "128", "1000"}
    for of_batch in found["batch_sizes"].values():
        assert systems <= set(of_batch)
        for speed in of_batch.values():
            assert 0 < speed["least"] <= speed["median"] <= speed["most"]
    assert all(0 < difference < 0.05 for difference in found["differences"].values())
    assert 0 < found["latency"]["p50"] <= found["latency"]["p95"]
    assert all(share["share"] > 0 for share in found["lstms"].values())


def test_in_words(model: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("One sentence here. Another one there.", "utf8")
    text = str(tmp_path / "text.txt")
    result = run(model, "--words", "100", "--rounds", "1", "--text", text)
    assert result.exit_code == 0, result.output
    for said in ("100 words", "HashEmbedCNN", "torch.nn.LSTM", "p95", "GFLOP/s"):
        assert said in printed(result)


def test_a_text_without_words(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text(" \n", "utf8")
    result = run("--text", str(tmp_path / "empty.txt"))
    assert result.exit_code == 1 and "No words in empty.txt" in printed(result)


def test_the_encoder_is_left_as_it_was(model: str) -> None:
    nlp = open_pipeline(model)
    encoder = nlp.get_pipe("ctxvec").model
    shim_of(encoder).module.set_precision("int8")
    benchmark.measure(encoder, [["a", "few", "words"]], rounds=1, n_words=30)
    assert shim_of(encoder).module.precision == "int8"
