"""Paragraphs, contexts and the whole view of a text."""

from __future__ import annotations

import json

import pytest
import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from toys import blank_with_encoder, examples

from spacy_ctxvec.analysis import overview
from spacy_ctxvec.analysis.overview import as_data, in_context, look_at, split_paragraphs
from spacy_ctxvec.cli.opening import first_encoder
from spacy_ctxvec.errors import CtxvecError


@pytest.fixture
def nlp(monkeypatch: pytest.MonkeyPatch) -> Language:
    monkeypatch.setattr(overview, "MIN_TIMED_WORDS", 20)
    nlp = blank_with_encoder()
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.mark.parametrize(
    "text, expected",
    [
        ("", []),
        (" \n\n\t\n ", []),
        ("a wrapped\nline\n\nand another", ["a wrapped line", "and another"]),
        ("One.\n\nTwo goes\non. And\n\n\nThree.", ["One.", "Two goes on. And", "Three."]),
        (
            "A paragraph.\r\nThe next one is\r\nwrapped.",
            ["A paragraph.", "The next one is wrapped."],
        ),
        ("no end", ["no end"]),
    ],
)
def test_paragraphs(text: str, expected: list[str]) -> None:
    assert split_paragraphs(text) == expected


def test_context_is_cut_after_words_and_stays_within_its_width() -> None:
    doc = Sentencizer()(spacy.blank("en")("First. The quick brown fox jumps over it. Last."))
    fox = next(token for token in doc if token.text == "fox")
    assert in_context(fox, 100) == ("The quick brown ", "fox", " jumps over it.")
    for width in range(5, 40):
        before, word, after = in_context(fox, width)
        assert word == "fox"
        assert len(before) + len(after) <= max(0, width - 3)


def test_a_view_is_plain_data_with_the_numbers_of_spacy(nlp: Language) -> None:
    paragraphs = ["Alice saw a bank. The bank was old.", "Bob robbed a bank; 東京 bank 🎉."]
    view = look_at(nlp, first_encoder(nlp), paragraphs, "a test", 1000)
    data = json.loads(json.dumps(as_data(view)))
    [bank] = data["same_words"]
    assert bank["word"] == "bank"
    assert {"token": "bank", "sentence": "The bank was old."} in bank["occurrences"]
    rows = view.same_words[0].rows
    spacys = view.words.tokens[rows[0]].similarity(view.words.tokens[rows[1]])
    assert bank["similarities"][0][1] == pytest.approx(spacys, abs=1e-3)
    assert len(data["nearest"]) == 2
    assert all(n["token"].lower() != "bank" for n in data["nearest"][0]["neighbours"])
    assert data["words_per_second"] > 0
    assert data["timed_words"] >= 20


def test_only_the_encoder_runs_and_the_limit_holds(nlp: Language) -> None:
    @Language.component("ctxvec_test_refuses")
    def refuses(doc):
        raise AssertionError("another component was run")

    nlp.add_pipe("ctxvec_test_refuses")
    view = look_at(nlp, first_encoder(nlp), ["one two three", "four five six", "seven"], "x", 5)
    assert [len(doc) for doc in view.docs] == [3, 2]
    assert nlp.pipe_names == ["ctxvec", "ctxvec_test_refuses"]


def test_what_the_pipeline_annotates_is_told(nlp: Language) -> None:
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ORG", "pattern": "bank"}])
    paragraphs = ["Alice saw a bank. It was old.", "Bob robbed the bank."]
    data = as_data(look_at(nlp, first_encoder(nlp), paragraphs, "a test", 1000))
    found = {"text": "bank", "label": "ORG"}
    sentences = ["Alice saw a bank.", "Bob robbed the bank."]
    assert data["entities"] == [found | {"sentence": sentence} for sentence in sentences]
    assert data["parses"] == []


@pytest.mark.parametrize("paragraphs", [[], ["one"], ["..."]])
def test_a_text_that_is_too_short_says_so(nlp: Language, paragraphs: list[str]) -> None:
    with pytest.raises(CtxvecError, match=r"a test holds \d word"):
        look_at(nlp, first_encoder(nlp), paragraphs, "a test", 100)
