"""The softmax over words: exact losses, and samples that estimate their gradient."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_ctxvec.nn.adaptive_softmax import AdaptiveSoftmax
from spacy_ctxvec.nn.candidates import DISTRIBUTIONS
from spacy_ctxvec.nn.softmax import (
    PREDICTIONS_PER_BLOCK,
    Sampler,
    WordSoftmax,
    full_losses,
    log_sum_exp,
    sampled_losses,
)

N_WORDS = 30
COUNTS = np.arange(N_WORDS, 0, -1)
SIZES = [1, PREDICTIONS_PER_BLOCK, PREDICTIONS_PER_BLOCK + 1, 2 * PREDICTIONS_PER_BLOCK + 7]


@pytest.fixture
def softmax() -> WordSoftmax:
    torch.manual_seed(3)
    softmax = WordSoftmax(input_width=4, width=3, n_words=N_WORDS)
    softmax.bias.data.normal_()
    return softmax


def losses_of(
    softmax: WordSoftmax,
    x: Tensor,
    targets: Tensor,
    candidates: Tensor,
    log_expected: Tensor | None = None,
) -> Tensor:
    """Sampled losses; without `log_expected`, every candidate is expected once."""
    log_expected = torch.zeros(N_WORDS) if log_expected is None else log_expected
    rows = softmax.rows(targets), softmax.rows(candidates)
    return sampled_losses(x, targets, rows[0], candidates, rows[1], log_expected)


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("n", SIZES)
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


def sums_over_rows(n: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Inputs of `log_sum_exp`, some of its rows left out."""
    x, weight, bias = torch.randn(n, 3), torch.randn(N_WORDS, 3), torch.randn(N_WORDS)
    leaves = [tensor.to(dtype).requires_grad_() for tensor in (x, weight, bias)]
    return [*leaves, torch.randint(-1, N_WORDS, (n,))]


def plain_sums(x: Tensor, weight: Tensor, bias: Tensor, omit: Tensor) -> Tensor:
    left_out = torch.nn.functional.one_hot(omit + 1, N_WORDS + 1)[:, 1:].bool()
    return (x @ weight.t() + bias).masked_fill(left_out, -math.inf).logsumexp(dim=1)


@pytest.mark.parametrize("omits", [False, True])
@pytest.mark.parametrize("n", [0, *SIZES])
def test_sums_and_their_gradients_are_those_of_plain_autograd(n, omits):
    *leaves, omit = sums_over_rows(n)
    if not omits:
        omit.fill_(-1)
    found = log_sum_exp(*leaves, omit) if omits else log_sum_exp(*leaves)
    want = plain_sums(*leaves, omit)
    assert torch.allclose(found, want, atol=1e-5)
    upstream = torch.randn(n)
    for mine, other in zip(
        torch.autograd.grad(found, leaves, upstream), torch.autograd.grad(want, leaves, upstream)
    ):
        assert torch.allclose(mine, other, atol=1e-4)


def test_gradients_of_sums_by_finite_differences():
    assert torch.autograd.gradcheck(log_sum_exp, sums_over_rows(5, torch.float64))


def test_sums_of_large_logits_do_not_overflow():
    x, weight, bias = torch.ones(2, 3), torch.full((4, 3), 200.0), torch.zeros(4)
    x[1] = -1
    found = log_sum_exp(x.requires_grad_(), weight, bias)
    assert torch.allclose(found, torch.tensor([600.0, -600.0]) + math.log(4))
    found.sum().backward()
    assert torch.allclose(x.grad, torch.tensor(200.0))


