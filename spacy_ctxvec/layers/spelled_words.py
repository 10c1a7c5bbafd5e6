"""Where a biLM finds its words' token layer: computed from their spelling, and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from spacy.strings import get_string_id
from torch import Tensor

from .. import errors
from ..formats.word_table import WordTable
from ..nn.bilm import BiLM
from ..types import IntArray
from .batching import WordBatch
from .cache import ProcessLock, WordVectorCache
from .fingerprint import token_fingerprint_of
from .shared_cache import shared_cache
from .spelling import BySpelling

# The sentence marks among the words of the cache: no word is likely to have these hashes.
MARK_KEYS = np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64)
WORDS_PER_PART = 1024
TOKEN_ENCODERS = ("char_encoder.", "word_encoder.", "word_char_encoder.")


class SpelledWords(BySpelling):
    """Finds the token layer of each distinct word from its spelling, once while it is remembered.

    Encoders with equal token encoders share one cache. Exact: rows are computed, and a cache is
    joined, under a lock that whoever writes a weight holds too. One that learns has a cache of its
    own from its first step on, since finding others like it would cost a hash of the weights at
    every step; it looks for them again when other weights are loaded.

    table: rows that were computed of these weights and are saved with them, if there are any
    """

    def __init__(self, cache_size: int, table: WordTable | None = None):
        self.cache_size = cache_size
        self._lock = ProcessLock()
        self.forget()
        self._joins, self._table = True, table

    def vectors(self, module: BiLM, batch: WordBatch) -> tuple[Tensor, IntArray]:
        """Token layer of the sentence marks and each distinct word, and the row of each word in it.

        The cache is passed by where gradients are recorded.
        """
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        keys = np.concatenate([MARK_KEYS, distinct])

        def compute(positions: IntArray) -> Tensor:
            n_marks = int((positions < len(MARK_KEYS)).sum())
            marks = module.mark_vectors()[positions[:n_marks]]
            words = [batch.text(key) for key in keys[positions[n_marks:]].tolist()]
            return torch.cat([marks, *_in_parts(module, words)])

        def find(positions: IntArray) -> Tensor:
            if self._table is None:
                return compute(positions)
            width, expected = self._table.width, module.config.token_width
            if width != expected:
                message = errors.KEPT_WORDS_WIDTH.format(found=width, expected=expected)
                raise errors.CtxvecError(message)
            rows, kept = self._table.find(keys[positions])
            vectors = torch.from_numpy(rows).to(module.device)
            vectors[torch.from_numpy(~kept).to(module.device)] = compute(positions[~kept])
            return vectors

        if torch.is_grad_enabled():
            vectors = compute(np.arange(len(keys)))
        else:
            with self._lock:
                self._join(module)
                vectors = self.cache.vectors(keys, find)
        return vectors, inverse + len(MARK_KEYS)

    def _join(self, module: BiLM) -> None:
        """Share the cache of the encoders like `module`, if its weights have just come."""
        if self._joins:
            self.cache = shared_cache(token_fingerprint_of(module), self.cache_size)
            self._joins = False

    def keep(self, module: BiLM, words: Iterable[str]) -> None:
        """Compute rows of these words, and of no others, to be saved with the weights."""
        texts = list(dict.fromkeys(words))
        keys = np.array([get_string_id(text) for text in texts], dtype=np.uint64)
        with self._lock, torch.no_grad():
            rows = [part.cpu().numpy() for part in _in_parts(module, texts)]
            numbers = np.arange(len(texts))
            self._table = WordTable.of(keys, numbers, np.concatenate(rows)) if rows else None

    @property
    def table(self) -> WordTable | None:
        return self._table

    def adopt(self, vectors: WordTable | None) -> None:
        """Take the rows that came with the weights, if any did."""
        self._table = vectors

    @contextmanager
    def changing(self, *parameters: str) -> Iterator[None]:
        """Around whatever writes these parameters, or all of them."""
        with self._lock:
            if not parameters or any(name.startswith(TOKEN_ENCODERS) for name in parameters):
                self.forget()
                self._joins = not parameters
            yield

    def forget(self) -> None:
        """Know no word any more; the cache is no other encoder's then."""
        with self._lock:
            self.cache = WordVectorCache(self.cache_size)
            self._joins, self._table = False, None

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process or another pipeline looks for a cache itself."""
        return {"cache_size": self.cache_size, "table": self._table}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _in_parts(module: BiLM, words: list[str]) -> Iterator[Tensor]:
    """Token layers of the words, (n, token_width), some at a time: the character CNN needs far more
    memory than what comes out of it."""
    for i in range(0, len(words), WORDS_PER_PART):
        yield module.word_vectors(words[i : i + WORDS_PER_PART])
