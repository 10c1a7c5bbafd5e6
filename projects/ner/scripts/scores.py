"""Entity scores from counts, and paired bootstrap intervals for their differences.

Counts are kept per document, so a resampling of documents is one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Entities = Sequence[Sequence[object]]
TRUE_POSITIVE, PREDICTED, GOLD = range(3)


def sentence_counts(
    gold: Sequence[Entities], predicted: Sequence[Entities], label: str | None = None
) -> np.ndarray:
    """Count exact matches of span and label in each sentence.

    gold, predicted (Sequence[Entities]): (start, end, label) of each sentence's entities.
    label (str | None): Count this label alone.
    RETURNS (ndarray): (sentences, 3): true positives, predicted, gold.
    """
    rows = []
    for gold_entities, predicted_entities in zip(gold, predicted, strict=True):
        expected, found = _chosen(gold_entities, label), _chosen(predicted_entities, label)
        rows.append((len(expected & found), len(found), len(expected)))
    return np.asarray(rows, dtype="int64").reshape(-1, 3)


def unit_counts(counts: np.ndarray, units: Sequence[int]) -> np.ndarray:
    """Sum the counts of the sentences of each document.

    counts (ndarray): (sentences, 3).
    units (Sequence[int]): The document of each sentence.
    RETURNS (ndarray): (documents, 3), in ascending order of document number.
    """
    _, positions = np.unique(np.asarray(units), return_inverse=True)
    sums = np.zeros((int(positions.max()) + 1, 3), dtype="int64")
    np.add.at(sums, positions, counts)
    return sums


def f_score(counts: np.ndarray) -> np.ndarray:
    """F of total counts (..., 3) -> (...): 2 tp / (predicted + gold), 0 where there is neither."""
    both = counts[..., PREDICTED] + counts[..., GOLD]
    return 2 * counts[..., TRUE_POSITIVE] / np.maximum(both, 1)


def total_f(counts: np.ndarray) -> float:
    """Micro F over all rows of (n, 3)."""
    return float(f_score(counts.sum(axis=0)))


def bootstrap_difference(
    ours: np.ndarray, theirs: np.ndarray, samples: int = 2000, seed: int = 0
) -> tuple[float, float]:
    """95 % interval of F(ours) - F(theirs), each the mean over seeds, documents drawn with return.

    Both systems are scored on the same draw, which removes what the documents have in common.

    ours, theirs (ndarray): (seeds, documents, 3), the same documents in the same order.
    RETURNS (tuple[float, float]): Lower and upper end.
    """
    documents = ours.shape[1]
    draws = np.random.default_rng(seed).multinomial(
        documents, np.full(documents, 1 / documents), size=samples
    )
    difference = _drawn_f(draws, ours) - _drawn_f(draws, theirs)
    low, high = np.quantile(difference, [0.025, 0.975])
    return float(low), float(high)


def error_reduction(ours: float, theirs: float) -> float:
    """By what share the error 1 - F falls from theirs to ours."""
    return (ours - theirs) / (1 - theirs)


def _drawn_f(draws: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mean over seeds of F on each draw.

    draws (ndarray): (samples, documents), how often each document was drawn.
    counts (ndarray): (seeds, documents, 3).
    RETURNS (ndarray): (samples,).
    """
    totals = np.einsum("sd,kdc->ksc", draws, counts)
    return f_score(totals).mean(axis=0)


def _chosen(entities: Entities, label: str | None) -> set[tuple[object, ...]]:
    return {tuple(entity) for entity in entities if label is None or entity[2] == label}
