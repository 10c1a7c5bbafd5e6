"""Words as rows of ids, as the reference programs write them (each id one higher than theirs)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.text.characters import (
    N_CHARACTERS,
    SENTENCE_END,
    SENTENCE_START,
    WORD_END,
    WORD_PADDING,
    WORD_START,
    encode_marks,
    encode_words,
)


def padded(ids: list[int], length: int) -> list[int]:
    return [i + 1 for i in ids] + [WORD_PADDING] * (length - len(ids))


@pytest.mark.parametrize(
    "word, length, ids",
    [
        ("thhhhh", 5, [258, 116, 104, 104, 259]),
        (chr(256) + "t", 5, [258, 196, 128, 116, 259]),
        ("th", 5, [258, 116, 104, 259]),
        ("", 50, [258, 259]),
        ("Āt", 50, [258, 196, 128, 116, 259]),
        ("日", 4, [258, 0xE6, 0x97, 259]),  # cut inside a character
        ("a\ud800b", 50, [258, 97, 98, 259]),
        ("\udfff", 50, [258, 259]),
        ("<S>", 50, [258, 60, 83, 62, 259]),
        ("\x00", 50, [258, 0, 259]),
    ],
)
def test_ids_of_words(word, length, ids):
    assert encode_words([word], length)[0].tolist() == padded(ids, length)


@pytest.mark.parametrize("word, mark", [("<S>", SENTENCE_START), ("</S>", SENTENCE_END)])
def test_sentence_marks(word, mark):
    want = [WORD_START, mark, WORD_END] + [WORD_PADDING] * 47
    assert encode_words([word], 50, sentence_marks=True)[0].tolist() == want
    assert want in encode_marks(50).tolist()
    assert encode_words([word], 50)[0].tolist() != want
    assert encode_words([word + "x"], 50, sentence_marks=True)[0, 2] != WORD_END


def test_shapes_and_types():
    assert encode_words([], 50).shape == (0, 50)
    assert encode_marks(50).shape == (2, 50)
    assert encode_words(["a"], 50).dtype == np.int64


@given(st.lists(st.text(st.characters(), max_size=60), max_size=5), st.integers(3, 50))
def test_any_text_gives_well_formed_rows(words, length):
    for word, row in zip(words, encode_words(words, length)):
        end = row.tolist().index(WORD_END)
        body = row[1:end]
        assert row[0] == WORD_START and (row[end + 1 :] == WORD_PADDING).all()
        assert ((body >= 1) & (body <= 256)).all() and row.max() < N_CHARACTERS
        text = bytes(int(i) - 1 for i in body)
        assert word.encode("utf8", "ignore").startswith(text)
        assert len(text) == min(length - 2, len(word.encode("utf8", "ignore")))
