"""The project `benchmark_gpu`, on the CPU and with little text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import srsly
import torch
from loading import PROJECTS, Load, loader

from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.errors import CtxvecError

CPU = torch.device("cpu")
SENTENCES = [["The", "bank", "was", "steep", "."], ["They", "sat", "there", "."]] * 6


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    yield from loader(monkeypatch, PROJECTS / "benchmark_gpu")


def test_encoding(load: Load):
    group = load("encoding").encoding(open_pipeline(None), SENTENCES, 40)
    found = load("measure").measure_group(group, 1, CPU, 0)
    assert not found["failed"] and found["rounds"] == 1
    systems = [speed["system"] for speed in found["speeds"]]
    assert "torch.nn.LSTM there, float32" in systems and "encoder, float32" in systems
    assert all(speed["words_per_second"] > 0 for speed in found["speeds"])


def test_training_of_ner(load: Load):
    group = load("ner_training").ner_training(SENTENCES, 40)
    assert "torch.nn.LSTM there and back, float32" in group.passes
    for name, run in group.passes.items():
        if name.startswith("NER"):
            run()


def test_pretraining(load: Load):
    group = load("pretraining").pretraining("en_sm", 60, CPU)
    assert 0 < group.n_words <= 60
    group.passes["pretraining, float32"]()


def test_a_system_that_fails_costs_the_others_nothing(load: Load, tmp_path: Path):
    def fails() -> None:
        raise RuntimeError("no such kernel\nand more")

    group = load("group").Group({"fails": fails, "works": lambda: None}, 10, 2)
    found = load("measure").measure_group(group, 2, CPU, 0)
    assert found["failed"] == {"fails": "no such kernel"}
    assert [speed["system"] for speed in found["speeds"]] == ["works"]
    machine = dict.fromkeys(("processor", "threads", "torch", "spacy", "thinc", "python"), "x")
    record = {"date": "today", "device": "CPU", "machine": machine, "groups": {"ner": found}}
    srsly.write_json(tmp_path / "results.json", record)
    readme = tmp_path / "README.md"
    readme.write_text("<!-- results:start --><!-- results:end -->", encoding="utf8")
    load("write_readme").main(tmp_path / "results.json", readme)
    assert "- fails failed: no such kernel" in readme.read_text(encoding="utf8")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named(load: Load):
    with pytest.raises(CtxvecError, match="No GPU 0"):
        load("device").chosen_device(0)
