"""The page: nothing from outside, nothing unescaped, every word in its place."""

from __future__ import annotations

import json
import re

import pytest
from spacy.language import Language
from spacy.tokens import Doc
from toys import blank_with_encoder, examples

from spacy_ctxvec.analysis import overview
from spacy_ctxvec.analysis.overview import look_at
from spacy_ctxvec.analysis.pages import ANNOTATED, render
from spacy_ctxvec.cli.opening import first_encoder

EVIL = "<script>alert(1)</script>"


@Language.component("ctxvec_test_parser", assigns=["token.dep", "token.head"])
def parse(doc: Doc) -> Doc:
    """Every word is governed by the first one of its doc."""
    for token in doc:
        token.head, token.dep_ = doc[0], "dep" if token.i else "ROOT"
    return doc


def page_of(paragraphs: list[str], source: str = "a test", annotate: bool = False) -> str:
    nlp = blank_with_encoder()
    nlp.initialize(lambda: examples(nlp))
    if annotate:
        ruler = nlp.add_pipe("entity_ruler")
        ruler.add_patterns([{"label": "ORG", "pattern": name} for name in ("bank", "<b>Bank</b>")])
        nlp.add_pipe("ctxvec_test_parser")
    view = look_at(nlp, first_encoder(nlp), paragraphs, source, 1000)
    return render(view, {"threads": 1, "gpu": EVIL})


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "MIN_TIMED_WORDS", 20)


def test_the_page_is_self_contained() -> None:
    page = page_of(["The bank is old. A bank is new."])
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?://""", page)
    assert "$" not in page.split("</style>")[1].split("<script>")[0]


def test_text_source_and_facts_are_escaped() -> None:
    page = page_of([f'A bank {EVIL} & "bank" $dollar ${{x}} bank </span>'], source=EVIL)
    assert "alert(1)</script>" not in page
    assert page.count("<script") == 2
    assert "&lt;script&gt;" in page
    assert "$dollar" in page


def test_every_row_of_the_neighbours_is_a_word_of_the_text() -> None:
    page = page_of(["Ångström saw 東京 in May , twice.", "", "The bank 🎉 saw a bank."])
    shown = re.findall(r'<span class="w">(.*?)</span>', page)
    neighbours = json.loads(re.search(r'id="neighbours">(.*?)</script>', page)[1])
    assert len(shown) == len(neighbours)
    assert "東京" in shown
    assert "." not in shown
    for row, pairs in enumerate(neighbours):
        assert all(0 <= other < len(shown) and other != row for other, _ in pairs)
        assert [s for _, s in pairs] == sorted((s for _, s in pairs), reverse=True)


def test_without_repeated_words_there_is_still_a_page() -> None:
    page = page_of(["Nothing here occurs again"])
    assert "No word of this text occurs twice." in page
    assert page.count('<section class="card near">') == 4


def test_entities_and_parses_are_drawn_where_the_pipeline_finds_them() -> None:
    page = page_of(["A bank saw <b>Bank</b> & <i>us</i>.", "No"], annotate=True)
    assert ANNOTATED in page
    assert page.count('class="entity"') >= 1 and page.count("<svg") == 1
    assert "<i>us" not in page and "&lt;i&gt;" in page
    # Names of namespaces and of parts of the page: neither is loaded from anywhere.
    links = re.findall(r"""(?:src|href)\s*=\s*"([^"]*)|url\(|@import""", page)
    assert all(link.startswith("#") for link in links)
    assert ANNOTATED not in page_of(["A bank saw a bank."])
