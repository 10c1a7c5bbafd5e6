"""The softmax over words that a biLM is trained with, full or by samples.

Sampling: candidate words are drawn with probability proportional to frequency^0.75, and every
logit is corrected by the logarithm of its word's expected count (Jean et al. 2015, section 3), so
that the sampled gradient estimates the full one. A sampled loss is NOT a log perplexity.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding, linear

from ..types import IntArray

PREDICTIONS_PER_BLOCK = 256  # of the full softmax: bounds its memory, not its result


class WordSoftmax(nn.Module):
    """One softmax over `n_words` for both directions, each with a projection of its own before it.

    Word ids are ranks by falling frequency, after the specials.
    """

    def __init__(self, *, input_width: int, width: int, n_words: int):
        super().__init__()
        self.projections = nn.ModuleList(nn.Linear(input_width, width) for _ in range(2))
        self.weight = nn.Parameter(torch.randn(n_words, width) / math.sqrt(width))
        self.bias = nn.Parameter(torch.zeros(n_words))

    def start_from_counts(self, counts: IntArray) -> None:
        """Set the biases to the log relative frequency of each word, the best constant guess."""
        smoothed = torch.from_numpy(counts).double() + 1
        self.bias.data.copy_((smoothed / smoothed.sum()).log())

    def full_losses(self, direction: int, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood over all words of targets (n,), given hidden (n, input_width)."""
        x = self.projections[direction](hidden)
        blocks = zip(x.split(PREDICTIONS_PER_BLOCK), targets.split(PREDICTIONS_PER_BLOCK))
        losses = [
            cross_entropy(linear(part, self.weight, self.bias), target, reduction="none")
            for part, target in blocks
        ]
        return torch.cat(losses)

    def rows(self, ids: Tensor) -> Tensor:
        """Weight and bias of each word side by side, (n, width + 1)."""
        return torch.cat([embedding(ids, self.weight), embedding(ids, self.bias[:, None])], dim=1)

    def project(self, direction: int, hidden: Tensor) -> Tensor:
        """`hidden` made ready for a product with `rows`, (n, width + 1)."""
        x = self.projections[direction](hidden)
        return torch.cat([x, x.new_ones(len(x), 1)], dim=1)


class Sampler:
    """Draws the candidate words of a step; the draw of a step depends on seed and step alone."""

    def __init__(self, counts: IntArray, n_samples: int, seed: int):
        weights = torch.from_numpy(counts).double().clamp(min=0.5) ** 0.75
        self.probabilities = weights / weights.sum()
        self.n_samples = n_samples
        self.seed = seed
        log_missed = n_samples * torch.log1p(-self.probabilities)
        self.log_expected = torch.log(-torch.expm1(log_missed)).float()

    def draw(self, step: int) -> Tensor:
        """Distinct word ids, at most `n_samples`."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        drawn = torch.multinomial(
            self.probabilities, self.n_samples, replacement=True, generator=generator
        )
        return drawn.unique()


def sampled_loss(
    x: Tensor,
    targets: Tensor,
    target_rows: Tensor,
    candidates: Tensor,
    candidate_rows: Tensor,
    log_expected: Tensor,
) -> Tensor:
    """Mean loss of the predictions x (n, width + 1) of `project`, over target and candidates.

    `*_rows` come from `WordSoftmax.rows`; `log_expected` is the sampler's. A candidate that is the
    prediction's own target is left out, as it would be counted twice.
    """
    true = (x * target_rows).sum(dim=1) - log_expected[targets]
    others = x @ candidate_rows.t() - log_expected[candidates]
    others = others.masked_fill(targets[:, None] == candidates, -math.inf)
    return (torch.logaddexp(true, others.logsumexp(dim=1)) - true).mean()
