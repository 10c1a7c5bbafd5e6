"""Nearest words and words in several sentences, on vectors that are written down here."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from toys import blank_with_encoder, examples

from spacy_ctxvec.analysis.neighbours import WordVectors, same_word, telling_words
from spacy_ctxvec.pipe import docdata
from spacy_ctxvec.pipe.process_set import ProcessSet

RIVER, MONEY = [1.0, 0.0, 0.1], [0.0, 1.0, 0.1]


def doc_of(words: list[tuple[str, list[float]]]) -> Doc:
    nlp = spacy.blank("en")
    doc = Doc(nlp.vocab, [word for word, _ in words])
    output = np.array([vector for _, vector in words], dtype="float32").reshape(-1, 3)
    docdata.annotate(
        doc, "ctxvec", output[:, None], output, listeners=(), store="layers", dtype="float32",
        tensor=True, waiting=ProcessSet(),
    )  # fmt: skip
    return doc


@pytest.fixture
def words() -> WordVectors:
    first = [("bank", RIVER), ("shore", RIVER), (",", RIVER), ("Bank", RIVER), ("bank", MONEY)]
    second = [("bank", MONEY), ("coin", MONEY), ("the", [0.0, 0.0, 0.0]), ("bank", RIVER)]
    return WordVectors([doc_of(first), doc_of([]), doc_of(second)])


def test_punctuation_has_no_row_and_similarity_is_that_of_spacy(words: WordVectors) -> None:
    assert [token.text for token in words.tokens] == [
        "bank", "shore", "Bank", "bank", "bank", "coin", "the", "bank",
    ]  # fmt: skip
    ours = words.similarities([0, 3])[0, 1]
    assert ours == pytest.approx(words.tokens[0].similarity(words.tokens[3]), abs=1e-6)
    assert words.similarities([6])[0, 0] == 0  # a zero vector is like nothing, not a fault


def test_nearest_leaves_out_the_word_itself_or_its_spelling(words: WordVectors) -> None:
    [nearest] = words.nearest([0], 3)
    assert {n.row for n in nearest} == {1, 2, 7}
    assert nearest[0].similarity == pytest.approx(1)
    [others] = words.nearest([3], 10, other_words=True)
    assert [words.tokens[n.row].text for n in others] == ["coin", "shore", "the"]


def test_nearest_is_exact_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    nlp = blank_with_encoder()
    nlp.initialize(lambda: examples(nlp))
    found = WordVectors(list(nlp.pipe(["Alice saw a bank in town", "Bob met Carol again"] * 3)))
    whole = found.nearest(range(len(found)), 4)
    monkeypatch.setattr("spacy_ctxvec.analysis.neighbours.BLOCK", 5)
    cut = found.nearest(range(len(found)), 4)
    assert [[n.row for n in line] for line in cut] == [[n.row for n in line] for line in whole]


def test_occurrences_fall_into_the_two_groups_that_they_have(words: WordVectors) -> None:
    [bank] = telling_words(words, 5)
    assert bank.text == "bank"  # "Bank" is another spelling
    assert {frozenset(bank.rows[:2]), frozenset(bank.rows[2:])} == {
        frozenset({0, 7}),
        frozenset({3, 4}),
    }
    assert bank.n_first == 2
    assert bank.separation == pytest.approx(1 - bank.similarities[0, 3], abs=1e-6)


def test_the_clearest_word_comes_first_and_rare_ones_last() -> None:
    clear = [("match", v) for v in (RIVER, RIVER, MONEY, MONEY)]
    vague = [("town", v) for v in (RIVER, RIVER, RIVER, [1.0, 0.1, 0.1])]
    twice = [("star", RIVER), ("star", MONEY)]
    stop = [("with", v) for v in (RIVER, RIVER, MONEY, MONEY)]
    found = telling_words(WordVectors([doc_of(vague + twice + stop + clear)]), 9)
    assert [word.text for word in found] == ["match", "town", "star"]


def test_of_many_occurrences_both_groups_are_shown() -> None:
    vectors = WordVectors([doc_of([("bank", RIVER)] * 30 + [("bank", MONEY)] * 20)])
    word = same_word(vectors, "bank", range(50), max_shown=6)
    assert len(word.rows) == 6
    assert word.similarities.shape == (6, 6)
    assert min(word.rows) < 30 <= max(word.rows)


def test_nothing_to_compare() -> None:
    assert telling_words(WordVectors([]), 3) == []
    assert telling_words(WordVectors([doc_of([("one", RIVER)])]), 3) == []
    assert WordVectors([doc_of([("one", RIVER)])]).nearest([0], 3) == [[]]
