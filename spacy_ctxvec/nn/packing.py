"""Where each token of a ragged batch stands when it is read, forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import IntArray


@dataclass(frozen=True)
class Packing:
    """The order in which sequences that are read together take their steps (`lstm`).

    Positions are flat ones: those of the whole batch, sequence after sequence.

    order         (n_sequences,)  packed row -> sequence, by falling length
    batch_sizes   (longest,)      rows still running at each step
    forward       (n_positions,)  packed position -> flat position
    backward      (n_positions,)  the same, each sequence read from its end

    An even packing lets some rows run on after their end, so that as many run at each step as are
    a multiple of a number: they read their last position again and again, which changes nothing but
    their final state. With the number of all rows, the batch is a rectangle.
    """

    order: IntArray
    batch_sizes: IntArray
    forward: IntArray
    backward: IntArray

    @classmethod
    def of(cls, lengths: IntArray, sequences: IntArray | None = None, *, even: int = 1) -> Packing:
        """`lengths` (n_all_sequences,) counts the positions of each sequence, 1 or more.

        `sequences` are the numbers of those that are read together, by default all of them.
        """
        starts = np.cumsum(lengths) - lengths
        if sequences is None:
            sequences = np.arange(len(lengths))
        order = sequences[np.argsort(-lengths[sequences], kind="stable")]
        steps = np.arange(int(lengths[order[0]]))[:, None]
        last = lengths[order] - 1
        read = np.minimum(steps, last)
        n_running = -(-(steps <= last).sum(axis=1) // even) * even
        running = np.arange(len(order)) < n_running[:, None]
        return cls(
            order=order,
            batch_sizes=running.sum(axis=1),
            forward=(starts[order] + read)[running],
            backward=(starts[order] + last - read)[running],
        )


def token_positions(lengths: IntArray) -> IntArray:
    """Flat position of each token among framed sequences, shape (sum of lengths,)."""
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(len(sequence)) + 2 * sequence + 1


def framed_index(index: IntArray, lengths: IntArray) -> IntArray:
    """Rows of `index` with row 0 before and row 1 after each sequence: the sentence marks."""
    ends = np.cumsum(lengths + 2) - 1
    framed = np.zeros(len(index) + 2 * len(lengths), dtype=np.int64)
    framed[ends] = 1
    framed[token_positions(lengths)] = index
    return framed


def inverse(order: IntArray) -> IntArray:
    """Where in `order` each position stands, 0 .. its largest one; of those that are repeated, the
    first time."""
    places = np.empty(order.max() + 1, dtype=np.int64)
    places[order[::-1]] = np.arange(len(order))[::-1]
    return places