def test_half_precision_is_near_and_sums_in_float32():
    *leaves, omit = sums_over_rows(PREDICTIONS_PER_BLOCK + 9)
    half = leaves[0].detach().bfloat16().requires_grad_()
    found = log_sum_exp(half, *leaves[1:], omit)
    want = plain_sums(*leaves, omit)
    assert found.dtype == torch.float32 and torch.allclose(found, want, atol=0.06)
    d_half, *d_rest = torch.autograd.grad(found.sum(), [half, *leaves[1:]])
    d_x, *d_want = torch.autograd.grad(want.sum(), leaves)
    assert d_half.dtype == torch.bfloat16 and torch.allclose(d_half.float(), d_x, atol=0.05)
    for mine, other in zip(d_rest, d_want):
        assert mine.dtype == torch.float32
        assert (mine - other).norm() < 0.02 * other.norm()


def test_all_words_as_candidates_give_the_full_loss(softmax):
    x, targets = torch.randn(6, 3), torch.randint(N_WORDS, (6,))
    found = losses_of(softmax, x, targets, torch.arange(N_WORDS))
    want = full_losses(x, targets, softmax.weight, softmax.bias)
    assert torch.allclose(found, want, atol=1e-6)


def test_a_target_among_the_candidates_counts_once(softmax):
    x, targets = torch.randn(3, 3), torch.tensor([4, 9, 29])  # 29 is beyond the last candidate
    candidates = torch.tensor([2, 4, 11, 17])
    log_expected = torch.randn(N_WORDS)
    found = losses_of(softmax, x, targets, candidates, log_expected)
    logits = x @ softmax.weight.t() + softmax.bias - log_expected
    for i, target in enumerate(targets.tolist()):
        words = [target, *(word for word in candidates.tolist() if word != target)]
        assert torch.allclose(found[i], -logits[i, words].log_softmax(dim=0)[0], atol=1e-5)


def test_a_single_candidate_that_is_the_target_leaves_nothing_to_learn(softmax):
    x = torch.randn(2, 3, requires_grad=True)
    loss = losses_of(softmax, x, torch.tensor([7, 7]), torch.tensor([7])).sum()
    loss.backward()
    assert loss.item() == 0
    for tensor in (x, softmax.weight, softmax.bias):
        assert torch.equal(tensor.grad, torch.zeros_like(tensor))


