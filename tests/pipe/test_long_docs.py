"""Docs longer than what is computed in one go, alone and in a stream."""

from __future__ import annotations

import numpy as np
import pytest
from spacy.language import Language
from spacy.tokens import Doc
from toys import ODD_TEXTS, blank_with_encoder, examples, layers_of, pipeline

from spacy_ctxvec.pipe import component
from spacy_ctxvec.pipe.component import Ctxvec

LENGTHS = (3, 200, 0, 7, 64, 65, 1, 1)


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(component, "WORDS_AT_ONCE", 64)


def ready(nlp: Language) -> Language:
    nlp.initialize()
    return nlp


def docs_of(nlp, lengths=LENGTHS) -> list[Doc]:
    words = ["The", "bank", " ", "of", "the", "river", ".", "\n", "Alice", "sat"]
    return [Doc(nlp.vocab, words=[words[i % 10] for i in range(n)]) for n in lengths]


@pytest.mark.parametrize("store", ["output", "layers"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_vectors_are_those_of_one_go(monkeypatch, store, dtype):
    nlp = ready(blank_with_encoder(store=store, store_dtype=dtype))
    got = list(nlp.pipe(docs_of(nlp)))
    monkeypatch.setattr(component, "WORDS_AT_ONCE", 10_000)
    for ours, whole in zip(got, nlp.pipe(docs_of(nlp)), strict=True):
        assert len(ours) == len(whole)
        np.testing.assert_allclose(ours.tensor, whole.tensor, atol=1e-5)
        if len(ours) and store == "layers":
            np.testing.assert_allclose(layers_of(ours), layers_of(whole), atol=2e-3)
    alone = nlp.get_pipe("ctxvec")(docs_of(nlp)[1])
    np.testing.assert_allclose(alone.tensor, got[1].tensor, atol=1e-5)


def test_no_more_than_so_many_words_meet_the_encoder(monkeypatch):
    nlp = ready(blank_with_encoder(store="output"))
    module = nlp.get_pipe("ctxvec").model.shims[0].module
    forward, read = module.forward, []

    def counting(vectors, index, *rest):
        read.append(len(index))
        return forward(vectors, index, *rest)

    monkeypatch.setattr(module, "forward", counting)
    list(nlp.pipe([*docs_of(nlp), *docs_of(nlp, [1000])]))
    # A window is read as a whole, and is the only thing that may be longer.
    assert max(read) <= 128 and sum(read) > 800


def test_listeners_get_the_layers_of_long_docs():
    nlp = pipeline(("ner",))
    nlp.initialize(lambda: examples(nlp))
    docs = list(nlp.pipe(docs_of(nlp)))
    assert [len(doc) for doc in docs] == list(LENGTHS)


def test_odd_texts_one_at_a_time():
    nlp = ready(blank_with_encoder(store="output"))
    texts = [text * 30 for text in ODD_TEXTS]
    for doc in nlp.pipe(texts):
        assert doc.tensor.shape == (len(doc), nlp.get_pipe("ctxvec").model.get_dim("nO"))
        for token in doc:
            assert token.is_space or token.vector.any()


def test_faults_reach_the_error_handler_and_others_go_on(monkeypatch):
    nlp = ready(blank_with_encoder())
    failed: list[int] = []
    nlp.set_error_handler(lambda name, pipe, docs, error: failed.append(len(docs)))
    put = Ctxvec._put

    def fails(self, doc, *args, **kwargs):
        if len(doc) == 7:
            raise RuntimeError("no")
        return put(self, doc, *args, **kwargs)

    monkeypatch.setattr(Ctxvec, "_put", fails)
    done = list(nlp.pipe(docs_of(nlp), batch_size=2))
    assert failed == [2] and [len(doc) for doc in done] == [3, 200, 64, 65, 1, 1]
