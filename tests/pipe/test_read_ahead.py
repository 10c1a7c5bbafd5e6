"""Small batches of `nlp.pipe` are read together, and come out one by one."""

from __future__ import annotations

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc
from toys import TEXTS, blank_with_encoder, pipeline


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Of the batches that have met the encoder."""
    from spacy_ctxvec.pipe.component import Ctxvec

    predict, found = Ctxvec.predict, []

    def counting(self: Ctxvec, docs: list[Doc]):
        found.append(len(docs))
        return predict(self, docs)

    monkeypatch.setattr(Ctxvec, "predict", counting)
    return found


def ready(**settings: object) -> Language:
    nlp = blank_with_encoder(**settings)
    nlp.initialize()
    return nlp


def test_small_batches_are_read_together_and_in_order(sizes):
    nlp = ready(read_ahead=8)
    texts = (TEXTS * 20)[:20]
    docs = list(nlp.pipe(texts, batch_size=3))
    assert sizes == [8, 8, 4]
    assert [doc.text for doc in docs] == texts
    for doc, text in zip(docs, texts):
        np.testing.assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-5)


@pytest.mark.parametrize(
    "settings, batch_size, expected",
    [
        ({"read_ahead": 4}, 6, [6, 4]),
        ({"read_ahead": 0}, 4, [4, 4, 2]),
        ({"read_ahead": 8, "model": {"state": "carry"}}, 5, [5, 5]),
    ],
)
def test_batches_stay_as_they_are(sizes, settings, batch_size, expected):
    nlp = ready(**settings)
    list(nlp.pipe((TEXTS * 10)[:10], batch_size=batch_size))
    assert sizes == expected


def test_one_at_a_time_waits_for_no_other():
    nlp = ready()
    taken = []

    def conversation():
        for text in TEXTS:
            taken.append(text)
            yield text

    for n, _ in enumerate(nlp.pipe(conversation(), batch_size=1), start=1):
        assert len(taken) == n


def test_listeners_behind_read_their_own_batches():
    nlp = pipeline(("ner",), read_ahead=16)
    nlp.initialize()
    texts = (TEXTS * 10)[:10]
    for doc, text in zip(nlp.pipe(texts, batch_size=2), texts, strict=True):
        assert doc.text == text and doc.has_annotation("ENT_IOB")
