"""One cache for equal token encoders: the same rows as without it, and never those of others."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from test_encoder import docs_of
from test_encoder import encoder as tiny_encoder
from thinc.api import Adam
from toys import blank_with_encoder, component_model, layers_of, listener

from spacy_ctxvec.layers.encoder import settings_of, shim_of
from spacy_ctxvec.layers.fingerprint import token_fingerprint_of

DOCS = ["one two three", "the bank of the river", "four"]


def encoder(**settings):
    """With sizes that no other test's encoder has, which might share with it."""
    return tiny_encoder(**{"max_characters": 44, **settings})


def cache_of(model):
    return shim_of(model).inputs.cache


def predicted(model) -> np.ndarray:
    return np.concatenate(model.predict(docs_of(DOCS)))


def read_anew(model) -> np.ndarray:
    """What the encoder says without any cache: its copy has one of its own."""
    copied = model.copy()
    shim_of(copied).inputs.forget()
    return predicted(copied)


def update(model, optimizer=None) -> None:
    layers, backprop = model.begin_update(docs_of(DOCS))
    backprop([np.ones_like(rows) for rows in layers])
    model.finish_update(optimizer or Adam(0.05))


def pair(**settings):
    """Two encoders of equal weights that have been used, so that they share a cache."""
    models = encoder(), encoder(**settings)
    for model in models:
        predicted(model)
    return models


def test_equal_encoders_read_a_word_once():
    first, second = pair()
    assert cache_of(first) is cache_of(second)
    assert cache_of(first).misses == len(cache_of(first))
    np.testing.assert_array_equal(predicted(second), read_anew(second))


def test_what_the_token_layer_does_not_read_does_not_matter():
    first, second = pair(window=7, precision="int8", state="carry")
    assert cache_of(first) is cache_of(second)


@pytest.mark.parametrize(
    "setting", [{"max_characters": 9}, {"activation": "tanh"}, {"n_highway": 0}], ids=str
)
def test_other_settings_share_nothing(setting):
    first, second = pair(**setting)
    assert cache_of(first) is not cache_of(second)


def test_other_weights_and_other_numbers_share_nothing():
    first, second = encoder(), encoder()
    names = {token_fingerprint_of(shim_of(model).module) for model in (first, second)}
    assert len(names) == 1
    with torch.no_grad():
        shim_of(first).module.char_encoder.embedding.weight[-1, 0] += 1e-6
    names.add(token_fingerprint_of(shim_of(first).module))
    names.add(token_fingerprint_of(shim_of(second).module.double()))
    assert len(names) == 3


def test_one_of_two_is_tuned():
    first, second = pair()
    before = predicted(first)
    shared = cache_of(first)
    for _ in range(3):
        update(second)
        assert cache_of(second) is not shared
        np.testing.assert_array_equal(predicted(second), read_anew(second))
    assert np.abs(predicted(second) - before).max() > 1e-3
    assert cache_of(first) is shared
    np.testing.assert_array_equal(predicted(first), before)
    np.testing.assert_array_equal(read_anew(first), before)


def test_no_step_hashes_the_weights(monkeypatch):
    model, _ = pair()
    monkeypatch.setattr("spacy_ctxvec.layers.spelled_words.token_fingerprint_of", pytest.fail)
    optimizer = Adam(0.05, use_averages=True)
    for _ in range(2):
        update(model, optimizer)
        predicted(model)
        with model.use_params(optimizer.averages):
            predicted(model)


def test_layers_above_learn_and_words_stay_known():
    first, second = pair()
    settings_of(second).first_trainable = 1
    before = predicted(second)
    update(second)
    assert cache_of(first) is cache_of(second)
    assert np.abs(predicted(second) - before).max() > 1e-3


def test_averages_are_never_shared():
    first, second = pair()
    before = predicted(first)
    optimizer = Adam(0.05, use_averages=True)
    for _ in range(3):
        update(second, optimizer)
    shim_of(second).from_bytes(shim_of(second).to_bytes())
    tuned = predicted(second)
    shared = cache_of(second)
    with second.use_params(optimizer.averages):
        assert np.abs(predicted(second) - tuned).max() > 1e-4
        assert cache_of(second) not in (shared, cache_of(first))
    np.testing.assert_array_equal(predicted(second), tuned)
    np.testing.assert_array_equal(predicted(first), before)


