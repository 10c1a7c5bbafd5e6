"""The optimizers and learning-rate schedules of all trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

OPTIMIZERS = ("adamw", "adagrad", "sgd")


def make_optimizer(
    kind: str, parameters: Iterable[Tensor], *, learn_rate: float, beta2: float, weight_decay: float
) -> torch.optim.Optimizer:
    """AdamW; Adagrad as the reference trainer of ELMo has it (accumulators start at 1); or SGD."""
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=learn_rate)
    if kind == "adagrad":
        return torch.optim.Adagrad(parameters, lr=learn_rate, initial_accumulator_value=1.0)
    return torch.optim.AdamW(
        parameters, lr=learn_rate, betas=(0.9, beta2), weight_decay=weight_decay, fused=True
    )


def cosine(done: float) -> float:
    """Half a cosine from 1 to 0."""
    return 0.5 * (1 + math.cos(math.pi * done))


def linear(done: float) -> float:
    """A straight line from 1 to 0."""
    return 1 - done


def constant(done: float) -> float:
    return 1.0


def trapezoid(done: float) -> float:
    """1 for three quarters of the run, then a straight line to 0.

    As good as a cosine, and the length of a run may still be changed while it goes on.
    """
    return min(1.0, 4 * (1 - done))


SCHEDULES: dict[str, Callable[[float], float]] = {
    "cosine": cosine,
    "linear": linear,
    "constant": constant,
    "trapezoid": trapezoid,
}


def rate_factor(schedule: str, warmup: float, done: float) -> float:
    """What the learning rate is multiplied with when a part `done` (0 to 1) of the run is behind.

    It rises in a straight line over the first `warmup` of the run.
    """
    factor = SCHEDULES[schedule](min(1.0, done))
    return factor * (done + 1e-3) / (warmup + 1e-3) if done < warmup else factor
