"""Words as rows of character ids, where characters are Unicode code points of a vocabulary.

The layout of a word is that of `text.characters`, where they are bytes.
"""

from __future__ import annotations

import numpy as np

from ..types import IntArray
from .vocabulary import WithVocabulary

PADDING, SENTENCE_START, SENTENCE_END, WORD_START, WORD_END, UNKNOWN = range(6)
N_MARKS = 6
MARKS = (SENTENCE_START, SENTENCE_END)


class Alphabet(WithVocabulary):
    """The ids of code points: the marks above, then the characters of the vocabulary in order."""

    def __init__(self, n_characters: int):
        super().__init__()
        self.n_characters = n_characters
        self._row_of: dict[str, int] = {}

    def spell(self, word: str) -> list[int]:
        return [self._row_of.get(character, UNKNOWN) for character in word]

    def frame(self, spellings: list[list[int]], max_characters: int) -> IntArray:
        """Spellings of at most `max_characters - 2` between word marks, (n, max_characters)."""
        rows = np.full((len(spellings), max_characters), PADDING, dtype=np.int64)
        for row, spelling in zip(rows, spellings):
            framed = [WORD_START, *spelling, WORD_END]
            row[: len(framed)] = framed
        return rows

    def _index(self, text: str) -> None:
        known = text[: self.n_characters - N_MARKS]
        self._row_of = {character: i for i, character in enumerate(known, N_MARKS)}
