"""Layers that were read before: the same as read anew, of the same words and the same encoder."""

from __future__ import annotations

import copy
import logging
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import spacy
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from spacy.vocab import Vocab
from test_encoder import SIZES, TINY, docs_of, encoder
from thinc.api import Adam
from thinc.util import fix_random_seed
from toys import ODD_TEXTS, word_docs

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.bilm import BiLM_v1
from spacy_ctxvec.layers.cove import CoVe_v1
from spacy_ctxvec.layers.encoder import init_encoder, shim_of
from spacy_ctxvec.layers.feature_memory import ENTRY_BYTES, FeatureMemory
from spacy_ctxvec.layers.features import FeatureCache, FeatureSettings

ENCODER = encoder()
TEXTS = [*ODD_TEXTS, *word_docs(spacy.blank("en"), 40)]
ROUNDED = 2.0**-11  # the relative error of float16


def memory(**settings) -> FeatureCache:
    return FeatureCache(FeatureSettings(**{"max_mb": 100, **settings}))


def assert_same(got, want, **tolerance) -> None:
    assert [rows.shape for rows in got] == [rows.shape for rows in want]
    assert all(rows.dtype == np.float32 for rows in got)
    for a, b in zip(got, want):
        np.testing.assert_allclose(a, b, **{"atol": 1e-5, **tolerance})


def read_texts(cache: FeatureCache, model, docs) -> int:
    """How many texts the encoder had to read."""
    before = cache.misses
    cache.layers(model, docs)
    return cache.misses - before


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_first_and_second_reading_are_the_plain_ones(where, tmp_path):
    cache = memory(where=where, folder=str(tmp_path))
    want = ENCODER.predict(docs_of(TEXTS))
    for _ in range(2):
        assert_same(cache.layers(ENCODER, docs_of(TEXTS)), want)
    assert_same(cache.layers(ENCODER, docs_of(TEXTS[::-1])), want[::-1])
    assert read_texts(cache, ENCODER, docs_of(TEXTS)) == 0


@given(st.lists(st.lists(st.text(max_size=12), min_size=1, max_size=3), min_size=1, max_size=4))
def test_any_batches(batches):
    cache = memory()
    for texts in [*batches, *batches]:
        assert_same(cache.layers(ENCODER, docs_of(texts)), ENCODER.predict(docs_of(texts)))


@pytest.mark.parametrize("texts", [[], [""], ["", "  "], ["\n"]])
def test_batches_without_words(texts):
    assert_same(memory().layers(ENCODER, docs_of(texts)), ENCODER.predict(docs_of(texts)))


def test_new_texts_of_a_batch_are_read_together_and_once(monkeypatch):
    calls, cache, module = [], memory(), shim_of(ENCODER).module
    forward = module.forward
    monkeypatch.setattr(module, "forward", lambda *X: calls.append(len(X[2])) or forward(*X))
    cache.layers(ENCODER, docs_of(["a b", "c", "a b"]))
    got = cache.layers(ENCODER, docs_of(["d", "c", "e", "a b", "e"]))
    assert calls == [2, 2]
    assert_same(got, ENCODER.predict(docs_of(["d", "c", "e", "a b", "e"])))


def test_what_augmentation_changes_is_another_text():
    cache = memory()
    cache.layers(ENCODER, docs_of(["Alice met Bob ."]))
    changed = ["alice met Bob .", "Alice met Bob", "Bob met Alice .", "Alice met Bobby ."]
    assert read_texts(cache, ENCODER, docs_of(changed)) == 4
    # The same string of letters, cut differently
    words = [["Ali", "ce"], ["Al", "ice"], ["Alice"], ["A", "l", "i", "c", "e"], ["Alice", "."]]
    docs = [Doc(Vocab(), words=each) for each in words]
    assert read_texts(cache, ENCODER, docs) == 5
    assert_same(cache.layers(ENCODER, docs), ENCODER.predict(docs))


def test_white_space_makes_no_difference_to_words():
    cache = memory()
    cache.layers(ENCODER, docs_of(["Alice met Bob"]))
    docs = docs_of(["Alice   met\n\nBob ", " Alice met Bob"])
    assert read_texts(cache, ENCODER, docs) == 0
    assert_same(cache.layers(ENCODER, docs), ENCODER.predict(docs))


def test_windows_decide_and_not_their_setting():
    text = ["one two three . four five six seven eight nine"]
    texts = docs_of(["short one", *text])
    wide, narrow = encoder(window=100), encoder(window=4)
    cache = memory()
    cache.layers(wide, texts)
    assert read_texts(cache, narrow, texts) == 1  # the short one has the same one window
    assert_same(cache.layers(narrow, texts), narrow.predict(texts))
    assert_same(cache.layers(wide, texts), wide.predict(texts))


def test_changed_weights_are_another_encoder():
    model, cache = encoder(), memory()
    docs = docs_of(["one two three"])
    cache.layers(model, docs)
    optimizer = Adam(0.1, use_averages=True)
    for _ in range(2):
        layers, backprop = model.begin_update(docs)
        backprop([np.ones_like(rows) for rows in layers])
        model.finish_update(optimizer)
        assert_same(cache.layers(model, docs), model.predict(docs))
    with model.use_params(optimizer.averages):
        assert_same(cache.layers(model, docs), model.predict(docs))
    assert_same(cache.layers(model, docs), model.predict(docs))
    model.from_bytes(ENCODER.to_bytes())
    assert_same(cache.layers(model, docs), ENCODER.predict(docs))


