"""The listener alone: what it reports to the encoder is the gradient of what it puts out."""

from __future__ import annotations

import numpy as np
import pytest
import spacy

from spacy_ctxvec.layers.listener import Listener_v1, state_of
from spacy_ctxvec.layers.scalar_mix import ScalarMix_v1

N_LAYERS, WIDTH = 3, 4
NLP = spacy.blank("en")


class Upstream:
    """An encoder component in which nothing happens."""

    name = "ctxvec"
    rehearses = False

    def layer_statistics(self):
        random = np.random.default_rng(1)
        shape = (N_LAYERS, WIDTH)
        return random.normal(size=shape), random.uniform(0.5, 2, size=shape)


class Batch:
    """A pending batch that takes down what it is told."""

    def __init__(self, docs):
        random = np.random.default_rng(2)
        self.outputs = [random.normal(size=(len(doc), N_LAYERS, WIDTH)).astype("f") for doc in docs]
        self.received = None

    def matches(self, docs) -> bool:
        return True

    def receive(self, listener_id, d_outputs) -> None:
        self.received = d_outputs


def linked(docs, *, layer_norm=False, **settings):
    listener = Listener_v1(WIDTH, ScalarMix_v1(layer_norm=layer_norm), **settings)
    state = state_of(listener)
    state.upstream = Upstream()
    listener.initialize(X=docs)
    listener.layers[0].set_param("weights", np.array([0.05, -0.02, 0.03], dtype="float32"))
    state.batch = Batch(docs)
    return listener, state.batch


@pytest.mark.parametrize("grad_factor", [1.0, 0.25])
@pytest.mark.parametrize("projection", [None, 5])
def test_reported_gradient_against_finite_differences(grad_factor, projection):
    docs = [NLP.make_doc(text) for text in ("one two three", "", "four")]
    listener, batch = linked(docs, grad_factor=grad_factor, projection=projection)
    random = np.random.default_rng(3)
    directions = [random.normal(size=(len(doc), projection or WIDTH)).astype("f") for doc in docs]

    def loss() -> float:
        Y = listener(docs, is_train=True)[0]
        return sum(float((y.astype("d") * d).sum()) for y, d in zip(Y, directions))

    Y, backprop = listener.begin_update(docs)
    assert [y.shape for y in Y] == [(len(doc), projection or WIDTH) for doc in docs]
    backprop(directions)
    for array, gradient in zip(batch.outputs, batch.received):
        assert gradient.shape == array.shape
        for place in np.ndindex(array.shape):
            before = array[place]
            array[place] = before + 5e-3
            above = loss()
            array[place] = before - 5e-3
            numeric = grad_factor * (above - loss()) / 1e-2
            array[place] = before
            assert gradient[place] == pytest.approx(numeric, rel=0.02, abs=5e-3)


def test_without_a_factor_nothing_is_reported_and_the_mix_learns():
    docs = [NLP.make_doc("one two three")]
    listener, batch = linked(docs, grad_factor=0.0)
    Y, backprop = listener.begin_update(docs)
    backprop([np.ones_like(y) for y in Y])
    assert batch.received is None
    assert np.abs(listener.layers[0].get_grad("weights")).max() > 0


@pytest.mark.parametrize("layer_norm", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_prediction_in_pieces_is_that_at_once(monkeypatch, shared, layer_norm):
    docs = [NLP.make_doc(text) for text in ("one two three", "", "four", "five six", "seven")]
    listener, batch = linked(docs, projection=5, layer_norm=layer_norm)
    by_doc = dict(zip(map(id, docs), batch.outputs))
    state_of(listener).read = lambda doc, listener_id: by_doc[id(doc)]
    at_once, _ = listener(docs, is_train=True)
    monkeypatch.setattr("spacy_ctxvec.layers.listener.PIECE", 1)
    monkeypatch.setattr("spacy_ctxvec.layers.listener.can_share", lambda: shared)
    for got, want in zip(listener.predict(docs), at_once):
        np.testing.assert_allclose(got, want, atol=1e-6)
