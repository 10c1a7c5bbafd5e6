"""The settings that all trainings have, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ..checks import check
from ..nn.precision import PRECISIONS
from .optimizing import OPTIMIZERS, SCHEDULES

Ranges = dict[str, tuple[Callable[[float], bool], str]]


@dataclass(frozen=True)
class TrainingConfig:
    """How long, how fast, and how.

    epochs: where above 0, passes over the text to read
    hours: where above 0, ends a run that takes longer
    loss_scale: what the mean loss is multiplied with before gradients are clipped; matters to
        Adagrad, whose accumulators start at 1
    evaluate_every: steps from one evaluation to the next; 0 evaluates after each epoch
    patience: evaluations without a better one before the run ends, with the weights of the best
        one; 0 is for ever, with the last weights
    """

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        "optimizer": OPTIMIZERS,
        "schedule": tuple(SCHEDULES),
        "precision": PRECISIONS,
    }
    RANGES: ClassVar[Ranges] = {
        "epochs hours patience weight_decay checkpoint_seconds seed evaluate_every": (
            lambda value: value >= 0,
            "0 or more",
        ),
        "learn_rate grad_clip loss_scale": (lambda value: value > 0, "above 0"),
        "dropout warmup beta2": (lambda value: 0 <= value < 1, "0 or more, below 1"),
    }

    epochs: float = 0.0
    hours: float = 0.0
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
    evaluate_every: int = 1000
    patience: int = 0
    checkpoint_seconds: float = 120.0

    def __post_init__(self) -> None:
        for field, choices in self.CHOICES.items():
            check(self, field, getattr(self, field) in choices, ", ".join(choices))
        for fields, (holds, expected) in self.RANGES.items():
            for field in fields.split():
                check(self, field, holds(getattr(self, field)), expected)
