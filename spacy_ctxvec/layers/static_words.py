"""Where an MT-LSTM finds the static vectors of its words."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import LOWER, ORTH  # type: ignore[import-untyped]
from spacy.tokens import Doc
from spacy.vectors import Mode, Vectors
from spacy.vocab import Vocab
from thinc.util import to_numpy
from torch import Tensor

from .. import errors
from ..formats.word_table import WordTable
from ..nn.placing import placed_on
from ..types import FloatArray, IntArray
from .batching import WordBatch
from .fingerprint import digests

logger = logging.getLogger("spacy")


class StaticWords:
    """The vector of each distinct word, from the vocab of its doc or from a table of its own.

    A word without a vector has zeros.
    """

    def __init__(self, width: int, *, source: Literal["vocab", "model"], lower: bool):
        self.width = width
        self.source = source
        self.lower = lower
        self.table: WordTable | None = None

    def batch(self, docs: Sequence[Doc], window: int) -> WordBatch:
        return WordBatch.of(docs, window, self._attribute(docs[0].vocab))

    def vectors(self, module: Any, batch: WordBatch) -> tuple[Tensor, IntArray]:
        """Vectors (n_distinct, width) of the distinct words, and the row of each word in them."""
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        found, _ = self.find(distinct, batch.vocabs)
        return placed_on(found, module.device), inverse

    def digests(self, batch: WordBatch) -> NDArray[np.uint8]:
        """A hash of each word's vector, (n_words, DIGEST_BYTES)."""
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        found, _ = self.find(distinct, batch.vocabs)
        return digests(vector.tobytes() for vector in found)[inverse]

    def find(
        self, keys: NDArray[np.uint64], vocabs: Sequence[Vocab]
    ) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Vectors (n, width) of words by their hashes, and which of them have one."""
        if self.source == "model" and self.table is not None:
            return self.table.find(keys)
        vectors = np.zeros((len(keys), self.width), dtype=np.float32)
        has_vector = np.zeros(len(keys), dtype=bool)
        for vocab in vocabs:
            self._check_width(vocab.vectors.shape[1], vocab)
            found, among = _find_in(vocab, keys)
            new = among & ~has_vector
            vectors[new] = found[new]
            has_vector |= new
        return vectors, has_vector

    def settle(self, docs: Sequence[Doc]) -> None:
        """Keep a copy of the vocab's vectors where they are to be kept; say how many of the words
        of `docs` have one."""
        if not docs:
            return
        if self.source == "model" and self.table is None:
            self._check_width(docs[0].vocab.vectors.shape[1], docs[0].vocab)
            if self._attribute(docs[0].vocab) == LOWER and not self.lower:
                raise errors.CtxvecError(errors.VECTORS_OF_LOWER_CASE)
            self.table = table_of(docs[0].vocab)
        batch = self.batch(docs, max(1, max(map(len, docs))))
        words, counts = np.unique(batch.keys, return_counts=True)
        _, has_vector = self.find(words, batch.vocabs)
        n_words, n_found = int(counts.sum()), int(counts[has_vector].sum())
        log = logger.info if 2 * n_found >= n_words else logger.warning
        share = n_found / max(1, n_words)
        log(errors.WORDS_WITH_VECTORS.format(found=n_found, words=n_words, share=share))

    def adopt(self, vectors: WordTable | None) -> None:
        """Take the vectors that came with a model; with source = "vocab" they are not needed."""
        if self.source == "model" and vectors is not None:
            if vectors.width != self.width:
                self._refuse(vectors.width)
            self.table = vectors

    def changing(self, *parameters: str) -> AbstractContextManager[None]:
        """Static vectors depend on no parameter."""
        return nullcontext()

    def forget(self) -> None:
        """Every word is always looked up."""

    def _attribute(self, vocab: Vocab) -> int:
        return LOWER if self.lower else getattr(vocab.vectors, "attr", ORTH)

    def _check_width(self, width: int, vocab: Vocab) -> None:
        if not len(vocab.vectors):
            raise errors.CtxvecError(errors.NO_STATIC_VECTORS)
        if width != self.width:
            self._refuse(width)

    def _refuse(self, found: int) -> None:
        raise errors.CtxvecError(errors.STATIC_WIDTH.format(found=found, expected=self.width))


def _find_in(vocab: Vocab, keys: NDArray[np.uint64]) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The vector of each key in a vocab, and which have one; any kind of vectors that spaCy has."""
    vectors = vocab.vectors
    if isinstance(vectors, Vectors) and vectors.mode == Mode.default:
        rows = to_numpy(vectors.find(keys=keys.tolist()))
        found = to_numpy(vectors.data[np.maximum(rows, 0)])
        return found.astype(np.float32, copy=False), rows >= 0
    found = to_numpy(vectors.get_batch(keys.tolist())).astype(np.float32, copy=False)
    return found, np.abs(found).max(axis=1) > 0


def table_of(vocab: Vocab) -> WordTable:
    """A copy of the vectors of a vocab; CtxvecError where they are not rows of a table."""
    vectors = vocab.vectors
    if not isinstance(vectors, Vectors) or vectors.mode != Mode.default:
        raise errors.CtxvecError(errors.VECTORS_NOT_A_TABLE)
    pairs = [(key, row) for key, row in vectors.key2row.items() if row >= 0]
    keys = np.array([key for key, _ in pairs], dtype=np.uint64)
    rows = np.array([row for _, row in pairs], dtype=np.int64)
    return WordTable.of(keys, rows, to_numpy(vectors.data).copy())
