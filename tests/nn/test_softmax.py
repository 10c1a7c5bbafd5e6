"""The softmax over words: exact losses, and samples that estimate their gradient."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spacy_ctxvec.nn.softmax import PREDICTIONS_PER_BLOCK, Sampler, WordSoftmax, sampled_loss

N_WORDS = 30


@pytest.fixture
def softmax() -> WordSoftmax:
    torch.manual_seed(3)
    softmax = WordSoftmax(input_width=4, width=3, n_words=N_WORDS)
    softmax.bias.data.normal_()
    return softmax


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("n", [1, PREDICTIONS_PER_BLOCK, PREDICTIONS_PER_BLOCK + 1])
def test_the_full_loss_is_the_log_softmax(softmax, direction, n):
    hidden, targets = torch.randn(n, 4), torch.randint(N_WORDS, (n,))
    logits = softmax.projections[direction](hidden) @ softmax.weight.t() + softmax.bias
    want = -logits.log_softmax(dim=1)[torch.arange(n), targets]
    assert torch.allclose(softmax.full_losses(direction, hidden, targets), want, atol=1e-5)


def test_starts_from_the_frequencies(softmax):
    counts = np.arange(N_WORDS)
    softmax.start_from_counts(counts)
    want = (counts + 1) / (counts + 1).sum()
    assert np.allclose(softmax.bias.detach().exp(), want, atol=1e-6)


def loss_of_draw(softmax, sampler, step, hidden, targets):
    candidates = sampler.draw(step)
    rows = softmax.rows(torch.cat([candidates, targets]))
    return sampled_loss(
        softmax.project(0, hidden),
        targets,
        rows[len(candidates) :],
        candidates,
        rows[: len(candidates)],
        sampler.log_expected,
    )


def test_all_words_as_candidates_give_the_full_loss(softmax):
    hidden, targets = torch.randn(6, 4), torch.randint(N_WORDS, (6,))
    rows = softmax.rows(torch.cat([torch.arange(N_WORDS), targets]))
    loss = sampled_loss(
        softmax.project(0, hidden), targets, rows[N_WORDS:], torch.arange(N_WORDS),
        rows[:N_WORDS], torch.zeros(N_WORDS),
    )  # fmt: skip
    assert torch.allclose(loss, softmax.full_losses(0, hidden, targets).mean(), atol=1e-6)


def test_the_sampled_gradient_estimates_the_full_one(softmax):
    counts = np.arange(N_WORDS, 0, -1) ** 2
    hidden = torch.randn(8, 4, requires_grad=True)
    targets = torch.randint(N_WORDS, (8,))
    full = torch.autograd.grad(softmax.full_losses(0, hidden, targets).mean(), hidden)[0]

    def error(n_samples: int) -> float:
        """Of the mean of 400 draws, relative."""
        sampler = Sampler(counts, n_samples, seed=1)
        losses = [loss_of_draw(softmax, sampler, step, hidden, targets) for step in range(400)]
        mean = torch.autograd.grad(torch.stack(losses).mean(), hidden)[0]
        return ((mean - full).norm() / full.norm()).item()

    few, more = error(6), error(48)
    assert few < 0.25 and more < 0.05, (few, more)  # the bias falls with the number of samples


def test_expected_counts_are_those_of_the_draws():
    sampler = Sampler(np.arange(N_WORDS, 0, -1) ** 2, n_samples=12, seed=1)
    drawn = torch.zeros(N_WORDS)
    for step in range(2000):
        drawn[sampler.draw(step)] += 1
    assert torch.allclose(drawn / 2000, sampler.log_expected.exp(), atol=0.04)


def test_a_draw_depends_on_seed_and_step_alone():
    counts = np.ones(1000, dtype=np.int64)
    first, same, other = (Sampler(counts, 20, seed) for seed in (1, 1, 2))
    torch.manual_seed(9)
    assert torch.equal(first.draw(5), same.draw(5))
    assert not torch.equal(first.draw(5), first.draw(6))
    assert not torch.equal(first.draw(5), other.draw(5))
    assert len(first.draw(5).unique()) == len(first.draw(5))


def test_words_that_never_occurred_can_be_drawn():
    sampler = Sampler(np.array([0, 0, 5]), n_samples=50, seed=0)
    assert sampler.draw(0).tolist() == [0, 1, 2] and sampler.log_expected.isfinite().all()


def test_a_candidate_that_is_every_target_gives_finite_gradients(softmax):
    hidden = torch.randn(2, 4, requires_grad=True)
    targets = torch.tensor([7, 7])
    rows = softmax.rows(torch.tensor([7, 7, 7]))
    loss = sampled_loss(
        softmax.project(0, hidden), targets, rows[1:], targets[:1], rows[:1], torch.zeros(N_WORDS)
    )
    loss.backward()
    assert loss.item() == 0 and torch.isfinite(hidden.grad).all()
