"""In what order and in what portions a corpus of pairs is read by a translation model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..nn.nmt import BOS, PAD, UNK
from ..text.corpus import SPECIALS, UNKNOWN_ID
from ..text.pair_corpus import PairCorpus
from ..types import FloatArray, IntArray
from .position import Position

PAIRS_PER_POOL = 1 << 14  # sorted by length together: little padding, still a random order
N_MARKS = BOS + 2  # ids of the target side that are no words: PAD, UNK, BOS, EOS
SHIFT = N_MARKS - len(SPECIALS)


@dataclass(frozen=True)
class PairBatch:
    """Pairs as the translation model takes them.

    vectors (n_tokens, input_width), lengths (n_pairs,): the source, sentence after sentence
    targets (n_pairs, longest): word ids, then PAD
    """

    vectors: Tensor
    lengths: IntArray
    targets: IntArray


class PairReader:
    """Batches of pairs of like length; their order is a function of (corpus, seed) alone.

    vectors (n_types, input_width): of each source type of the corpus
    n_target_words: how many words of the target side the model knows, marks and unknown word
        among them; the corpus has the most frequent ones first
    """

    def __init__(
        self,
        pairs: PairCorpus,
        vectors: FloatArray,
        n_target_words: int,
        *,
        batch_pairs: int,
        seed: int = 0,
    ):
        self.pairs = pairs
        self.vectors = vectors
        self.n_target_words = n_target_words
        self.batch_pairs = batch_pairs
        self.seed = seed
        self._plan: tuple[int, list[IntArray]] | None = None

    def steps(self, start: Position) -> Iterator[tuple[IntArray, Position]]:
        """The numbers of the pairs of each step from `start` on, and the position after it."""
        epoch, first = start.epoch, start.group
        while True:
            plan = self.plan(epoch)
            for number in range(first, len(plan)):
                last = number == len(plan) - 1
                yield plan[number], Position(epoch + 1) if last else Position(epoch, number + 1)
            epoch, first = epoch + 1, 0

    def plan(self, epoch: int) -> list[IntArray]:
        """The pairs of each step of an epoch."""
        if self._plan is None or self._plan[0] != epoch:
            random = np.random.default_rng([self.seed, epoch])
            order = random.permutation(len(self.pairs))
            steps: list[IntArray] = []
            for start in range(0, len(order), PAIRS_PER_POOL):
                parts = self._sorted_steps(order[start : start + PAIRS_PER_POOL])
                steps += [parts[i] for i in random.permutation(len(parts))]
            self._plan = (epoch, steps)
        return self._plan[1]

    def in_order(self) -> list[IntArray]:
        """Everything once, pairs of like length together."""
        return self._sorted_steps(np.arange(len(self.pairs)))

    def read(self, numbers: IntArray) -> PairBatch:
        vectors, lengths = self.sources(numbers)
        targets = [self.target(int(number)) for number in numbers]
        padded = np.full((len(targets), max(map(len, targets))), PAD, dtype=np.int64)
        for row, ids in zip(padded, targets):
            row[: len(ids)] = ids
        return PairBatch(vectors, lengths, padded)

    def sources(self, numbers: IntArray) -> tuple[Tensor, IntArray]:
        """Vectors and lengths of the source sides."""
        pieces = [self.pairs.source.piece(int(number)) for number in numbers]
        lengths = np.array([len(piece) for piece in pieces])
        return torch.from_numpy(self.vectors[np.concatenate(pieces)]), lengths

    def target(self, number: int) -> IntArray:
        """The model's ids of a target side: words it does not know are UNK."""
        ids = self.pairs.target.piece(number).astype(np.int64) + SHIFT
        unknown = (ids >= self.n_target_words) | (ids == UNKNOWN_ID + SHIFT)
        return np.where(unknown, UNK, ids)

    def _sorted_steps(self, numbers: IntArray) -> list[IntArray]:
        lengths = self.pairs.lengths[numbers]
        order = np.lexsort((lengths[:, 1], lengths[:, 0]))
        return [
            numbers[order[i : i + self.batch_pairs]] for i in range(0, len(order), self.batch_pairs)
        ]


def n_predictions(pairs: PairCorpus) -> int:
    """Predictions of one epoch."""
    return pairs.target.n_tokens + len(pairs)
