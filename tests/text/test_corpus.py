"""A corpus in memory, and over the types of another; what is built on disk is in test_building."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.text.corpus import SPECIALS, Corpus

words = st.lists(st.text(max_size=5), min_size=1, max_size=6)


def text_of(corpus: Corpus) -> list[list[str]]:
    numbers = range(len(corpus.offsets) - 1)
    return [[corpus.types[i] for i in corpus.piece(number)] for number in numbers]


def test_types_are_sorted_by_frequency_after_the_specials():
    corpus = Corpus.in_memory([["b", "a", "b"], ["c", "b", "a"]], meta={"lang": "en"})
    assert corpus.types == [*SPECIALS, "b", "a", "c"]
    assert corpus.counts.tolist() == [0, 0, 0, 3, 2, 1]
    assert corpus.offsets.tolist() == [0, 3, 6]
    assert corpus.lengths.tolist() == [3, 3]
    assert corpus.piece(1).tolist() == [5, 3, 4] and corpus.piece(1).dtype == np.int32
    assert corpus.n_tokens == 6 and corpus.meta == {"lang": "en"}


@given(pieces=st.lists(words, max_size=6))
def test_any_words_come_back(pieces):
    corpus = Corpus.in_memory(pieces)
    assert text_of(corpus) == pieces
    corpus.verify()


def test_recoded_over_the_types_of_another_corpus():
    train = Corpus.in_memory([["b", "a", "b", "b", "a", "c"]])
    heldout = Corpus.in_memory([["a", "z", "a"], ["b", "y", "a"]])
    recoded = heldout.recoded(train.types)
    assert recoded.types == [*train.types, "y", "z"]
    assert text_of(recoded) == text_of(heldout)
    assert recoded.counts.tolist() == [0, 0, 0, 1, 3, 0, 1, 1]
    assert recoded.n_tokens == 6 and np.array_equal(recoded.lengths, heldout.lengths)
    assert text_of(recoded.recoded(heldout.types)) == text_of(heldout)


@pytest.mark.parametrize("word", SPECIALS)
def test_words_spelled_like_the_specials_are_words(word):
    train = Corpus.in_memory([["a", word]])
    assert train.types == [*SPECIALS, *sorted(["a", word])]
    recoded = Corpus.in_memory([[word, word, "b"]]).recoded(train.types)
    assert recoded.piece(0).tolist() == [train.types.index(word, 3)] * 2 + [5]
    assert recoded.counts[:3].tolist() == [0, 0, 0] and recoded.counts.sum() == 3


@given(train=st.lists(words, max_size=4), heldout=st.lists(words, max_size=4))
def test_recoding_keeps_any_text(train, heldout):
    recoded = Corpus.in_memory(heldout).recoded(Corpus.in_memory(train).types)
    assert text_of(recoded) == heldout
    ids = [i for number in range(len(heldout)) for i in recoded.piece(number).tolist()]
    assert np.array_equal(np.bincount(ids, minlength=len(recoded.types)), recoded.counts)
