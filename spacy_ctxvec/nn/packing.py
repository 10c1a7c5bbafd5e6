"""Where each token of a ragged batch stands in packed order, read forwards and backwards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..types import IntArray


@dataclass(frozen=True)
class Packing:
    """Index arrays between flat order (sequence after sequence) and packed order (`lstm`).

    The sequences are framed: each has two sentence marks around its tokens.

    order         (n_sequences,)  packed row -> sequence, by falling length
    batch_sizes   (longest,)      rows still running at each step
    forward       (n_framed,)     packed position -> flat position
    backward      (n_framed,)     the same, each sequence read from its end
    from_forward  (n_tokens,)     token without marks -> packed position, forward
    from_backward (n_tokens,)     token without marks -> packed position, backward
    """

    order: IntArray
    batch_sizes: IntArray
    forward: IntArray
    backward: IntArray
    from_forward: IntArray
    from_backward: IntArray

    @classmethod
    def of(cls, lengths: IntArray) -> Packing:
        """`lengths` (n_sequences,) counts the tokens of each sequence without its marks."""
        framed = lengths + 2
        starts = np.cumsum(framed) - framed
        order = np.argsort(-framed, kind="stable")
        steps = np.arange(int(framed.max()))[:, None]
        running = steps < framed[order]
        forward = (starts[order] + steps)[running]
        backward = ((starts + framed - 1)[order] - steps)[running]
        tokens = token_positions(lengths)
        return cls(
            order=order,
            batch_sizes=running.sum(axis=1),
            forward=forward,
            backward=backward,
            from_forward=_inverse(forward)[tokens],
            from_backward=_inverse(backward)[tokens],
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


def _inverse(permutation: IntArray) -> IntArray:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse
