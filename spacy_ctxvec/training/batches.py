"""Batches of a corpus, in the layout that the two language models read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from ..nn.bilm import BiLM
from ..nn.packing import Packing, framed_index, token_positions
from ..text.characters import encode_marks, encode_words
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, UNKNOWN_ID, Corpus
from ..types import IntArray

PIECES_PER_POOL = 4096  # pieces sorted by length together: little padding, still a random order


class Batch:
    """Pieces of text, framed and packed, with their distinct types."""

    def __init__(self, corpus: Corpus, numbers: IntArray):
        pieces = [np.asarray(corpus.piece(int(i)), dtype=np.int64) for i in numbers]
        self.lengths = lengths = np.array([len(piece) for piece in pieces])
        self.n_tokens = int(lengths.sum())
        ids = np.concatenate(pieces)
        types, rows = np.unique(ids, return_inverse=True)
        self.words = [corpus.types[i] for i in types.tolist()]
        self.index = rows + 2
        framed_types = framed_index(self.index, lengths)
        framed_ids = np.full(len(framed_types), SENTENCE_START_ID)
        framed_ids[framed_types == 1] = SENTENCE_END_ID
        framed_ids[token_positions(lengths)] = ids
        self.packing = Packing.of(lengths)
        self._rows = (framed_types[self.packing.forward], framed_types[self.packing.backward])
        self._ids = (framed_ids[self.packing.forward], framed_ids[self.packing.backward])

    def inputs(self, direction: int) -> Tensor:
        """Row of each packed position among the mark vectors and the vectors of `words`."""
        return torch.from_numpy(self._rows[direction])

    def targets(self, direction: int, n_words: int) -> Tensor:
        """The word after each packed position that has one; ids beyond `n_words` are unknown."""
        ids = self._ids[direction][self.packing.batch_sizes[0] :]
        return torch.from_numpy(np.where(ids < n_words, ids, UNKNOWN_ID))

    def predictions(self) -> Tensor:
        """The packed positions that have a next word, in the order of `targets`."""
        sizes = self.packing.batch_sizes
        after = np.arange(sizes[0], len(self.packing.forward))
        return torch.from_numpy(after - np.repeat(sizes[:-1], sizes[1:]))


def token_layer(model: BiLM, batch: Batch) -> Tensor:
    """Vectors of the sentence marks and of the batch's types, (2 + n_types, token_width)."""
    max_characters = model.config.max_characters
    ids = [encode_marks(max_characters), encode_words(batch.words, max_characters)]
    return model.char_encoder(torch.from_numpy(np.concatenate(ids)))


def top_layer(model: BiLM, direction: int, batch: Batch, vectors: Tensor) -> Tensor:
    """What each prediction of one direction is made from, (n_predictions, token_width)."""
    x = vectors[batch.inputs(direction)]
    return model.run_stack(direction, x, batch.packing)[-1][batch.predictions()]


def epoch_batches(corpus: Corpus, batch_tokens: int, seed: int, epoch: int) -> Iterator[IntArray]:
    """Piece numbers of each batch; the order depends on seed and epoch alone."""
    random = np.random.default_rng([seed, epoch])
    lengths = np.diff(corpus.offsets) + 2
    pieces = random.permutation(len(lengths))
    for start in range(0, len(pieces), PIECES_PER_POOL):
        pool = pieces[start : start + PIECES_PER_POOL]
        pool = pool[np.argsort(-lengths[pool], kind="stable")]
        batch_of = np.cumsum(lengths[pool]) // batch_tokens
        batches = np.split(pool, np.flatnonzero(np.diff(batch_of)) + 1)
        yield from (batches[i] for i in random.permutation(len(batches)))


def all_batches(corpus: Corpus, batch_tokens: int, seed: int) -> Iterator[IntArray]:
    """Batches of epoch after epoch, for ever."""
    epoch = 0
    while True:
        yield from epoch_batches(corpus, batch_tokens, seed, epoch)
        epoch += 1


def reading_batches(corpus: Corpus, max_tokens: int | None) -> Iterator[Batch]:
    """The corpus in its own order, 32 pieces at a time, until `max_tokens` have been seen."""
    for start in range(0, len(corpus.offsets) - 1, 32):
        if max_tokens is not None and corpus.offsets[start] >= max_tokens:
            return
        yield Batch(corpus, np.arange(start, min(start + 32, len(corpus.offsets) - 1)))
