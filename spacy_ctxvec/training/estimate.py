"""What a pretraining run would take: told before it starts, from its text and a few steps."""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ..nn.memory import keep_freed_memory
from ..nn.parallel import one_thread
from ..text.corpus import SPECIALS
from .lm import LMTrainer
from .pretrain import PretrainConfig, build_trainer, prepare, problem_lines
from .running import Progress

TRIAL_STEPS = 5
BYTES_PER_PARAMETER = 16  # weight, gradient and two moments, in float32


@dataclass(frozen=True)
class Estimate:
    """Of one run.

    coverage: share of the corpus's tokens that the softmax has a word for
    heldout_coverage: the same of the held-out text
    memory_bytes: weights, gradients and optimizer; the activations of a step come on top
    hours: at the speed of a few steps, with nothing else running
    """

    corpus_tokens: int
    n_pieces: int
    n_types: int
    n_words: int
    coverage: float
    heldout_coverage: float
    n_parameters: int
    softmax_parameters: int
    memory_bytes: int
    tokens: int
    epochs: float
    tokens_per_second: float
    hours: float
    problems: list[str]

    def lines(self) -> list[str]:
        """In words."""
        return [
            f"Text: {self.corpus_tokens:,} tokens in {self.n_pieces:,} pieces, "
            f"{self.n_types:,} distinct words",
            *self.problems,
            f"Softmax: {self.n_words:,} words, which cover {self.coverage:.1%} of the text and "
            f"{self.heldout_coverage:.1%} of the held-out text",
            f"Parameters: {self.n_parameters:,} of the encoder, {self.softmax_parameters:,} of the "
            f"softmax; {self.memory_bytes / 1e6:,.0f} MB with gradients and optimizer",
            f"Training: {self.tokens:,} tokens, {self.epochs:.1f} times the text, at "
            f"{self.tokens_per_second:,.0f} tokens/s: about {self.hours:.1f} hours",
        ]


def estimate_run(
    config: PretrainConfig, work: Path, progress: Progress, *, n_process: int = 1
) -> Estimate:
    """Prepare the text of a run, if it is not yet, and time a few steps that are then forgotten."""
    train, heldout = prepare(config, work, progress, n_process=n_process)
    trainer = build_trainer(config, train)
    speed = _speed(trainer)
    n_words = trainer.softmax.n_words
    sizes = [
        sum(p.numel() for p in module.parameters()) for module in (trainer.model, trainer.softmax)
    ]
    hours = trainer.total_tokens / speed / 3600
    return Estimate(
        corpus_tokens=train.n_tokens,
        n_pieces=len(train.lengths),
        n_types=len(train.types) - len(SPECIALS),
        n_words=n_words,
        coverage=float(train.counts[:n_words].sum() / train.n_tokens),
        heldout_coverage=float(heldout.counts[:n_words].sum() / heldout.n_tokens),
        n_parameters=sizes[0],
        softmax_parameters=sizes[1],
        memory_bytes=BYTES_PER_PARAMETER * sum(sizes),
        tokens=trainer.total_tokens,
        epochs=trainer.total_tokens / train.n_tokens,
        tokens_per_second=speed,
        hours=min(hours, config.training.hours or hours),
        problems=problem_lines(train.meta),
    )


def _speed(trainer: LMTrainer) -> float:
    """Tokens per second of a few steps after a first one."""
    keep_freed_memory()
    portions = trainer.portions(trainer.position)
    with one_thread():  # as in `Trainer.train`
        trainer.train_step(*next(portions))
        before, started = trainer.tokens, time.monotonic()
        for portion, after in islice(portions, TRIAL_STEPS):
            trainer.train_step(portion, after)
        return (trainer.tokens - before) / (time.monotonic() - started)
