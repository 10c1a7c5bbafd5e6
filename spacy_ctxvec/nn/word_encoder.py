"""The token layer of a biLM that reads words of a fixed vocabulary, not characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor, nn

from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, SPECIALS, UNKNOWN_ID
from ..types import IntArray
from .placing import placed_on
from .vocabulary import WithVocabulary, as_bytes

MARKS = {SPECIALS[id_]: id_ for id_ in (SENTENCE_START_ID, SENTENCE_END_ID)}


class WordEncoder(WithVocabulary):
    """Ids (n,) -> a row each of a table (n_words, output_width).

    Its vocabulary has one word a line, the two sentence marks and the unknown word first.
    """

    def __init__(self, n_words: int, output_width: int):
        super().__init__()
        self.embedding = nn.Embedding(n_words, output_width)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        self._row_of: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        return words_in(self.text)

    def set_words(self, words: Sequence[str]) -> None:
        """Say which words the rows are; words (n_words,) begin with `SPECIALS`."""
        if list(words[: len(SPECIALS)]) != list(SPECIALS) or len(words) != len(
            self.embedding.weight
        ):
            raise ValueError(f"expected {len(self.embedding.weight)} words, {SPECIALS} first")
        self.set_text(as_bytes(lines_of(words)))

    def ids(self, words: Sequence[str], *, sentence_marks: bool = False) -> IntArray:
        """The row of each word, that of the unknown word where there is none.

        sentence_marks: read words that are spelled like the marks as the marks themselves
        """
        marks = MARKS if sentence_marks else {}
        rows = [marks.get(word, self._row_of.get(word, UNKNOWN_ID)) for word in words]
        return np.array(rows, dtype=np.int64)

    def mark_ids(self) -> IntArray:
        return np.array([SENTENCE_START_ID, SENTENCE_END_ID])

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(placed_on(ids, self.embedding.weight.device))

    def _index(self, text: str) -> None:
        n_special = len(SPECIALS)  # a text may hold a word spelled like them, which is none
        words = words_in(text)[n_special : len(self.embedding.weight)]
        self._row_of = {word: i for i, word in enumerate(words, n_special)}


def words_in(text: str) -> list[str]:
    return text.split("\n")[:-1]


def lines_of(words: Sequence[str]) -> str:
    """The opposite of `words_in`."""
    return "".join(f"{word}\n" for word in words)
