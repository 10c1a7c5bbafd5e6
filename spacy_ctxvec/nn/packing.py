"""Where each token of a ragged batch stands when it is read, forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..types import IntArray

# What a step costs besides its rows, in rows: measured with the shipped model.
STEP_COST = 4


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
    their final state. In a rectangle all rows run at each step, and some are read twice.
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
        order = _by_length(lengths, sequences)
        steps = np.arange(int(lengths[order[0]]))[:, None]
        n_running = -(-(steps < lengths[order]).sum(axis=1) // even) * even
        return cls._reading(lengths, order, np.arange(len(order)) < n_running[:, None])

    @classmethod
    def cheapest(cls, lengths: IntArray, sequences: IntArray, ragged_cost: float) -> Packing:
        """A rectangle, or not, by what either takes."""
        ragged, rectangle = _costs(lengths[sequences])
        if rectangle < ragged_cost * ragged:
            return cls.rectangle(lengths, sequences)
        return cls.of(lengths, sequences)

    @classmethod
    def rectangle(cls, lengths: IntArray, sequences: IntArray | None = None) -> Packing:
        """The same with rows that all take as many steps. There are few sizes: for each new one a
        library that compiles its kernels keeps some hundred kilobytes, and takes a millisecond."""
        order = _by_length(lengths, sequences)
        rows = order[np.minimum(np.arange(_round(len(order))), len(order) - 1)]
        n_steps = _round(int(lengths[order[0]]))
        return cls._reading(lengths, rows, np.ones((n_steps, len(rows)), dtype=bool))

    @classmethod
    def _reading(cls, lengths: IntArray, order: IntArray, running: NDArray[np.bool_]) -> Packing:
        """running (n_steps, n_rows): which rows take which steps"""
        starts, last = (np.cumsum(lengths) - lengths)[order], lengths[order] - 1
        read = np.minimum(np.arange(len(running))[:, None], last)
        return cls(
            order=order,
            batch_sizes=running.sum(axis=1),
            forward=(starts + read)[running],
            backward=(starts + last - read)[running],
        )


def cost(lengths: IntArray, ragged_cost: float) -> float:
    """What it takes to read these sequences together, in rows of a rectangle.

    ragged_cost: what a row of a step takes where they are no rectangle; infinite where they have to
        be one, 0 where they must not
    """
    ragged, rectangle = _costs(lengths)
    return min(ragged_cost * ragged, rectangle)


def _costs(lengths: IntArray) -> tuple[int, int]:
    """Rows of all steps, those that the steps themselves are worth included: as they are, and as a
    rectangle."""
    longest = int(lengths.max())
    rectangle = _round(longest) * (_round(len(lengths)) + STEP_COST)
    return int(lengths.sum()) + longest * STEP_COST, rectangle


def _by_length(lengths: IntArray, sequences: IntArray | None) -> IntArray:
    if sequences is None:
        sequences = np.arange(len(lengths))
    return sequences[np.argsort(-lengths[sequences], kind="stable")]


def _round(n: int) -> int:
    """Up to the next number of four bits and zeros, which is an eighth more at most."""
    unit = 1 << max(0, n.bit_length() - 4)
    return -(-n // unit) * unit


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