def test_loading_leaves_one_cache_and_joins_another():
    first, second = pair()
    update(second)
    data = second.to_bytes()
    tuned = predicted(second)
    third = encoder()
    third.from_bytes(data)
    np.testing.assert_array_equal(predicted(third), tuned)
    first.from_bytes(data)
    np.testing.assert_array_equal(predicted(first), tuned)
    assert cache_of(first) is cache_of(third)


@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_copies_share(way):
    model = encoder()
    want = predicted(model)
    ways = {"copy": lambda: model.copy(), "deepcopy": lambda: copy.deepcopy(model)}
    copied = ways.get(way, lambda: pickle.loads(pickle.dumps(model)))()
    np.testing.assert_array_equal(predicted(copied), want)
    assert cache_of(copied) is cache_of(model)


def test_a_pipeline_loaded_twice_and_its_replaced_listeners(tmp_path):
    nlp = blank_with_encoder()
    nlp.add_pipe("tagger", config={"model": component_model("tagger", listener())})
    nlp.get_pipe("tagger").add_label("A")
    nlp.initialize()
    nlp.to_disk(tmp_path)
    other = blank_with_encoder()
    other.add_pipe("tagger", config={"model": component_model("tagger", listener())})
    other.from_disk(tmp_path)
    text = "The bank of the river"
    np.testing.assert_array_equal(layers_of(other(text)), layers_of(nlp(text)))
    other.replace_listeners("ctxvec", "tagger", ["model.tok2vec"])
    other(text)
    found = [nlp.get_pipe("ctxvec").model, other.get_pipe("ctxvec").model]
    found += [n for n in other.get_pipe("tagger").model.walk() if n.name == "ctxvec_bilm"]
    assert len(found) == 3 and len({id(cache_of(model)) for model in found}) == 1


def test_a_cache_ends_with_its_last_encoder():
    first, second = pair()
    cache = weakref.ref(cache_of(first))
    del first
    gc.collect()
    assert cache() is cache_of(second)
    del second
    gc.collect()
    assert cache() is None


def test_there_is_room_for_what_the_largest_asks():
    first, second = pair(cache_size=60_000)
    assert cache_of(first).capacity == cache_of(second).capacity == 60_000


def test_threads_share_while_one_encoder_is_tuned():
    """Rows that were computed while weights were written would stay wrong for the others."""
    stop = threading.Event()
    fixed, tuned = encoder(), encoder()
    words = docs_of([f"word{i} and other{i}" for i in range(300)])
    data = fixed.to_bytes()

    def train() -> None:
        while not stop.is_set():
            update(tuned)
            tuned.from_bytes(data)

    def read(i: int) -> tuple[np.ndarray, np.ndarray]:
        return tuned.predict([words[i]])[0], fixed.predict([words[i]])[0]

    thread = threading.Thread(target=train)
    thread.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            got = [rows for _, rows in pool.map(read, range(300))]
    finally:
        stop.set()
        thread.join()
    shim_of(fixed).inputs.forget()
    for rows, doc in zip(got, words):
        np.testing.assert_allclose(rows, fixed.predict([doc])[0], atol=1e-5)


FORKED = {}


def test_a_forked_child_has_the_same_rows(monkeypatch):
    """Although the cache was in use during the fork."""
    first, second = pair()
    monkeypatch.setitem(FORKED, "pair", (first, second))
    with cache_of(first)._lock, multiprocessing.get_context("fork").Pool(1) as pool:
        got, shares = pool.apply_async(_of_both).get(timeout=60)
    assert shares
    for rows in got:
        np.testing.assert_array_equal(rows, predicted(second))


def _of_both() -> tuple[list[np.ndarray], bool]:
    first, second = FORKED["pair"]
    return [predicted(first), predicted(second)], cache_of(first) is cache_of(second)