def test_another_model_of_the_same_sizes():
    torch.manual_seed(5)
    other = init_encoder(BiLM_v1(**{**SIZES, **TINY}))
    cache, docs = memory(), docs_of(["one two three"])
    cache.layers(ENCODER, docs)
    assert_same(cache.layers(other, docs), other.predict(docs))
    assert np.abs(cache.layers(other, docs)[0] - ENCODER.predict(docs)[0]).max() > 1e-3


def test_fingerprints_tell_encoders_apart():
    shim = shim_of(encoder())
    assert shim.fingerprint == shim_of(encoder()).fingerprint
    assert shim.fingerprint == shim_of(encoder(window=5, max_batch_items=9)).fingerprint
    others = [encoder(skip=False), encoder(cell_clip=3.0), encoder(max_characters=20)]
    assert len({shim.fingerprint, *(shim_of(other).fingerprint for other in others)}) == 4
    before = shim.fingerprint
    shim.module.set_statistics(torch.randn(7, 3, 16))
    shim.to_device("cpu", 0)
    assert shim.fingerprint == before


def test_static_vectors_decide_for_cove():
    nlp = spacy.blank("en")
    random = np.random.default_rng(3)
    for word in ["bank", "river"]:
        nlp.vocab.set_vector(word, random.standard_normal(5).astype("float32"))
    fix_random_seed(0)
    model = init_encoder(CoVe_v1(width=16, input_width=5))
    cache, docs = memory(), [nlp.make_doc("Bank of the river"), nlp.make_doc("  ")]
    assert read_texts(cache, model, docs) == 1
    assert (
        read_texts(cache, model, [nlp.make_doc("bank or a River")]) == 0
    )  # no vector is no vector
    nlp.vocab.set_vector("bank", random.standard_normal(5).astype("float32"))
    assert read_texts(cache, model, docs) == 1
    assert_same(cache.layers(model, docs), model.predict(docs))


def test_float16_rounds_the_first_reading_as_well():
    cache, docs = memory(dtype="float16"), docs_of(TEXTS)
    first = cache.layers(ENCODER, docs)
    assert_same(first, ENCODER.predict(docs), rtol=ROUNDED, atol=1e-7)
    for a, b in zip(first, cache.layers(ENCODER, docs)):
        np.testing.assert_array_equal(a, b)
    full = memory(dtype="float16", max_mb=1e-6)
    for a, b in zip(first, full.layers(ENCODER, docs)):
        np.testing.assert_array_equal(a, b)


def test_numbers_beyond_float16_are_not_kept():
    model, cache, docs = encoder(), memory(dtype="float16"), docs_of(["one two"])
    with torch.no_grad(), shim_of(model).changing():
        for parameter in shim_of(model).module.char_encoder.parameters():
            parameter.mul_(1e6)
    want = model.predict(docs)
    assert np.abs(want[0]).max() > 1e5
    for _ in range(2):
        assert_same(cache.layers(model, docs), want, rtol=1e-5)
    assert cache.misses == 2


def test_a_state_that_is_carried_on_is_never_remembered():
    model, cache, docs = encoder(state="carry"), memory(), docs_of(["one two"])
    first, second = (cache.layers(model, docs)[0] for _ in range(2))
    assert (first != second).any()


def test_when_memory_is_full_what_is_there_stays(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("spacy"), "propagate", True)
    rows = np.zeros((10, 3, 16), dtype="float32")
    store = FeatureMemory(max_bytes=2 * (rows.nbytes + ENTRY_BYTES))
    assert [store.put(key, rows) for key in (b"a", b"b", b"c", b"a", b"d")] == [1, 1, 0, 1, 0]
    assert store.n_bytes <= store.max_bytes and len(store) == 2
    assert store.get(b"a") is rows and store.get(b"c") is None
    assert sum("feature cache is full" in record.message for record in caplog.records) == 1


def test_a_part_of_an_epoch_that_does_not_fit_is_served_in_every_epoch():
    texts = docs_of([f"text number {i}" for i in range(20)])
    cache = memory(max_mb=10 * (3 * 3 * 16 * 4 + ENTRY_BYTES) / 1e6)
    cache.layers(ENCODER, texts)
    for _ in range(3):
        assert read_texts(cache, ENCODER, texts) == 10
    assert_same(cache.layers(ENCODER, texts), ENCODER.predict(texts))


def test_copies_are_empty_and_work():
    cache, docs = memory(), docs_of(TEXTS)
    cache.layers(ENCODER, docs)
    for copied in (pickle.loads(pickle.dumps(cache)), copy.deepcopy(cache)):
        assert len(pickle.dumps(copied)) < 1000
        assert copied.settings == cache.settings
        assert read_texts(copied, ENCODER, docs[:20]) > 0


def test_four_threads_share_a_cache():
    cache = memory()
    want = [ENCODER.predict(docs_of([text]))[0] for text in TEXTS]

    def agrees(i: int) -> bool:
        chosen = [i % len(TEXTS), (7 * i) % len(TEXTS)]
        got = cache.layers(ENCODER, docs_of([TEXTS[j] for j in chosen]))
        return all(np.allclose(rows, want[j], atol=1e-5) for rows, j in zip(got, chosen))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(agrees, range(600)))


@pytest.mark.parametrize(
    "block",
    [{"max_mb": -1}, {"max_mb": True}, {"max_mb": "9"}, {"where": "cloud"}, {"dtype": "int8"}],
)
def test_settings_that_cannot_work_are_named(block):
    with pytest.raises(CtxvecError, match=next(iter(block))):
        FeatureSettings.of(block)


def test_an_unknown_setting_is_named():
    with pytest.raises(
        CtxvecError, match=r"no setting size\. Expected: max_mb, where, folder, dtype"
    ):
        FeatureSettings.of({"size": 3})
