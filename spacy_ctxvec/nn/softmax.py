"""The softmax over words that a biLM is trained with, full or by samples.

Sampling: candidate words are drawn from a fixed distribution, and every logit is corrected by the
logarithm of its word's expected count (Jean et al. 2015, section 3), so that the sum over
candidates estimates the sum over all words. The gradient of the loss then estimates the full one,
but for a bias that falls as the number of samples grows. A sampled loss is NOT a log perplexity.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, pad

from ..types import FloatArray, IntArray

PREDICTIONS_PER_BLOCK = 256  # bounds the memory of the logits, and keeps them in the core's cache
EVEN = 64
"""Sizes are padded to multiples of this: the library compiles, and keeps, a kernel for each size of
a bfloat16 product, and every step would have sizes of its own."""


class WordSoftmax(nn.Module):
    """One softmax over `n_words` for both directions, each with a projection of its own before it.

    Word ids are ranks by falling frequency, after the specials.
    """

    def __init__(self, *, input_width: int, width: int, n_words: int):
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(input_width, width) for _ in range(2))
        self.weight = nn.Parameter(torch.randn(n_words, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    @property
    def n_words(self) -> int:
        return len(self.bias)

    def start_from_counts(self, counts: IntArray) -> None:
        """Set the biases to the log relative frequency of each word, the best constant guess."""
        self.bias.data.copy_(log_frequencies(counts))

    def project(self, direction: int, hidden: Tensor) -> Tensor:
        """Top layer (n, input_width) -> what `weight` is multiplied with, (n, width)."""
        return self.projections[direction](hidden)

    def full_losses(self, direction: int, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood over all words of targets (n,), given hidden (n, input_width)."""
        return full_losses(self.project(direction, hidden), targets, self.weight, self.bias)

    def rows(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (n, width) and biases (n,) of these words."""
        return embedding(ids, self.weight), embedding(ids, self.bias[:, None])[:, 0]


def log_frequencies(counts: IntArray) -> Tensor:
    """Log relative frequency of each word, one more occurrence granted to all."""
    smoothed = torch.from_numpy(counts).double() + 1
    return (smoothed / smoothed.sum()).log().float()


def full_losses(x: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Negative log-likelihood of targets (n,) under softmax(x weight^T + bias)."""
    true = (x.float() * embedding(targets, weight)).sum(dim=1) + bias[targets]
    return log_sum_exp(x, weight, bias) - true


def sampled_losses(
    x: Tensor,
    targets: Tensor,
    target_rows: tuple[Tensor, Tensor],
    candidates: Tensor,
    candidate_rows: tuple[Tensor, Tensor],
    log_expected: Tensor,
) -> Tensor:
    """Losses (n,) of the predictions x (n, width), over their targets and the sorted candidates.

    `*_rows` come from `WordSoftmax.rows`; `log_expected` is the sampler's. A candidate that is the
    prediction's own target is left out, as it would be counted twice.
    """
    weight, bias = target_rows
    true = (x.float() * weight).sum(dim=1) + bias - log_expected[targets]
    weight, bias = candidate_rows
    place = torch.searchsorted(candidates, targets).clamp_(max=len(candidates) - 1)
    own = torch.where(candidates[place] == targets, place, -1)
    others = log_sum_exp(x, weight, bias - log_expected[candidates], own)
    return torch.logaddexp(true, others) - true


def log_sum_exp(x: Tensor, weight: Tensor, bias: Tensor, omit: Tensor | None = None) -> Tensor:
    """Logarithm of the sum over all rows of exp(x weight^T + bias), (n,), in float32.

    omit (n,): a row that is left out of each sum, -1 for none. The products are made in the
    precision of `x`; the logits of few predictions exist at a time, and again on the way back.
    """
    if omit is None:
        omit = torch.full((len(x),), -1, device=x.device)
    return _LogSumExp.apply(x, weight, bias, omit)  # type: ignore[no-any-return]


class _LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, omit: Tensor) -> Tensor:
        n, n_rows = len(x), len(weight)
        x, omit = _even(x, 0.0), _even(omit, -1)
        # Rows that are no words: their probability is 0.
        weight, bias = _even(weight.to(x.dtype), 0.0), _even(bias, -math.inf)
        starts = range(0, len(x), PREDICTIONS_PER_BLOCK)
        blocks = [_logits(x, weight.t(), bias, omit, start).logsumexp(dim=1) for start in starts]
        sums = torch.cat(blocks) if blocks else bias.new_zeros(0)
        ctx.save_for_backward(x, weight, bias, omit, sums)
        ctx.sizes = n, n_rows
        return sums[:n]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, rows, bias, omit, sums = ctx.saved_tensors
        n, n_rows = ctx.sizes
        gradient = _even(gradients[0], 0.0)
        sums = sums.clamp(min=torch.finfo(sums.dtype).min)  # a sum of nothing has no gradient
        d_x, d_bias = torch.empty_like(x), torch.zeros_like(bias)
        d_weight = torch.zeros(rows.shape, dtype=bias.dtype, device=rows.device)
        for start in range(0, len(x), PREDICTIONS_PER_BLOCK):
            part = slice(start, start + PREDICTIONS_PER_BLOCK)
            logits = _logits(x, rows.t(), bias, omit, start)
            d_logits = logits.sub_(sums[part, None]).exp_().mul_(gradient[part, None])
            d_bias += d_logits.sum(dim=0)
            d_logits = d_logits.to(x.dtype)
            torch.mm(d_logits, rows, out=d_x[part])
            d_weight += d_logits.t() @ x[part]
        return d_x[:n], d_weight[:n_rows], d_bias[:n_rows], None


def _even(tensor: Tensor, value: float) -> Tensor:
    """Padded with `value` to a whole number of times `EVEN` in its first dimension."""
    missing = -len(tensor) % EVEN
    return pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, missing), value=value)


def _logits(x: Tensor, columns: Tensor, bias: Tensor, omit: Tensor, start: int) -> Tensor:
    part = slice(start, start + PREDICTIONS_PER_BLOCK)
    logits = (x[part] @ columns).to(bias.dtype).add_(bias)
    # Every row is written to, those without omission what they have: to pick rows out, the
    # processor would have to wait for a GPU.
    omitted = omit[part, None]
    own = omitted.clamp(min=0)
    return logits.scatter_(1, own, logits.gather(1, own).masked_fill_(omitted >= 0, -math.inf))


class Sampler:
    """Draws the candidate words of a step; the draw of a step depends on seed and step alone.

    probabilities (n_words,): of each word in one draw.
    """

    def __init__(self, probabilities: FloatArray, n_samples: int, seed: int):
        self.probabilities = torch.from_numpy(probabilities)
        self.n_samples = n_samples
        self.seed = seed
        log_missed = n_samples * torch.log1p(-self.probabilities)
        self.log_expected = torch.log(-torch.expm1(log_missed)).float()

    def draw(self, step: int) -> Tensor:
        """Distinct word ids in rising order, at most `n_samples`."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        drawn = torch.multinomial(
            self.probabilities, self.n_samples, replacement=True, generator=generator
        )
        return drawn.unique()
