"""The settings of a language-model training, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .. import errors
from ..nn.candidates import DISTRIBUTIONS
from ..nn.precision import PRECISIONS
from ..text.corpus import Corpus
from .optimizing import OPTIMIZERS, SCHEDULES

SOFTMAXES = ("sampled", "full", "adaptive")
CARRIES = ("document", "stream")
CHOICES = {
    "softmax": SOFTMAXES,
    "sampler": tuple(DISTRIBUTIONS),
    "optimizer": OPTIMIZERS,
    "schedule": tuple(SCHEDULES),
    "carry": CARRIES,
    "precision": PRECISIONS,
}
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "tokens batch_tokens unroll n_samples evaluate_every eval_tokens": (
        lambda value: value >= 1,
        "1 or more",
    ),
    "epochs hours patience weight_decay checkpoint_seconds seed": (
        lambda value: value >= 0,
        "0 or more",
    ),
    "learn_rate grad_clip loss_scale": (lambda value: value > 0, "above 0"),
    "dropout warmup beta2": (lambda value: 0 <= value < 1, "0 or more, below 1"),
}


@dataclass(frozen=True)
class LMTrainingConfig:
    """How long, how fast, and how.

    tokens counts each token once, though both directions read it; epochs, where above 0, counts
        passes over the corpus instead, and hours, where above 0, ends a run that takes longer
    batch_tokens, unroll: tokens of a step, and columns of it (`reading`)
    loss_scale: what the mean loss is multiplied with before gradients are clipped; matters to
        Adagrad, whose accumulators start at 1
    patience: evaluations without a better held-out perplexity before the run ends, with the
        weights of the best one; 0 is for ever, with the last weights
    threads: the two directions run at the same time, each on one core
    """

    tokens: int = 10_000_000
    epochs: float = 0.0
    hours: float = 0.0
    batch_tokens: int = 4096
    unroll: int = 128
    carry: str = "document"
    softmax: str = "sampled"
    sampler: str = "frequency"
    n_samples: int = 2048
    optimizer: str = "adamw"
    learn_rate: float = 3e-3
    schedule: str = "cosine"
    warmup: float = 0.03
    beta2: float = 0.99
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    loss_scale: float = 1.0
    dropout: float = 0.0
    precision: str = "auto"
    seed: int = 0
    threads: bool = True
    evaluate_every: int = 1000
    patience: int = 0
    checkpoint_seconds: float = 120.0
    eval_tokens: int = 20_000

    def __post_init__(self) -> None:
        for field, choices in CHOICES.items():
            self._check(field, getattr(self, field) in choices, ", ".join(choices))
        for fields, (holds, expected) in RANGES.items():
            for field in fields.split():
                self._check(field, holds(getattr(self, field)), expected)

    def _check(self, field: str, holds: bool, expected: str) -> None:
        if not holds:
            found = getattr(self, field)
            message = errors.BAD_SETTING.format(field=field, found=found, expected=expected)
            raise errors.CtxvecError(message)

    def total_tokens(self, corpus: Corpus) -> int:
        return max(1, round(self.epochs * corpus.n_tokens)) if self.epochs else self.tokens
