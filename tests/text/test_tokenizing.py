"""Documents to pieces of words."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import tokenizing
from spacy_ctxvec.text.exclusion import Exclusion
from spacy_ctxvec.text.sources import Document
from spacy_ctxvec.text.tokenizing import ChunkTokenizer, Tokenized, n_duplicates

DOCUMENTS: list[Document] = [
    ["One two. Three!", "  Four\tfive six. "],
    [],
    ["\u200b", "Two."],
]


def pieces_of(tokenized: Tokenized) -> list[str]:
    words = [tokenized.words[i] for i in tokenized.ids]
    ends = np.cumsum(tokenized.lengths).tolist()
    return [" ".join(words[end - n : end]) for n, end in zip(tokenized.lengths.tolist(), ends)]


def run(documents: list[Document], unit: str = "paragraph", max_tokens: int = 99) -> Tokenized:
    return ChunkTokenizer("en", unit, max_tokens)(documents)


@pytest.mark.parametrize(
    "unit, pieces, per_document",
    [
        ("paragraph", ["One two . Three !", "Four five six .", "\u200b", "Two ."], [2, 2]),
        ("sentence", ["One two .", "Three !", "Four five six .", "\u200b", "Two ."], [3, 2]),
        ("document", ["One two . Three ! Four five six .", "\u200b Two ."], [1, 1]),
    ],
)
def test_units(unit, pieces, per_document):
    tokenized = run(DOCUMENTS, unit)
    assert pieces_of(tokenized) == pieces
    assert tokenized.pieces.tolist() == per_document


def test_words_are_numbered_as_they_first_appear():
    tokenized = run([["b a b"], ["c a"]])
    assert tokenized.words == ["b", "a", "c"]
    assert tokenized.ids.tolist() == [0, 1, 0, 2, 1] and tokenized.ids.dtype == np.int32


def test_words_that_spacy_has_numbers_for():
    assert run([["ORTH is NOUN"]]).words == ["ORTH", "is", "NOUN"]


@pytest.mark.parametrize("unit", ["paragraph", "document"])
def test_long_pieces_are_cut_after_sentences(unit):
    tokenized = run([["Ann saw it . Bob saw it too . He left"]], unit, 7)
    assert pieces_of(tokenized) == ["Ann saw it .", "Bob saw it too . He left"]


def test_no_documents_and_no_words():
    for documents in ([], [[]], [[" \t "]]):
        tokenized = run(documents)
        assert tokenized.words == [] and len(tokenized.ids) == len(tokenized.pieces) == 0
        assert tokenized.until(5) is tokenized


@pytest.mark.parametrize("unit", ["paragraph", "sentence", "document"])
def test_words_of_tokenised_text_stay(unit):
    tokenized = run([[["do", "n't", "New York", "a\nb"]]], unit)
    assert tokenized.words == ["do", "n't", "New York", "a\nb"]


@pytest.mark.parametrize(
    "n_tokens, expected", [(1, ["a b"]), (2, ["a b"]), (3, ["a b", "c", "d a"]), (99, None)]
)
def test_the_documents_until_a_number_of_tokens(n_tokens, expected):
    whole = run([["a b"], ["c", "d a"], ["e a"]])
    part = whole.until(n_tokens)
    assert pieces_of(part) == (expected or pieces_of(whole))
    assert part.words == sorted(set(" ".join(pieces_of(part)).split()))
    assert len(part.pieces) == {1: 1, 2: 1, 3: 2, 99: 3}[n_tokens]


def test_excluded_documents_are_left_out_and_counted():
    shared = " ".join(f"word{i}" for i in range(12))
    exclusion = Exclusion.of(["something else", shared])
    tokenizer = ChunkTokenizer("en", "paragraph", 99, exclusion)
    tokenized = tokenizer([["Before."], ["Here :", shared.title()], ["After."]])
    assert pieces_of(tokenized) == ["Before .", "After ."]
    assert tokenized.excluded == [(1, 14)] and len(tokenized.paragraphs) == 2


def test_duplicate_paragraphs():
    parts = [run([["a", "b", "a"], [["a", "b"]]]), run([["a", "A", "a b"]])]
    assert n_duplicates([part.paragraphs for part in parts]) == 3
    assert n_duplicates([]) == 0


def test_starting_anew_changes_nothing(monkeypatch):
    tokenizer = ChunkTokenizer("en", "sentence", 99)
    before = tokenizer(DOCUMENTS)
    vocab = tokenizer.vocab
    monkeypatch.setattr(tokenizing, "MAX_LEXEMES", 1)
    after = tokenizer(DOCUMENTS)
    assert tokenizer.vocab is not vocab
    assert before.words == after.words and np.array_equal(before.ids, after.ids)


@pytest.mark.parametrize(
    "lang, words", [("en", ["gon", "na"]), ("xx", ["gonna"]), ("de", ["gonna"])]
)
def test_other_languages(lang, words):
    assert ChunkTokenizer(lang, "paragraph", 99)([["gonna"]]).words == words


def test_settings_that_cannot_work():
    with pytest.raises(CtxvecError, match='lang = "qq"'):
        ChunkTokenizer("qq", "paragraph", 99)
    with pytest.raises(CtxvecError, match=r'unit = "page".*paragraph, sentence, document'):
        ChunkTokenizer("en", "page", 99)
    with pytest.raises(CtxvecError, match="max_tokens = 0"):
        ChunkTokenizer("en", "paragraph", 0)


@pytest.mark.parametrize("lang", ["en", "xx", "he"])
def test_rare_words_are_not_analysed_each_time_anew(lang):
    """spaCy's tokenizer keeps 10,000; a corpus has more distinct words than that."""
    assert tokenizing.blank_pipeline(lang).tokenizer.max_cache_size == tokenizing.MAX_LEXEMES
