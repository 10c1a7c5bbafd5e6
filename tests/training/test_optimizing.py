"""Schedules and optimizers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from spacy_ctxvec.training.optimizing import SCHEDULES, make_optimizer, rate_factor

RUN = np.linspace(0, 1, 101)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [0.0, 0.03, 0.5])
def test_rates_rise_and_then_never_rise_again(schedule, warmup):
    factors = np.array([rate_factor(schedule, warmup, done) for done in RUN])
    assert (factors >= 0).all() and (factors <= 1).all() and factors[0] > 0
    after = factors[warmup <= RUN]
    assert (np.diff(after) <= 0).all()
    assert after[0] == SCHEDULES[schedule](RUN[warmup <= RUN][0])
    if warmup:
        assert factors[0] < 0.04
        first = factors[(warmup > RUN) & (RUN < 0.2)]
        assert (np.diff(first) > 0).all()


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        ("cosine", [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]),
        ("linear", [1, 0.75, 0.5, 0.25, 0]),
        ("constant", [1, 1, 1, 1, 1]),
        ("trapezoid", [1, 1, 1, 1, 0]),
    ],
)
def test_shapes(schedule, values):
    found = [rate_factor(schedule, 0.0, done) for done in (0, 0.25, 0.5, 0.75, 1)]
    assert np.allclose(found, values, atol=1e-12)
    assert rate_factor(schedule, 0.0, 1.2) == rate_factor(schedule, 0.0, 1.0)


def test_the_last_quarter_of_a_trapezoid_is_a_line():
    found = [rate_factor("trapezoid", 0.0, done) for done in (0.8, 0.9, 0.95)]
    assert np.allclose(found, [0.8, 0.4, 0.2])


def steps(kind: str, gradients: list[float], weight: float = 1.0, **settings: float) -> float:
    """A weight after these gradients."""
    parameter = torch.tensor([weight], requires_grad=True)
    values = {"learn_rate": 0.1, "beta2": 0.99, "weight_decay": 0.0, **settings}
    optimizer = make_optimizer(kind, [parameter], **values)
    for gradient in gradients:
        parameter.grad = torch.tensor([gradient])
        optimizer.step()
    return parameter.item()


def test_adagrad_is_that_of_the_reference_trainer():
    """Accumulators start at 1, and weights do not decay."""
    want, total = 1.0, 1.0
    for gradient in (0.5, -2.0, 0.1):
        total += gradient**2
        want -= 0.1 * gradient / math.sqrt(total)
    assert math.isclose(steps("adagrad", [0.5, -2.0, 0.1], weight_decay=0.3), want, rel_tol=1e-6)


def test_adamw_is_the_formula():
    want, first, second = 1.0, 0.0, 0.0
    for step, gradient in enumerate((0.5, -2.0, 0.1), 1):
        first = 0.9 * first + 0.1 * gradient
        second = 0.95 * second + 0.05 * gradient**2
        want -= 0.1 * 0.3 * want
        rate = 0.1 / (1 - 0.9**step)
        want -= rate * first / (math.sqrt(second / (1 - 0.95**step)) + 1e-8)
    found = steps("adamw", [0.5, -2.0, 0.1], beta2=0.95, weight_decay=0.3)
    assert math.isclose(found, want, rel_tol=1e-5)
