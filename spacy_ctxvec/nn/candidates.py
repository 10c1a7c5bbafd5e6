"""From what distribution the candidate words of a sampled softmax are drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..types import FloatArray, IntArray


def smoothed_frequencies(counts: IntArray) -> FloatArray:
    """Proportional to frequency^0.75 (Mikolov et al. 2013, section 2.2), words never seen as half
    a time."""
    weights = np.maximum(counts, 0.5) ** 0.75
    return weights / weights.sum()


def log_uniform(counts: IntArray) -> FloatArray:
    """P(rank k) = log((k + 2) / (k + 1)) / log(n + 1): for words sorted by falling frequency, near
    to Zipf's law; what the reference trainer of ELMo draws from."""
    ranks = np.arange(len(counts))
    return np.log((ranks + 2) / (ranks + 1)) / np.log(len(counts) + 1)


DISTRIBUTIONS: dict[str, Callable[[IntArray], FloatArray]] = {
    "frequency": smoothed_frequencies,
    "log_uniform": log_uniform,
}
