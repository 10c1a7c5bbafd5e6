"""From Docs to ragged batches of words, and back to one row a token.

This is the one place that leaves out empty docs and white space: neither is a word, so neither
reaches the encoder; an empty doc has no row and a white-space token has a row of zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from spacy.attrs import IS_SPACE, ORTH  # type: ignore[import-untyped]
from spacy.strings import StringStore
from spacy.tokens import Doc
from spacy.vocab import Vocab
from thinc.util import get_array_module

from ..nn.packing import STEP_COST, cost
from ..text.windows import window_ends
from ..types import Floats3d, IntArray

Item = TypeVar("Item", bound=Sized)


@dataclass(frozen=True)
class WordBatch:
    """The words of some docs, doc after doc, cut to windows.

    keys      (n_words,) uint64   hash of each word's text, or of another attribute of it that is a
                                  string, as in spaCy's StringStore
    lengths   (n_windows,)        words of each window, 1 or more
    doc_words                     of each doc: which of its tokens are words, (n_tokens,) bool
    """

    keys: NDArray[np.uint64]
    lengths: IntArray
    doc_words: list[NDArray[np.bool_]]
    vocabs: list[Vocab]

    @classmethod
    def of(cls, docs: Sequence[Doc], window: int, attribute: int = ORTH) -> WordBatch:
        vocabs = {id(doc.vocab): doc.vocab for doc in docs}
        keys, lengths, doc_words = [], [], []
        for doc in docs:
            found, is_space = doc.to_array([attribute, IS_SPACE]).reshape(-1, 2).T
            is_word = is_space == 0
            doc_keys = found[is_word]
            keys.append(doc_keys)
            doc_words.append(is_word)
            lengths.append(_window_lengths(doc_keys, window, doc.vocab.strings))
        return cls(np.concatenate(keys), np.concatenate(lengths), doc_words, list(vocabs.values()))

    def text(self, key: int) -> str:
        """The word with this hash. Docs of several vocabs may share a batch."""
        return next(v.strings[key] for v in self.vocabs if cast(Any, key) in v.strings)

    def groups(self, max_items: int, *, ragged_cost: float = 0.0) -> list[IntArray]:
        """Windows of similar length together: their numbers; in the way that takes less time, as
        `nn.packing.cost` has it.

        A group has at most `max_items` words, except for a single window that is longer.
        """
        if len(self.lengths) == 1 or ragged_cost in (0, math.inf):
            return self._groups(max_items, rectangles=ragged_cost > 0)
        ways = [self._groups(max_items, rectangles=rectangles) for rectangles in (True, False)]
        return min(ways, key=lambda way: sum(cost(self.lengths[g], ragged_cost) for g in way))

    def _groups(self, max_items: int, *, rectangles: bool) -> list[IntArray]:
        """
        rectangles: shorter windows are padded to the longest; padding counts as words then, and a
            group also ends when it costs more than the steps of another group would
        """
        order = np.argsort(-self.lengths, kind="stable")
        groups = []
        first = padding = n_words = longest = 0
        for i, length in enumerate(self.lengths[order].tolist()):
            full = n_words + length + rectangles * (padding + longest - length) > max_items
            if i > first and (full or rectangles * padding > STEP_COST * longest):
                groups.append(order[first:i])
                first = i
            if i == first:
                padding, n_words, longest = 0, 0, length
            padding += longest - length
            n_words += length
        return [*groups, order[first:]]

    def parts(self, max_words: int) -> Iterator[tuple[IntArray, WordBatch]]:
        """The words of a single doc some windows at a time: which tokens they are, and the batch.

        A part has at most `max_words` words, except for a single window that is longer.
        """
        (is_word,) = self.doc_words
        tokens, ends = np.flatnonzero(is_word), np.cumsum(self.lengths)
        first = start = 0
        while first < len(ends):
            last = max(first + 1, int(np.searchsorted(ends, start + max_words, side="right")))
            end = int(ends[last - 1])
            words, every = slice(start, end), np.ones(end - start, dtype=bool)
            part = WordBatch(self.keys[words], self.lengths[first:last], [every], self.vocabs)
            yield tokens[words], part
            first, start = last, end

    def rows(self, layers: Floats3d) -> list[Floats3d]:
        """Cut (n_words, n_layers, width) to docs, one row a token, zeros for white space."""
        out, start = [], 0
        for is_word in self.doc_words:
            n_words = int(is_word.sum())
            words = layers[start : start + n_words]
            start += n_words
            if n_words < len(is_word):
                xp = get_array_module(layers)
                rows = xp.zeros((len(is_word), *layers.shape[1:]), dtype=layers.dtype)
                rows[xp.asarray(np.flatnonzero(is_word))] = words
                words = rows
            out.append(words)
        return out

    def words(self, rows: Sequence[Floats3d]) -> list[Floats3d]:
        """The rows of words alone, of each doc that has any: the gradient's way back."""
        xp = get_array_module(rows[0])
        return [
            array if is_word.all() else array[xp.asarray(np.flatnonzero(is_word))]
            for array, is_word in zip(rows, self.doc_words)
            if is_word.any()
        ]


def in_parts(items: Sequence[Item], most: int) -> Iterator[list[Item]]:
    """Consecutive docs, or arrays of their rows, with at most `most` tokens together, except for a
    single one that is longer."""
    part: list[Item] = []
    n_tokens = 0
    for item in items:
        if part and n_tokens + len(item) > most:
            yield part
            part, n_tokens = [], 0
        part.append(item)
        n_tokens += len(item)
    if part:
        yield part


def cut(array: Any, lengths: Sequence[int]) -> list[Any]:
    """The opposite of `joined`: so many rows for each."""
    ends = np.cumsum(lengths)
    return [array[end - length : end] for end, length in zip(ends, lengths)]


def joined(arrays: Sequence[Floats3d]) -> Floats3d:
    """All arrays as one; without a copy where they follow each other in memory, as those of a
    batch do that has just come from the encoder."""
    first, base = arrays[0], arrays[0].base
    xp = get_array_module(first)
    if xp is not np or base is None or not isinstance(base, np.ndarray):
        return xp.concatenate(arrays)
    address = first.ctypes.data
    for array in arrays:
        if array.base is not base or not array.flags.c_contiguous or array.ctypes.data != address:
            return np.concatenate(arrays)
        address += array.nbytes
    n_rows = sum(map(len, arrays))
    return np.lib.stride_tricks.as_strided(first, (n_rows, *first.shape[1:]), writeable=False)


def _window_lengths(keys: NDArray[np.uint64], window: int, strings: StringStore) -> IntArray:
    if len(keys) <= window:
        return np.array([len(keys)] if len(keys) else [], dtype=np.int64)
    ends = window_ends([strings[key] for key in keys.tolist()], window)
    return np.diff(np.array(ends), prepend=0)
