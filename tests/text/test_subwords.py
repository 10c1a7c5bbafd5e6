"""Words in pieces: nothing lost, the same pieces for the same words, a corpus cut as its words."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.corpus import SPECIALS, UNKNOWN_ID, Corpus
from spacy_ctxvec.text.subwords import JOINER, UNKNOWN, Subwords, joined, subwords_of, word_groups

COUNTS = {"haus": 9, "häuser": 5, "boot": 7, "boote": 6, "hausboot": 3, "straße": 2}
SUBWORDS = Subwords.learn(COUNTS, 40)


def test_frequent_words_stay_whole_and_rare_ones_are_cut() -> None:
    assert SUBWORDS.cut_word("haus") == ["haus"]
    assert SUBWORDS.cut_word("hausboote") == ["hausboot", f"{JOINER}e"]
    assert len(SUBWORDS.pieces) == len(set(SUBWORDS.pieces)) < 55


def test_what_cannot_be_cut_is_unknown() -> None:
    assert SUBWORDS.cut_word("haus語") == [UNKNOWN]
    assert SUBWORDS.cut_word(f"haus{JOINER}boot") == [UNKNOWN]
    assert SUBWORDS.cut_word(f"{JOINER}haus") == [UNKNOWN]


def test_words_of_known_characters_are_known() -> None:
    assert joined(Subwords.learn({"abc": 1, "cde": 1}, 2).cut_word("edcba")) == ["edcba"]
    assert joined(SUBWORDS.cut_word("übers")) == [UNKNOWN]  # no ü


@given(st.lists(st.sampled_from(list(COUNTS)).flatmap(lambda a: st.just(a + "boot")), max_size=5))
def test_joined_words_are_those_that_were_cut(words: list[str]) -> None:
    pieces = [piece for word in words for piece in SUBWORDS.cut_word(word)]
    assert joined(pieces) == words
    assert [i for group in word_groups(pieces) for i in group] == list(range(len(pieces)))


def test_words_of_models_that_know_no_pieces_stay_as_they_are() -> None:
    assert joined(["ein", "Haus", "<UNK>"]) == ["ein", "Haus", "<UNK>"]
    assert joined([]) == []
    assert joined([f"{JOINER}a", "b"]) == ["a", "b"]  # nothing before it to go on
    assert subwords_of(["ein", "haus"]) is None
    found = subwords_of(SUBWORDS.pieces)
    assert found and found.cut_word("hausboote") == SUBWORDS.cut_word("hausboote")


def test_a_corpus_in_pieces() -> None:
    sentences = [["hausboote", "haus"], ["語"], ["boot", "straße", "boot"]]
    corpus = SUBWORDS.cut(Corpus.in_memory(sentences))
    found = [joined([corpus.types[i] for i in corpus.piece(n)]) for n in range(3)]
    assert found == [["hausboote", "haus"], [UNKNOWN], ["boot", "straße", "boot"]]
    assert corpus.types[: len(SPECIALS)] == list(SPECIALS)
    assert set(corpus.types[len(SPECIALS) :]) == set(SUBWORDS.pieces)
    ids = np.concatenate([corpus.piece(n) for n in range(3)])
    assert np.array_equal(corpus.counts, np.bincount(ids, minlength=len(corpus.types)))
    words = corpus.counts[len(SPECIALS) :]
    assert np.array_equal(words, np.sort(words)[::-1])
    assert corpus.piece(1).tolist() == [UNKNOWN_ID]
    assert corpus.lengths.sum() == corpus.n_tokens == len(ids)


def test_what_is_cut_is_still_there_as_it_was() -> None:
    words = Corpus.in_memory([["haus", "übers", "haus"]])
    found = SUBWORDS.cut(words).recoded(["<S>", "</S>", "<UNK>", "haus"]).uncut
    assert found is words


def test_pieces_are_numbered_in_one_way() -> None:
    """By a library that numbers some of them by chance, if it is let."""
    characters = sorted(set("".join(COUNTS)))
    expected = [*characters, *(JOINER + character for character in characters)]
    assert SUBWORDS.pieces[: len(expected)] == expected


def test_held_out_text_takes_the_ids_of_training() -> None:
    train = SUBWORDS.cut(Corpus.in_memory([["haus", "haus", "boot"]]))
    heldout = SUBWORDS.cut(Corpus.in_memory([["boot", "boot", "haus"]])).recoded(train.types)
    assert heldout.types == train.types
    assert [train.types[i] for i in heldout.piece(0)] == ["boot", "boot", "haus"]


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(CtxvecError, match=r"spacy-ctxvec\[nmt\]"):
        Subwords(["a"])
