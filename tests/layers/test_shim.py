"""The torch boundary: each fault of Thinc's own shim, and that ours does not have it."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from test_encoder import docs_of, encoder
from thinc.api import Adam

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.layers.encoder import shim_of

DOCS = ["one two three", "the bank of the river", "four"]


def update(model, optimizer) -> None:
    layers, backprop = model.begin_update(docs_of(DOCS))
    backprop([np.ones_like(rows) for rows in layers])
    model.finish_update(optimizer)


def test_finish_update_writes_into_the_same_memory():
    model = encoder()
    module = shim_of(model).module
    before = {name: p.data_ptr() for name, p in module.named_parameters()}
    values = [p.detach().clone() for p in module.parameters()]
    update(model, Adam(0.01))
    assert {name: p.data_ptr() for name, p in module.named_parameters()} == before
    assert all((p != value).any() for p, value in zip(module.parameters(), values))


def test_gradients_do_not_outlive_their_step():
    model = encoder()
    update(model, Adam(0.01))
    assert all(p.grad is None for p in shim_of(model).module.parameters())


def test_predicting_threads_never_see_dropout():
    model = encoder()
    model.attrs["dropout_rate"] = 0.5
    docs = docs_of(DOCS)
    expected = model.predict(docs)

    def agrees(_: int) -> bool:
        return all(np.array_equal(a, b) for a, b in zip(model.predict(docs), expected))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(agrees, range(4 * 600)))


@pytest.mark.parametrize("sizes", [{}, {"hidden_width": 24, "cell_clip": 3.0}])
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_predictions_follow_every_update(sizes, precision):
    """Also where products have forms of the weights that are kept between calls."""
    model = encoder(**sizes, precision=precision)
    before = model.predict(docs_of(DOCS))[1]
    update(model, Adam(0.05))
    after = model.predict(docs_of(DOCS))[1]
    learning, _ = model.begin_update(docs_of(DOCS))
    assert np.abs(after - before).max() > 0.05
    np.testing.assert_allclose(after, learning[1], atol=1e-5 if precision == "float32" else 0.03)


def test_averages_reach_the_encoder():
    model = encoder()
    optimizer = Adam(0.05, use_averages=True)
    for _ in range(3):
        update(model, optimizer)
    plain = model.predict(docs_of(DOCS))[0]
    with model.use_params(optimizer.averages):
        averaged = model.predict(docs_of(DOCS))[0]
    assert np.abs(plain - averaged).max() > 1e-4
    np.testing.assert_array_equal(model.predict(docs_of(DOCS))[0], plain)


def test_a_copy_has_an_id_and_weights_of_its_own():
    model = encoder()
    copied = model.copy()
    assert copied.shims[0].id != model.shims[0].id
    before = copied.predict(docs_of(DOCS))[0]
    update(model, Adam(0.05))
    np.testing.assert_array_equal(copied.predict(docs_of(DOCS))[0], before)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("way", ["bytes", "pickle", "copy"])
def test_the_same_vectors_after_every_kind_of_transport(way: str, precision: str):
    model = encoder(precision=precision)
    update(model, Adam(0.05))
    if way == "bytes":
        other = encoder(precision=precision)
        other.from_bytes(model.to_bytes())
    else:
        other = pickle.loads(pickle.dumps(model)) if way == "pickle" else model.copy()
    for a, b in zip(model.predict(docs_of(DOCS)), other.predict(docs_of(DOCS))):
        np.testing.assert_array_equal(a, b)


def test_weights_that_half_precision_holds_are_saved_in_it():
    """Half the size for an encoder that never learned, and the same bits back."""
    model = encoder()
    with torch.no_grad(), shim_of(model).changing():
        for parameter in shim_of(model).module.parameters():
            parameter.copy_(parameter.half())
    small = model.to_bytes()
    other = encoder()
    other.from_bytes(small)
    for a, b in zip(model.predict(docs_of(DOCS)), other.predict(docs_of(DOCS))):
        np.testing.assert_array_equal(a, b)
    update(model, Adam(0.05))
    assert len(model.to_bytes()) > 1.5 * len(small)


def test_saved_weights_are_safetensors_and_damage_is_named():
    import srsly

    model = encoder()
    data = srsly.msgpack_loads(shim_of(model).to_bytes())
    assert data["weights"][8:9] == b"{"
    data["weights"] = data["weights"][:50]
    with pytest.raises(MalformedModelError, match="cannot be read"):
        shim_of(model).from_bytes(srsly.msgpack_dumps(data))


def test_weights_of_another_size_are_named():
    small, large = encoder(), encoder(hidden_width=12)
    with pytest.raises(CtxvecError, match="has shape"):
        small.from_bytes(large.to_bytes())


def test_nothing_stored_keeps_a_graph():
    model = encoder()
    rows = torch.from_numpy(model.predict(docs_of(DOCS))[0])
    assert not rows.requires_grad


def test_cached_word_vectors_are_never_stale():
    model = encoder()
    docs = docs_of(DOCS)
    before = model.predict(docs)[0]
    update(model, Adam(0.05))
    after = model.predict(docs)[0]
    assert np.abs(before - after).max() > 1e-4
    shim_of(model).inputs.forget()
    np.testing.assert_allclose(model.predict(docs)[0], after, atol=1e-6)
