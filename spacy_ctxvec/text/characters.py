"""Words as rows of character ids: the UTF-8 bytes of the word between two word marks.

This is the input of the character CNN of ELMo (Peters et al. 2018; Kim et al. 2015). Ids are
raised by one, so that 0 is left for "no word here", as in every published weight file.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..types import IntArray

# 1..256 are the bytes 0..255.
SENTENCE_START, SENTENCE_END, WORD_START, WORD_END, WORD_PADDING = 257, 258, 259, 260, 261
N_CHARACTERS = 262
MARKS = {"<S>": SENTENCE_START, "</S>": SENTENCE_END}


def encode_words(
    words: Sequence[str], max_characters: int, *, sentence_marks: bool = False
) -> IntArray:
    """Character ids of `words`, shape (n_words, max_characters), int64.

    A word longer than `max_characters - 2` BYTES is cut, perhaps inside a character; lone
    surrogates, which UTF-8 cannot express, are left out. The empty word is a real word of two
    marks. `sentence_marks` reads the texts `<S>` and `</S>` as sentence marks, as the reference
    programs do; by default they are plain text, since a document may contain them.
    """
    rows = np.full((len(words), max_characters), WORD_PADDING, dtype=np.int64)
    for row, word in zip(rows, words):
        if sentence_marks and word in MARKS:
            body = np.array([MARKS[word]])
        else:
            encoded = word.encode("utf-8", "ignore")[: max_characters - 2]
            body = np.frombuffer(encoded, dtype=np.uint8).astype(np.int64) + 1
        row[0] = WORD_START
        row[1 : 1 + len(body)] = body
        row[1 + len(body)] = WORD_END
    return rows


def encode_marks(max_characters: int) -> IntArray:
    """Character ids of the sentence start and the sentence end, shape (2, max_characters)."""
    return encode_words(list(MARKS), max_characters, sentence_marks=True)
