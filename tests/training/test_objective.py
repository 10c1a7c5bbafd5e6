"""The objectives: losses of both directions, gradients against plain autograd."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_ctxvec.nn.adaptive_softmax import AdaptiveSoftmax, new_softmax
from spacy_ctxvec.nn.softmax import Sampler, WordSoftmax
from spacy_ctxvec.training.objective import (
    AdaptiveObjective,
    FullObjective,
    Objective,
    SampledObjective,
)

N_WORDS, WIDTH = 40, 5
TARGETS = [torch.tensor([0, 2, 2, 39, 7]), torch.tensor([1, 7, 20])]  # of the two directions


def setting(kind: str) -> tuple[AdaptiveSoftmax | WordSoftmax, Objective]:
    """A softmax and its objective; "sampled" has every word as a candidate, expected once."""
    softmax = new_softmax(kind, input_width=WIDTH, width=WIDTH, n_words=N_WORDS)
    softmax.start_from_counts(np.arange(N_WORDS, 0, -1))
    if isinstance(softmax, AdaptiveSoftmax):
        return softmax, AdaptiveObjective(softmax)
    if kind == "full":
        return softmax, FullObjective(softmax)
    sampler = Sampler(np.full(N_WORDS, 1 / N_WORDS), 2000, seed=0)
    assert len(sampler.draw(0)) == N_WORDS and sampler.log_expected.abs().max() < 1e-6
    return softmax, SampledObjective(softmax, sampler)


def through(objective: Objective, inputs: list[Tensor], step: int = 0) -> list[Tensor]:
    """Losses of the directions, gradients handed on as a trainer does."""
    shared = objective.shared(step, TARGETS)
    leaves = [[tensor.detach().requires_grad_() for tensor in shared] for _ in TARGETS]
    losses = [objective.losses(i, inputs[i], leaves[i]) for i in range(len(TARGETS))]
    for of_direction in losses:
        of_direction.sum().backward()
    objective.backward([a.grad + b.grad for a, b in zip(*leaves)])
    return losses


@pytest.mark.parametrize("kind", ["full", "sampled", "adaptive"])
def test_losses_and_gradients_are_those_of_all_words(kind):
    softmax, objective = setting(kind)
    own = (
        list(softmax.clusters.parameters())
        if kind == "adaptive"
        else [softmax.weight, softmax.bias]
    )
    hidden = [torch.randn(len(targets), WIDTH) for targets in TARGETS]
    inputs = [softmax.project(i, hidden[i]).detach().requires_grad_() for i in (0, 1)]
    losses = through(objective, inputs)
    found = [parameter.grad.clone() for parameter in own]
    d_inputs = [x.grad.clone() for x in inputs]
    softmax.zero_grad()
    want = [softmax.full_losses(i, hidden[i], TARGETS[i]) for i in (0, 1)]
    for mine, other in zip(losses, want):
        assert torch.allclose(mine, other, atol=1e-5)
    sum(loss.sum() for loss in want).backward()
    for mine, parameter in zip(found, own):
        assert torch.allclose(mine, parameter.grad, atol=1e-5)
    for direction, d_input in enumerate(d_inputs):
        projection = softmax.projections[direction]
        assert torch.allclose(d_input.t() @ hidden[direction], projection.weight.grad, atol=1e-5)


def test_sampling_moves_the_rows_of_targets_and_candidates_alone():
    softmax = WordSoftmax(input_width=WIDTH, width=WIDTH, n_words=N_WORDS)
    sampler = Sampler(np.full(N_WORDS, 1 / N_WORDS), 6, seed=0)
    objective = SampledObjective(softmax, sampler)
    inputs = [torch.randn(len(targets), WIDTH) for targets in TARGETS]
    through(objective, inputs, step=4)
    moved = softmax.weight.grad.any(dim=1).nonzero()[:, 0]
    used = torch.cat([sampler.draw(4), *TARGETS]).unique()
    assert torch.equal(moved, used) and len(used) < N_WORDS
    assert torch.equal(softmax.bias.grad.nonzero()[:, 0], used)


def test_gradients_of_steps_add_up_only_where_they_are_not_cleared():
    softmax = WordSoftmax(input_width=WIDTH, width=WIDTH, n_words=N_WORDS)
    objective = SampledObjective(softmax, Sampler(np.full(N_WORDS, 1 / N_WORDS), 6, seed=0))
    inputs = [torch.randn(len(targets), WIDTH) for targets in TARGETS]
    through(objective, inputs, step=1)
    first = softmax.weight.grad.clone()
    softmax.weight.grad.zero_()
    through(objective, inputs, step=1)
    assert torch.equal(softmax.weight.grad, first)
