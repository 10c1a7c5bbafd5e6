"""The adaptive softmax (Grave et al. 2017): frequent words in a head, rare ones in clusters.

Exact like the full softmax, and cheap, since most predictions need the head alone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import torch
from torch import Tensor, nn

from ..types import IntArray
from .softmax import WordSoftmax, log_frequencies

HEAD_SHARE, MIDDLE_SHARE = 1 / 20, 1 / 4  # of the words; the rest are the last cluster


class AdaptiveSoftmax(nn.Module):
    """As `WordSoftmax`: one for both directions, with a projection of its own before it for each.

    Word ids are ranks by falling frequency, after the specials. So the unknown word is in the
    head, where the third most frequent target belongs.
    """

    def __init__(self, *, input_width: int, width: int, n_words: int):
        super().__init__()
        self.n_words = n_words
        self.projections = nn.ModuleList(nn.Linear(input_width, width) for _ in range(2))
        shares = {max(3, int(n_words * share)) for share in (HEAD_SHARE, MIDDLE_SHARE)}
        cutoffs = sorted(cutoff for cutoff in shares if cutoff < n_words)
        # Each cluster is narrower by this factor than the one before; none may vanish, be it by
        # rounding.
        narrower = min(4.0, width ** (1 / max(1, len(cutoffs))) * (1 - 1e-9))
        self.clusters = nn.AdaptiveLogSoftmaxWithLoss(
            width, n_words, cutoffs, div_value=narrower, head_bias=True
        )

    def start_from_counts(self, counts: IntArray) -> None:
        """Set the biases of the head to the log relative frequency of each word and cluster.

        Without that, the frequent words and the unknown word take long to be learned.
        """
        words = log_frequencies(counts)
        borders = [*self.clusters.cutoffs, self.n_words]
        sums = [words[a:b].logsumexp(dim=0) for a, b in pairwise(borders[:-1])]
        head = torch.cat([words[: borders[0]], torch.stack(sums)])
        self.clusters.head.bias.data.copy_(head)

    def project(self, direction: int, hidden: Tensor) -> Tensor:
        """Top layer (n, input_width) -> input of the clusters, (n, width)."""
        return self.projections[direction](hidden)

    def full_losses(self, direction: int, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood over all words of targets (n,), given hidden (n, input_width)."""
        return -self.clusters(self.project(direction, hidden), targets).output


AnySoftmax: TypeAlias = WordSoftmax | AdaptiveSoftmax


def new_softmax(kind: str, *, input_width: int, width: int, n_words: int) -> AnySoftmax:
    """An untrained softmax, "adaptive" or any other kind, which is a matter of training alone."""
    make = AdaptiveSoftmax if kind == "adaptive" else WordSoftmax
    return make(input_width=input_width, width=width, n_words=n_words)
