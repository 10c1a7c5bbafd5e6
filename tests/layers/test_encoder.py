"""The encoder as a Thinc layer: odd Docs, batches, gradients, weights, windows."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import spacy
import torch
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc
from thinc.api import Adam
from thinc.util import fix_random_seed
from toys import ODD_TEXTS, TINY, word_docs

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.bilm import BiLM_v1
from spacy_ctxvec.layers.encoder import (
    init_encoder,
    layer_statistics,
    settings_of,
    shim_of,
)
from spacy_ctxvec.nn.precision import possible

NLP = spacy.blank("en")
SIZES = {"n_layers": 2, "skip": True, "cell_clip": 0.0, "output_clip": 0.0}
SIZES |= {"activation": "relu", "n_highway": 1}


def encoder(**settings):
    fix_random_seed(0)
    return init_encoder(BiLM_v1(**{**SIZES, **TINY, **settings}))


def docs_of(texts) -> list[Doc]:
    return [NLP.make_doc(text) for text in texts]


def test_one_row_a_token_zeros_for_white_space():
    docs = docs_of(ODD_TEXTS)
    for doc, layers in zip(docs, encoder().predict(docs)):
        assert layers.shape == (len(doc), 3, 16)
        assert layers.dtype == np.float32
        assert np.isfinite(layers).all()
        for token, row in zip(doc, layers):
            assert row.any() != token.is_space


@pytest.mark.parametrize("texts", [[], [""], ["", "  "], ["\n"]])
def test_batches_without_words(texts):
    model = encoder()
    docs = docs_of(texts)
    layers, backprop = model.begin_update(docs)
    assert [len(rows) for rows in layers] == [len(doc) for doc in docs]
    backprop(layers)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=4))
def test_any_text(texts):
    docs = [Doc(NLP.vocab, words=[word for word in text.split(" ") if word]) for text in texts]
    for doc, layers in zip(docs, MODEL.predict(docs)):
        assert layers.shape == (len(doc), 3, 16)
        assert np.isfinite(layers).all()


MODEL = encoder()


def test_lone_surrogates_and_literal_marks():
    words = ["\ud800", "a\udfffb", "<S>", "</S>", "<UNK>", "<s>"]
    doc = Doc(NLP.vocab, words=["<S>", "</S>", "<UNK>", "<s>"])
    layers = encoder().predict([doc])[0]
    assert len({tuple(row) for row in layers[:, 0].round(4).tolist()}) == 4
    vectors = shim_of(MODEL).module.word_vectors(words)
    assert vectors.shape == (6, 8)


def test_a_document_of_10_000_tokens_alone_and_among_short_ones():
    long = Doc(NLP.vocab, words=(["word", "."] + ["other"] * 8) * 1000)
    model = encoder(window=64)
    alone = model.predict([long])[0]
    assert alone.shape == (10_000, 3, 16)
    among = model.predict([*docs_of(ODD_TEXTS), long])[-1]
    np.testing.assert_allclose(alone, among, atol=1e-5)


def test_vectors_depend_on_the_text_alone():
    """Alone, batched, shuffled, twice, in other batch sizes: the same vectors."""
    model = encoder(window=32, max_batch_items=200)
    docs = docs_of(word_docs(NLP, 200))
    together = model.predict(docs)
    order = np.random.default_rng(0).permutation(len(docs))
    shuffled = model.predict([docs[i] for i in order])
    worst = 0.0
    for place, i in enumerate(order):
        alone = model.predict([docs[i]])[0]
        for other in (together[i], shuffled[place], model.predict([docs[i]])[0]):
            worst = max(worst, np.abs(alone - other).max(initial=0))
    assert worst <= 1e-5


def test_training_and_prediction_agree():
    model = encoder(window=16)
    docs = docs_of(word_docs(NLP, 30, seed=1))
    for trained, predicted in zip(model.begin_update(docs)[0], model.predict(docs)):
        np.testing.assert_allclose(trained, predicted, atol=1e-5)


def test_gradient_against_finite_differences():
    model = encoder(window=4)
    module = shim_of(model).module.double()
    docs = docs_of(["a b. c d e f", "", "a  b"])
    layers, backprop = model.begin_update(docs)
    random = np.random.default_rng(0)
    directions = [random.normal(size=rows.shape) for rows in layers]
    backprop(directions)

    def loss() -> float:
        shim_of(model).inputs.forget()
        return sum(float((rows * d).sum()) for rows, d in zip(model.predict(docs), directions))

    for _, parameter in module.named_parameters():
        flat, gradient = parameter.detach().view(-1), parameter.grad.view(-1)
        for place in random.integers(0, len(flat), size=4).tolist():
            before = flat[place].item()
            flat[place] = before + 1e-6
            above = loss()
            flat[place] = before - 1e-6
            numeric = (above - loss()) / 2e-6
            flat[place] = before
            assert gradient[place].item() == pytest.approx(numeric, rel=1e-4, abs=1e-6)


def test_only_the_layers_above_first_trainable_learn():
    model = encoder()
    module = shim_of(model).module
    docs = docs_of(["one two three", "four"])
    settings_of(model).first_trainable = 2
    before = {name: p.detach().clone() for name, p in module.named_parameters()}
    layers, backprop = model.begin_update(docs)
    backprop([np.ones_like(rows) for rows in layers])
    model.finish_update(Adam(0.01))
    changed = {name for name, p in module.named_parameters() if (p != before[name]).any()}
    assert changed and all("lstms.1." in name for name in changed)


def test_dropout_reaches_the_encoder_while_training_only():
    model = encoder()
    docs = docs_of(["one two three four"])
    from thinc.api import set_dropout_rate

    set_dropout_rate(model, 0.5)
    first, second = (model.begin_update(docs)[0][0] for _ in range(2))
    assert not np.allclose(first, second)
    np.testing.assert_array_equal(model.predict(docs)[0], model.predict(docs)[0])


def test_statistics_are_measured_once_and_kept():
    model = encoder()
    docs = docs_of(word_docs(NLP, 20))
    mean, deviation = layer_statistics(model, docs)
    words = [[not token.is_space for token in doc] for doc in docs]
    rows = np.concatenate([r[w] for r, w in zip(model.predict(docs), words) if len(r)])
    np.testing.assert_allclose(mean, rows.mean(axis=0), atol=1e-5)
    again = layer_statistics(model, docs[:1])
    np.testing.assert_array_equal(again[1], deviation)


@pytest.mark.parametrize("texts", [[], [""], ["   ", ""]])
def test_statistics_of_nothing_are_left_to_later(texts):
    model = encoder()
    mean, deviation = layer_statistics(model, [NLP.make_doc(text) for text in texts])
    assert not mean.any() and (deviation == 1).all()
    mean, _ = layer_statistics(model, docs_of(word_docs(NLP, 20)))
    assert mean.any()


def test_memory_of_prediction_does_not_grow_with_the_number_of_distinct_words():
    """The character CNN takes far more memory than its result: it must not see them all at once."""
    model = encoder(filters=[[1, 64], [2, 64]], char_width=32)
    parts = []
    module = shim_of(model).module
    module.char_encoder.register_forward_pre_hook(lambda _, ids: parts.append(len(ids[0])))
    words = [f"{i}th-of-many-words" for i in range(5000)]
    docs = [Doc(NLP.vocab, words=words[i : i + 50]) for i in range(0, 5000, 50)]
    model.predict(docs)
    assert max(parts) <= 1024 and sum(parts) >= 5000


def test_docs_of_several_vocabs_in_one_batch():
    other = spacy.blank("de")
    docs = [NLP.make_doc("only English here"), other.make_doc("nur deutsche Wörter")]
    for doc, layers in zip(docs, encoder().predict(docs)):
        np.testing.assert_allclose(layers, encoder().predict([doc])[0], atol=1e-5)


def test_prediction_of_other_threads_while_training_has_no_dropout():
    model = encoder()
    model.attrs["dropout_rate"] = 0.5
    docs = docs_of(["one two three", "the bank of the river"])
    expected = model.predict(docs)
    stop = threading.Event()

    def train() -> None:
        while not stop.is_set():
            model.begin_update(docs)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        for _ in range(200):
            for got, right in zip(model.predict(docs), expected):
                np.testing.assert_allclose(got, right, atol=1e-6)
    finally:
        stop.set()
        thread.join()


def test_settings_come_from_the_config_and_not_from_the_saved_file():
    saved = encoder(window=7, max_batch_items=11)
    settings_of(saved).first_trainable = 2
    loaded = encoder(window=9, state="carry")
    loaded.from_bytes(saved.to_bytes())
    settings = settings_of(loaded)
    assert (settings.window, settings.state, settings.first_trainable) == (9, "carry", 0)
    assert shim_of(loaded).module.state is not None


def test_carry_depends_on_what_came_before_and_reset_does_not():
    docs = docs_of(["one two three"])
    carry, reset = encoder(state="carry"), encoder()
    first, second = (carry.predict(docs)[0] for _ in range(2))
    np.testing.assert_allclose(first, reset.predict(docs)[0], atol=1e-6)
    assert np.abs(first - second).max() > 1e-4


def test_unknown_settings_are_named():
    with pytest.raises(CtxvecError, match='init = "en_lg" is not known'):
        encoder(init="en_lg")
    with pytest.raises(CtxvecError, match="width = 15"):
        encoder(width=15)
    with pytest.raises(CtxvecError, match="precision = int4"):
        encoder(precision="int4")


SIZES_OF_LSTMS = [{}, {"hidden_width": 24, "cell_clip": 3.0, "output_clip": 3.0}]


@pytest.mark.parametrize("sizes", SIZES_OF_LSTMS, ids=["plain", "projected"])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_a_lower_precision_is_near_and_for_prediction_alone(precision, sizes, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    possible.cache_clear()
    docs = docs_of([*ODD_TEXTS, "The bank of the river was steep."])
    exact, rough = encoder(**sizes), encoder(**sizes, precision=precision)
    for want, got in zip(exact.predict(docs), rough.predict(docs)):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got[:, 0], want[:, 0])  # the token layer stays exact
        np.testing.assert_allclose(got, want, atol=0.03)
    learning, _ = rough.begin_update(docs)
    for want, got in zip(exact.predict(docs), learning):
        np.testing.assert_allclose(got, want, atol=1e-5)
    assert shim_of(exact).fingerprint != shim_of(rough).fingerprint
    possible.cache_clear()


@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_where_a_precision_is_no_use_it_is_float32_with_a_message(precision, monkeypatch, caplog):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: False)
    for module in ("precision", "lstm"):
        monkeypatch.setattr(f"spacy_ctxvec.nn.{module}.has_int8", lambda device: False)
    possible.cache_clear()
    docs = docs_of(["The bank of the river was steep."])
    want, got = encoder().predict(docs)[0], encoder(precision=precision).predict(docs)[0]
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert f"precision = '{precision}'" in caplog.text
    possible.cache_clear()


def test_too_little_memory_on_a_gpu_halves_what_is_read_at_a_time(monkeypatch, caplog):
    model = encoder(max_batch_items=64)
    docs = docs_of(["The bank of the river was steep."] * 8)
    want = model.predict(docs)
    module = shim_of(model).module
    forward = module.forward

    def of_small_memory(vectors, index, lengths, groups):
        if max(int(lengths[group].sum()) for group in groups) > 20:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(vectors, index, lengths, groups)

    monkeypatch.setattr(module, "forward", of_small_memory)
    for got, expected in zip(model.predict(docs), want):
        np.testing.assert_allclose(got, expected, atol=1e-6)
    assert settings_of(model).max_batch_items == 16
    assert "max_batch_items is 16" in caplog.text
    with pytest.raises(torch.OutOfMemoryError):  # a window is read as a whole
        model.predict(docs_of(["one two three " * 9]))
