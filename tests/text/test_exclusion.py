"""Documents that share evaluation text."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.text.exclusion import (
    Exclusion,
    evaluation_ngrams,
    ngram_hashes,
    plain_words,
    word_hash,
)


@pytest.mark.parametrize(
    "running, tokenised",
    [
        ("I don't, and CAN'T; can’t.", "I do n't , and CA N'T ; ca n’t ."),
        ("We cannot.", "We can not ."),
        ("John's dog isn't Ann's.", "John 's dog is n't Ann 's ."),
        ("He’d said “no”.", "He ’d said `` no '' ."),
        ("They'll've", "They ' ll ' ve"),
        ("a well-known state-of-the-art", "a well - known state - of - the - art"),
        ("1,000 (or 2.5%)", "1,000 -LRB- or 2.5 % -RRB-"),
        ("the U.S. and/or U.K.", "the U.S. and / or U.K ."),
        ("snake_case", "snake _ case"),
        ("Straße ÉCOLE", "STRASSE e\u0301cole"),
        ("我爱北京。你呢？", "我 爱 北京 。 你 呢 ？"),
        ("ผมรักคุณ", "ผม รัก คุณ"),
    ],
)
def test_running_and_tokenised_text_are_equal(running, tokenised):
    assert plain_words(running) == plain_words(tokenised) != []


@pytest.mark.parametrize(
    "text", ["cannery", "I can nothing", "Scan not", "an't", "the n t", "北 a"]
)
def test_what_is_not_mended(text):
    assert plain_words(text) == text.lower().replace("'", " ").split()


SENTENCES = [
    "The sisters' aunt wouldn't have told us who they're, would she?",
    "It's 5 o'clock (or so) -- and I can't cannot see the U.N.'s e-mail: a/b.",
    "She said: \"You mustn't go; we'll wait.\" Doesn't he know Mr. O'Neill's wife?",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_spacys_own_tokens_make_no_difference(sentence):
    doc = spacy.blank("en")(sentence)
    assert plain_words(" ".join(token.text for token in doc)) == plain_words(sentence)


@given(st.text(st.sampled_from("aBßüÉ '’n't-._\n1北ก"), max_size=40))
def test_spaces_at_the_borders_of_words_make_no_difference(text):
    words = plain_words(text)
    assert all(word.isalnum() or not word.isascii() for word in words)
    assert plain_words(text.upper().lower()) == plain_words(text.upper())


def text_of(*numbers: int) -> str:
    return " ".join(f"w{i}" for i in numbers)


EVALUATION = text_of(*range(100))


@pytest.mark.parametrize("n_words, is_excluded", [(8, False), (11, False), (12, True), (50, True)])
def test_five_shared_8_grams_are_too_many(n_words, is_excluded):
    exclusion = Exclusion.of([EVALUATION])  # n words in a row are n - 7 8-grams
    document = [f"before {text_of(*range(20, 20 + n_words))} after"]
    assert (exclusion.most_shared(document) == 0) is is_excluded


def test_8_grams_are_counted_once_and_anywhere_in_the_document():
    exclusion = Exclusion.of([EVALUATION])
    assert exclusion.most_shared([text_of(*range(11))] * 5) is None
    assert exclusion.most_shared([text_of(*range(11)), "x", text_of(*range(50, 58))]) == 0


def test_8_grams_cross_paragraphs_and_sentences():
    exclusion = Exclusion.of(["One two three. Four five six.\nSeven eight nine ten eleven twelve"])
    halves = ["one two three four five", "Six; seven, eight nine ten. Eleven twelve"]
    assert exclusion.most_shared(halves) == 0
    assert exclusion.most_shared([half.split() for half in halves]) == 0


def test_the_evaluation_text_that_shares_most_is_told():
    exclusion = Exclusion.of(["", text_of(*range(12)), text_of(*range(200, 230)), "short"])
    assert exclusion.most_shared([text_of(*range(12)), text_of(*range(200, 230))]) == 2
    assert exclusion.most_shared([text_of(*range(12))]) == 1


def test_8_grams_of_several_texts_count_for_the_first():
    exclusion = Exclusion.of([EVALUATION, EVALUATION])
    assert len(exclusion.hashes) == 93 and not exclusion.texts.any()
    assert (np.diff(exclusion.hashes.astype(float)) > 0).all()


def test_numbers_alone_are_no_evaluation_text():
    numbers = " ".join(map(str, range(30)))
    assert len(evaluation_ngrams(numbers)) == 0
    assert Exclusion.of([f"offsets {numbers}"]).most_shared([numbers]) is None
    assert len(evaluation_ngrams(f"a {numbers}")) == 1


@pytest.mark.parametrize("texts", [[], [""], ["too few words"]])
def test_nothing_to_exclude(texts):
    assert Exclusion.of(texts).most_shared([EVALUATION]) is None


def test_short_documents_share_nothing():
    exclusion = Exclusion.of([EVALUATION])
    assert exclusion.most_shared([]) is None
    assert exclusion.most_shared(["w1 w2"]) is None


def test_hashes_are_the_same_in_every_process():
    code = "from spacy_ctxvec.text.exclusion import word_hash; print(word_hash('Wort'))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert int(found.stdout) == word_hash("Wort")


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_hashes_tell_8_grams_apart(words):
    hashes = ngram_hashes(words).tolist()
    ngrams = [tuple(words[i : i + 8]) for i in range(len(words) - 7)]
    assert len(hashes) == len(ngrams)
    assert len(set(zip(hashes, ngrams))) == len(set(hashes)) == len(set(ngrams))
