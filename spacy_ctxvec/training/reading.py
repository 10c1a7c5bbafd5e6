"""In what order and in what portions a corpus is read by the two language models.

A *row* is read from its start to its end (backwards: from its end to its start) with the LSTM
state carried along; rows that are read side by side form a *group*, and every `unroll` columns of
a group are one training step, at whose border gradients stop (truncated back-propagation).

    carry = "document"  a row is one piece of the corpus, and a group is pieces of like length
    carry = "stream"    an epoch is one group whose rows are the shuffled pieces one after another,
                        as the reference trainer of ELMo reads
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, Corpus
from ..types import IntArray
from .position import Position

PIECES_PER_POOL = 4096  # pieces sorted by length together: little padding, still a random order
NO_TARGET = -1


class Row:
    """Pieces read one after another as one sequence of (input, target) pairs, in one direction.

    A piece of n words makes n + 1 pairs: forwards from the start mark to the end mark, backwards
    from the end mark to the start mark.
    """

    def __init__(self, corpus: Corpus, pieces: IntArray, direction: int):
        self.corpus = corpus
        self.direction = direction
        self.pieces = pieces[::-1] if direction else pieces
        self.ends = np.cumsum(corpus.lengths[self.pieces] + 1)

    def read(self, start: int, end: int) -> tuple[IntArray, IntArray]:
        """Inputs and targets of pairs `start` to `end`, fewer where the row has ended."""
        first = int(np.searchsorted(self.ends, start, "right"))
        last = int(np.searchsorted(self.ends, end, "left"))
        framed = [self._framed(int(number)) for number in self.pieces[first : last + 1]]
        if not framed:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        skipped = start - (int(self.ends[first - 1]) if first else 0)
        inputs = np.concatenate([ids[:-1] for ids in framed])[skipped : skipped + end - start]
        targets = np.concatenate([ids[1:] for ids in framed])[skipped : skipped + end - start]
        return inputs, targets

    def _framed(self, number: int) -> IntArray:
        ids = [SENTENCE_START_ID], self.corpus.piece(number), [SENTENCE_END_ID]
        framed = np.concatenate(ids).astype(np.int64)
        return framed[::-1] if self.direction else framed


class Group:
    """Rows that are read side by side, in steps of equal width.

    Of several processes, each reads every `n_ranks`-th row, from row `rank` on.
    """

    def __init__(
        self, corpus: Corpus, rows: list[IntArray], unroll: int, rank: int = 0, n_ranks: int = 1
    ):
        longest = max(int(corpus.lengths[pieces].sum()) + len(pieces) for pieces in rows)
        own = rows[rank::n_ranks]
        self.rows = [[Row(corpus, pieces, direction) for pieces in own] for direction in (0, 1)]
        self.n_steps = -(-longest // unroll)
        self.width = -(-longest // self.n_steps)

    def read(self, step: int) -> tuple[list[IntArray], list[IntArray]]:
        """Inputs and targets of each direction, (n_columns, n_rows); `NO_TARGET` beyond a row."""
        both = [self._read(direction, step) for direction in (0, 1)]
        inputs, targets = zip(*both)
        return list(inputs), list(targets)

    def _read(self, direction: int, step: int) -> tuple[IntArray, IntArray]:
        start = step * self.width
        parts = [row.read(start, start + self.width) for row in self.rows[direction]]
        # A process without rows reads one position that nothing is predicted from.
        shape = (max((len(inputs) for inputs, _ in parts), default=1) or 1, len(parts) or 1)
        inputs = np.full(shape, SENTENCE_START_ID, dtype=np.int64)
        targets = np.full(shape, NO_TARGET, dtype=np.int64)
        for i, (row_inputs, row_targets) in enumerate(parts):
            inputs[: len(row_inputs), i] = row_inputs
            targets[: len(row_targets), i] = row_targets
        return inputs, targets


class Reader:
    """All steps of all epochs: a function of (corpus, carry, batch_tokens, unroll, seed) alone."""

    def __init__(
        self,
        corpus: Corpus,
        *,
        batch_tokens: int,
        unroll: int,
        carry: str = "document",
        seed: int = 0,
        rank: int = 0,
        n_ranks: int = 1,
    ):
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.unroll = unroll
        self.carry = carry
        self.seed = seed
        self.rank = rank
        self.n_ranks = n_ranks
        self._plan: tuple[int, list[list[IntArray]]] | None = None

    def steps(self, start: Position) -> Iterator[tuple[Group, int, Position]]:
        """(group, step in it, position after it) from `start` on, for ever."""
        epoch, first_group, first_step = start.epoch, start.group, start.step
        while True:
            groups = self.plan(epoch)
            for number in range(first_group, len(groups)):
                group = Group(self.corpus, groups[number], self.unroll, self.rank, self.n_ranks)
                for step in range(first_step, group.n_steps):
                    last = step == group.n_steps - 1
                    after = (
                        Position(epoch, number + 1) if last else Position(epoch, number, step + 1)
                    )
                    yield group, step, after
                first_step = 0
            epoch, first_group = epoch + 1, 0

    def plan(self, epoch: int) -> list[list[IntArray]]:
        """The rows of each group of an epoch."""
        if self._plan is None or self._plan[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.corpus.lengths))
            stream = self.carry == "stream"
            groups = self._streams(order) if stream else self._documents(order, random)
            self._plan = (epoch, groups)
        return self._plan[1]

    def _streams(self, order: IntArray) -> list[list[IntArray]]:
        n_rows = max(1, self.batch_tokens // self.unroll)
        pairs = np.cumsum(self.corpus.lengths[order] + 1)
        borders = np.searchsorted(pairs, pairs[-1] * np.arange(1, n_rows) / n_rows)
        return [[row for row in np.split(order, borders) if len(row)]]

    def _documents(self, order: IntArray, random: np.random.Generator) -> list[list[IntArray]]:
        groups: list[list[IntArray]] = []
        for start in range(0, len(order), PIECES_PER_POOL):
            pool = order[start : start + PIECES_PER_POOL]
            parts = _groups(self.corpus, pool, self.batch_tokens, self.unroll)
            groups += [parts[i] for i in random.permutation(len(parts))]
        return groups


def reading_order(
    corpus: Corpus, batch_tokens: int, unroll: int, max_tokens: int | None
) -> list[list[IntArray]]:
    """Groups of the pieces that begin within `max_tokens`, for reading everything once."""
    return _groups(corpus, np.arange(pieces_within(corpus, max_tokens)), batch_tokens, unroll)


def pieces_within(corpus: Corpus, max_tokens: int | None) -> int:
    """How many pieces begin within the first `max_tokens`, 1 at least; all of them for None."""
    if max_tokens is None:
        return len(corpus.lengths)
    return max(1, int(np.searchsorted(corpus.offsets[:-1], max_tokens)))


def _groups(
    corpus: Corpus, pieces: IntArray, batch_tokens: int, unroll: int
) -> list[list[IntArray]]:
    """Pieces of like length together, so many that each step is about `batch_tokens`."""
    pieces = pieces[np.argsort(-corpus.lengths[pieces], kind="stable")]
    groups, start = [], 0
    while start < len(pieces):
        longest = int(corpus.lengths[pieces[start]]) + 1
        n_steps = -(-longest // unroll)
        n_rows = max(1, batch_tokens // -(-longest // n_steps))
        groups.append(list(pieces[start : start + n_rows, None]))
        start += n_rows
    return groups
