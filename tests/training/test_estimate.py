"""What a run would take, told before it starts."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.training import estimate
from spacy_ctxvec.training.estimate import estimate_run
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.pretrain import PretrainConfig
from spacy_ctxvec.training.running import Progress

TRAINING = LMTrainingConfig(tokens=900, batch_tokens=60, n_samples=5, threads=False)
SIZES = BiLMConfig(width=12, hidden_width=6, char_width=4, filters=((1, 4), (2, 4)))


@pytest.fixture
def config(tmp_path) -> PretrainConfig:
    """Text of 90 tokens, of 7 types; the softmax has 3 of them beside the specials."""
    lines = [f"a b c a b c a b {word}" for word in ("d", "e", "f", "g") * 2 + ("d", "d")]
    (tmp_path / "train.txt").write_text("\n".join(lines), "utf8")
    (tmp_path / "held.txt").write_text("a b c z", "utf8")
    return PretrainConfig(
        name="toy", lang="en", text_folder=tmp_path, train=["train.txt"], heldout=["held.txt"],
        licence="CC0", sources=[], n_words=6, softmax_width=5, model=SIZES, training=TRAINING,
    )  # fmt: skip


def test_figures_are_those_of_the_text_and_the_model(tmp_path, monkeypatch, config):
    monkeypatch.setattr(estimate, "_speed", lambda trainer: 0.5)
    found = estimate_run(config, tmp_path / "work", Progress())
    assert (found.corpus_tokens, found.n_pieces, found.n_types, found.n_words) == (90, 10, 7, 6)
    assert math.isclose(found.coverage, 80 / 90) and found.heldout_coverage == 0.75
    model, softmax = BiLM(SIZES), WordSoftmax(input_width=6, width=5, n_words=6)
    assert found.n_parameters == sum(p.numel() for p in model.parameters())
    assert found.softmax_parameters == sum(p.numel() for p in softmax.parameters())
    assert found.memory_bytes == 16 * (found.n_parameters + found.softmax_parameters)
    assert (found.tokens, found.epochs, found.hours) == (900, 10.0, 0.5)
    text = " ".join(found.lines())
    for part in (
        "90 tokens in 10 pieces, 7 distinct words",
        "duplicate paragraphs: 6",
        "6 words, which cover 88.9% of the text and 75.0% of the held-out text",
        "900 tokens, 10.0 times the text, at 0 tokens/s: about 0.5 hours",
    ):
        assert part in text


@pytest.mark.parametrize(
    ("settings", "tokens", "hours"),
    [
        ({"epochs": 3.0}, 270, 0.15),
        ({"hours": 0.1}, 900, 0.1),
        ({"hours": 2.0}, 900, 0.5),
    ],
)
def test_epochs_and_hours_count(tmp_path, monkeypatch, config, settings, tokens, hours):
    monkeypatch.setattr(estimate, "_speed", lambda trainer: 0.5)
    config = replace(config, training=replace(TRAINING, **settings))
    found = estimate_run(config, tmp_path / "work", Progress())
    assert found.tokens == tokens and math.isclose(found.hours, hours)


def test_a_few_steps_are_timed_and_forgotten(tmp_path, config):
    """Only the corpora stay in the working folder; the threads are as before."""
    torch.set_num_threads(2)
    found = estimate_run(config, tmp_path / "work", Progress())
    assert torch.get_num_threads() == 2
    assert 10 < found.tokens_per_second < 10**7
    assert sorted(p.name for p in (tmp_path / "work").iterdir()) == ["corpus", "heldout"]