def assert_mean(samples: Tensor, want: Tensor) -> None:
    """The mean of samples (n, k) may be `want` (k,): of k z-scores, none is beyond 4.5 and their
    squares are on average near 1."""
    z = (samples.mean(dim=0) - want) / (samples.std(dim=0) / math.sqrt(len(samples)))
    assert z.abs().max() < 4.5, z
    assert z.square().mean() < 2, z


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_sum_over_candidates_estimates_that_over_all_other_words(softmax, distribution):
    """Without bias, and so does its gradient for the vectors and for the weights."""
    sampler = Sampler(DISTRIBUTIONS[distribution](COUNTS), 8, seed=1)
    x, target = torch.randn(1, 3, requires_grad=True), torch.tensor([2])
    leaves = [x, softmax.weight, softmax.bias]

    def flat(loss: Tensor) -> Tensor:
        """What the loss says of the other words, and its gradients."""
        true = x @ softmax.weight[2] + softmax.bias[2] - sampler.log_expected[2]
        others = (loss + true).exp() - true.exp()
        gradients = torch.autograd.grad(others.sum(), leaves)
        kept = torch.arange(N_WORDS) != 2  # the target's own gradients are exactly zero
        return torch.cat(
            [others, gradients[0].flatten(), gradients[1][kept].flatten(), gradients[2][kept]]
        ).detach()

    samples = [
        flat(losses_of(softmax, x, target, sampler.draw(step), sampler.log_expected))
        for step in range(700)
    ]
    others = torch.arange(N_WORDS) != 2
    sums = (x @ softmax.weight[others].t() + softmax.bias[others]).exp().sum(dim=1)
    gradients = torch.autograd.grad(sums.sum(), leaves)
    want = [sums, gradients[0].flatten(), gradients[1][others].flatten(), gradients[2][others]]
    assert_mean(torch.stack(samples).double(), torch.cat(want).detach().double())


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_targets_of_the_models_own_choice_leave_no_gradient_on_average(softmax, distribution):
    """As with the full softmax: a model that predicts the text right is at rest."""
    sampler = Sampler(DISTRIBUTIONS[distribution](COUNTS), 12, seed=1)
    x = torch.randn(1, 3).repeat(200, 1).requires_grad_()
    chances = (x[0] @ softmax.weight.t() + softmax.bias).softmax(dim=0).detach()
    samples = []
    for step in range(400):
        targets = torch.multinomial(chances, len(x), replacement=True)
        losses = losses_of(softmax, x, targets, sampler.draw(step), sampler.log_expected)
        d_x, d_weight = torch.autograd.grad(losses.mean(), [x, softmax.weight])
        samples.append(torch.cat([d_x.sum(dim=0), d_weight.flatten()]))
    samples = torch.stack(samples)
    assert_mean(samples.double(), torch.zeros(samples.shape[1]))


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_the_sampled_gradient_is_near_the_full_one(distribution):
    """On average over draws, for given targets; the bias falls with the number of samples."""
    torch.manual_seed(3)
    n_words = 600
    counts = 10_000 // np.arange(1, n_words + 1)
    softmax = WordSoftmax(input_width=3, width=3, n_words=n_words)
    softmax.start_from_counts(counts)
    x = torch.randn(40, 3, requires_grad=True)
    targets = torch.multinomial(torch.from_numpy(counts / counts.sum()), 40, replacement=True)
    leaves = [x, softmax.weight, softmax.bias]
    full = torch.autograd.grad(full_losses(x, targets, softmax.weight, softmax.bias).sum(), leaves)

    def errors(n_samples: int) -> list[float]:
        sampler = Sampler(DISTRIBUTIONS[distribution](counts), n_samples, seed=1)
        means = [torch.zeros_like(tensor) for tensor in leaves]
        for step in range(200):
            drawn = sampler.draw(step)
            rows = softmax.rows(targets), softmax.rows(drawn)
            losses = sampled_losses(x, targets, rows[0], drawn, rows[1], sampler.log_expected)
            for mean, gradient in zip(means, torch.autograd.grad(losses.sum(), leaves)):
                mean += gradient / 200
        return [((m - f).norm() / f.norm()).item() for m, f in zip(means, full)]

    few, more = errors(20), errors(150)
    assert max(few) < 0.25 and max(more) < 0.1, (few, more)
    assert all(m < 0.5 * f for f, m in zip(few, more)), (few, more)


def test_expected_counts_are_those_of_the_draws():
    sampler = Sampler(DISTRIBUTIONS["frequency"](COUNTS), 12, seed=1)
    drawn = torch.zeros(2000, N_WORDS)
    for step in range(2000):
        drawn[step, sampler.draw(step)] = 1
    assert_mean(drawn.double(), sampler.log_expected.double().exp())


def test_a_draw_depends_on_seed_and_step_alone():
    first, same, other = (Sampler(np.full(1000, 1e-3), 20, seed) for seed in (1, 1, 2))
    torch.manual_seed(9)
    assert torch.equal(first.draw(5), same.draw(5))
    assert not torch.equal(first.draw(5), first.draw(6))
    assert not torch.equal(first.draw(5), other.draw(5))
    before = torch.random.get_rng_state()
    drawn = first.draw(7)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(drawn, drawn.unique()) and len(drawn) <= 20


def test_words_that_never_occurred_can_be_drawn():
    sampler = Sampler(DISTRIBUTIONS["frequency"](np.array([0, 0, 5])), n_samples=50, seed=0)
    assert sampler.draw(0).tolist() == [0, 1, 2] and sampler.log_expected.isfinite().all()


@pytest.mark.parametrize("width", [1, 2, 3, 5, 6, 7, 10, 15, 17, 64])
def test_no_cluster_of_an_adaptive_softmax_vanishes(width):
    clusters = AdaptiveSoftmax(input_width=4, width=width, n_words=200).clusters
    widths = [projection.out_features for projection, _ in clusters.tail]
    assert len(widths) == 2 and all(width >= 1 for width in widths)
