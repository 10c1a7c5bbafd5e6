"""The shipped English model: what it is, and that its vectors tell senses apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_ctxvec import attach
from spacy_ctxvec.assets import FOLDER, shipped_model

TRIPLES = json.loads((Path(__file__).parent / "data" / "sense_triples.json").read_text("utf8"))
SENTENCES = ("anchor", "same", "other")


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec")
    return nlp


def directly(nlp, texts):
    return [nlp(text) for text in texts]


def by_workers(nlp, texts):
    return [attach(doc) for doc in nlp.pipe(texts, n_process=2, batch_size=30)]


def by_docbin(nlp, texts):
    box = DocBin(docs=map(nlp, texts), store_user_data=True).to_bytes()
    return [attach(doc) for doc in DocBin().from_bytes(box).get_docs(nlp.vocab)]


def n_right(docs) -> int:
    right = 0
    for number, triple in enumerate(TRIPLES):
        tokens = [
            next(token for token in doc if token.text == triple["word"])
            for doc in docs[3 * number : 3 * number + 3]
        ]
        right += tokens[0].similarity(tokens[1]) > tokens[0].similarity(tokens[2])
    return right


@pytest.mark.parametrize("way", [directly, by_workers, by_docbin])
def test_senses_are_told_apart(nlp, way):
    """Spelling alone would get none right: all three words of a triple are spelled the same."""
    docs = way(nlp, [triple[which] for triple in TRIPLES for which in SENTENCES])
    right = n_right(docs)
    print(f"{right} of {len(TRIPLES)} triples right")
    assert right >= 15


def test_the_river_bank_is_no_savings_bank(nlp):
    triple = TRIPLES[0]
    anchor, same, other = (
        next(token for token in nlp(triple[which]) if token.text == "bank") for which in SENTENCES
    )
    assert anchor.similarity(same) > anchor.similarity(other)


def test_it_is_small_and_says_what_it_is():
    size = sum(path.stat().st_size for path in (FOLDER / "en_sm").iterdir())
    assert size <= 16e6
    info = shipped_model("en_sm").info
    assert info["lang"] == "en" and info["tokens_seen"] >= 8_000_000
    assert 0 < info["perplexity"]["forward"] < 250
    card = (FOLDER / "en_sm" / "README.md").read_text("utf8")
    for word in ("CC BY-SA", "Wikipedia", "United Nations", "OpenStax", "perplexity", "pretrain"):
        assert word in card
    assert "CC BY-SA" in (FOLDER / "en_sm" / "LICENSE").read_text("utf8")
