"""Threads, worker processes, pickling."""

from __future__ import annotations

import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Adam
from toys import blank_with_encoder, encoder_weights, examples, trained

from spacy_ctxvec import attach
from spacy_ctxvec.errors import CtxvecError

TEXTS = ["Alice met Bob in town .", "", "a  b", "The bank of the river . " * 30] * 4


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def _start_method():
    before = multiprocessing.get_start_method()
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_n_process_2_finishes_and_agrees(method, _start_method):
    nlp, _ = trained()
    expected = list(nlp.pipe(TEXTS))  # uses the parent's threads: a fork must not wait for them
    multiprocessing.set_start_method(method, force=True)
    got = list(nlp.pipe(TEXTS, n_process=2, batch_size=4))
    for a, b in zip(expected, got):
        np.testing.assert_allclose(a._.ctxvec.layers, b._.ctxvec.layers, atol=1e-5)
        assert [t.tag_ for t in a] == [t.tag_ for t in b]
        assert attach(b)[0:1].has_vector == bool(len(b)) if len(b) else True


def test_n_process_2_of_a_pipeline_that_was_never_used(_start_method):
    """The parent has used its threads for something else; the weights come in the child."""
    torch.mm(torch.ones(600, 600), torch.ones(600, 600))
    multiprocessing.set_start_method("fork", force=True)
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"store": "output"})
    docs = list(nlp.pipe(TEXTS, n_process=2, batch_size=4))
    assert all(attach(doc)[0].has_vector for doc in docs if len(doc))


def test_a_lock_held_during_a_fork_does_not_hang_the_child():
    nlp, _ = trained(("tagger",))
    shim = nlp.get_pipe("ctxvec").model.shims[0]
    with (
        multiprocessing.get_context("fork").Pool(1) as before,
        shim.inputs.cache._lock,
        shim.loading,
    ):
        before.close()
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply_async(_error_of, (nlp,)).get(timeout=60) == "no error"


def test_carry_is_refused_in_a_child_process():
    nlp = blank_with_encoder(model={"state": "carry"})
    nlp.initialize()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        message = pool.apply(_error_of, (nlp,))
    assert 'state = "carry"' in message


def _error_of(nlp) -> str:
    try:
        nlp("text")
    except CtxvecError as error:
        return str(error)
    return "no error"


def test_four_threads_of_one_pipeline():
    nlp, _ = trained()
    expected = [nlp(text) for text in TEXTS[:4]]

    def agrees(i: int) -> bool:
        doc = nlp(TEXTS[i % 4])
        same = np.array_equal(doc._.ctxvec.layers, expected[i % 4]._.ctxvec.layers)
        return same and [t.tag_ for t in doc] == [t.tag_ for t in expected[i % 4]]

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(agrees, range(4 * 600)))


def test_first_use_by_many_threads_loads_once():
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec")
    with ThreadPoolExecutor(4) as pool:
        vectors = list(pool.map(lambda _: nlp("a river bank")[2].vector, range(8)))
    assert all(np.array_equal(vector, vectors[0]) for vector in vectors)


def test_a_pickled_pipeline_predicts_and_trains():
    nlp, _ = trained()
    other = pickle.loads(pickle.dumps(nlp))
    before = encoder_weights(other)
    nlp.get_pipe("ctxvec").update(examples(nlp))  # leaves a batch that waits
    copied = pickle.loads(pickle.dumps(nlp))
    copied.update(examples(copied), sgd=Adam(0.01))
    assert (encoder_weights(copied) != before).any()
    for text in TEXTS[:4]:
        a, b = nlp(text), other(text)
        np.testing.assert_array_equal(a._.ctxvec.layers, b._.ctxvec.layers)
        assert [t.tag_ for t in a] == [t.tag_ for t in b]
    nlp.from_bytes(nlp.to_bytes())
    assert [t.tag_ for t in nlp(TEXTS[0])] == [t.tag_ for t in other(TEXTS[0])]


def test_the_number_of_threads_is_left_as_it_was():
    nlp, _ = trained()
    nlp(TEXTS[3])
    assert torch.get_num_threads() == 2
