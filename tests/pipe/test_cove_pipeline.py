"""Pipelines with an MT-LSTM: where its static vectors come from, and that they stay with it."""

from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest
import spacy
import srsly
import torch
from spacy.util import registry
from spacy.vectors import Vectors
from thinc.util import fix_random_seed
from toys import ODD_TEXTS, component_model, examples, layers_of, listener, mix_of, word_docs

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.layers.encoder import settings_of, shim_of
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig

COVE = "spacy-ctxvec.CoVe.v1"
WORDS = ["alice", "bob", "bank", "river", "the", ".", "went", "Carol"]
SIZES = {"width": 16, "input_width": 5}
TEXT = "Alice saw the bank ."


def with_vectors(nlp, width=5, words=WORDS):
    random = np.random.default_rng(3)
    for word in words:
        nlp.vocab.set_vector(word, random.standard_normal(width).astype("float32"))
    return nlp


def cove_pipeline(*components: str, vectors_width=5, frozen=False, tok2vec=None, **settings):
    fix_random_seed(0)
    nlp = with_vectors(spacy.blank("en"), vectors_width) if vectors_width else spacy.blank("en")
    model = {"@architectures": COVE, **SIZES, **settings}
    nlp.add_pipe("ctxvec", config={"model": model, "frozen": frozen})
    for component in components:
        block = component_model(component, tok2vec or listener())
        nlp.add_pipe(component, config={"model": block})
    return nlp


def initialised(*components: str, **settings):
    nlp = cove_pipeline(*components, **settings)
    optimizer = nlp.initialize(lambda: examples(nlp))
    return nlp, optimizer


def test_the_rows_of_the_original_model():
    nlp, _ = initialised()
    doc = nlp(TEXT)
    shim = shim_of(nlp.get_pipe("ctxvec").model)
    vectors = np.stack([nlp.vocab.get_vector(token.lower_) for token in doc])
    assert not vectors[1].any() and vectors[0].any()  # "saw" has no vector; "Alice" has alice's
    with torch.no_grad():
        want = shim.module(torch.from_numpy(vectors), np.arange(5), np.array([5])).numpy()
    np.testing.assert_allclose(layers_of(doc), want, atol=1e-6)
    assert layers_of(doc).shape == (5, 2, 16)


def test_words_can_be_looked_up_as_they_are_written():
    nlp, _ = initialised(lower=False)
    inputs = shim_of(nlp.get_pipe("ctxvec").model).inputs
    for text, has_vector in {"alice Carol": [True, True], "Alice carol": [False, False]}.items():
        batch = inputs.batch([nlp.make_doc(text)], 128)
        assert inputs.find(batch.keys, batch.vocabs)[1].tolist() == has_vector


def test_any_text_alone_and_in_a_batch():
    nlp, _ = initialised(max_batch_items=64)
    texts = [*ODD_TEXTS, *word_docs(nlp, 40)]
    together = list(nlp.pipe(texts, batch_size=len(texts)))
    for text, doc in zip(texts, together):
        assert layers_of(doc).shape == (len(doc), 2, 16)
        assert np.isfinite(layers_of(doc)).all()
        assert not any(layers_of(doc)[token.i].any() for token in doc if token.is_space)
        np.testing.assert_allclose(layers_of(doc), layers_of(nlp(text)), atol=1e-5)


@pytest.mark.parametrize("frozen", [True, False])
def test_its_listeners_learn(frozen):
    nlp, optimizer = initialised("tagger", "ner", frozen=frozen)
    module = shim_of(nlp.get_pipe("ctxvec").model).module
    weights = [p.detach().clone() for p in module.parameters()]
    optimizer.learn_rate = 0.02
    losses = [nlp.update(examples(nlp), sgd=optimizer)["tagger"] for _ in range(60)]
    assert losses[-1] < losses[0] / 2
    assert all((p == w).all() == frozen for p, w in zip(module.parameters(), weights))
    assert len(mix_of(nlp, "tagger").get_param("weights")) == 2


def test_beside_its_static_vectors():
    static = {
        "@layers": "spacy.StaticVectors.v2",
        "nO": 5,
        "init_W": {"@initializers": "glorot_uniform_init.v1"},
    }
    both = {"@architectures": "spacy-ctxvec.Concat.v1", "listener": listener(), "static": static}
    nlp, optimizer = initialised("tagger", tok2vec=both)
    optimizer.learn_rate = 0.02
    losses = [nlp.update(examples(nlp), sgd=optimizer)["tagger"] for _ in range(60)]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("vectors", ["vocab", "model"])
def test_a_saved_pipeline_is_complete(tmp_path, vectors):
    nlp, _ = initialised("tagger", vectors=vectors)
    want = layers_of(nlp(TEXT))
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    np.testing.assert_array_equal(layers_of(again(TEXT)), want)
    np.testing.assert_array_equal(layers_of(pickle.loads(pickle.dumps(nlp))(TEXT)), want)


def test_vectors_of_the_model_need_no_vocab(tmp_path):
    nlp, _ = initialised(vectors="model")
    want = layers_of(nlp(TEXT))
    nlp.to_disk(tmp_path / "saved", exclude=["vocab"])
    again = cove_pipeline(vectors_width=0, vectors="model")
    again.from_disk(tmp_path / "saved", exclude=["vocab"])
    assert not len(again.vocab.vectors)
    np.testing.assert_array_equal(layers_of(again(TEXT)), want)


def test_vectors_of_the_vocab_are_not_saved_twice():
    nlp, _ = initialised(vectors="vocab")
    assert b"vectors" not in shim_of(nlp.get_pipe("ctxvec").model).to_bytes()


def test_an_encoder_of_a_component_of_its_own_keeps_its_vectors():
    fix_random_seed(0)
    nlp = with_vectors(spacy.blank("en"))
    own = {
        "@architectures": "spacy-ctxvec.Tok2Vec.v1",
        "encoder": {"@architectures": COVE, **SIZES, "vectors": "model"},
        "mix": {"@architectures": "spacy-ctxvec.ScalarMix.v1"},
    }
    nlp.add_pipe("tagger", config={"model": component_model("tagger", own)})
    nlp.initialize(lambda: examples(nlp))
    shims = [shim for node in nlp.get_pipe("tagger").model.walk() for shim in node.shims]
    assert len(shims[0].inputs.table.keys) == len(WORDS)


def test_damaged_vectors_of_a_saved_pipeline():
    nlp, _ = initialised(vectors="model")
    shim = shim_of(nlp.get_pipe("ctxvec").model)
    message = srsly.msgpack_loads(shim.to_bytes())
    message["vectors"] = message["vectors"][:50]
    with pytest.raises(CtxvecError, match="Save the pipeline again"):
        shim.from_bytes(srsly.msgpack_dumps(message))


def test_two_processes(tmp_path):
    nlp, _ = initialised(vectors="model")
    texts = word_docs(nlp, 30)
    want = [layers_of(doc) for doc in nlp.pipe(texts)]
    for doc, rows in zip(nlp.pipe(texts, n_process=2, batch_size=7), want):
        np.testing.assert_allclose(layers_of(doc), rows, atol=1e-6)


def model_with_vectors(width=5) -> EncoderModel:
    config = MTLSTMConfig(width, 8)
    table = WordTable.of(
        np.array([spacy.strings.get_string_id(word) for word in WORDS], dtype=np.uint64),
        np.arange(len(WORDS)),
        np.random.default_rng(1).standard_normal((len(WORDS), width)).astype("float16"),
    )
    return EncoderModel(config, MTLSTM(config).state_dict(), {"name": "toy"}, table)


@pytest.fixture
def native(tmp_path):
    save_native(model_with_vectors(), tmp_path / "native")
    return tmp_path / "native"


def test_a_model_folder_keeps_its_vectors(native):
    model, found = model_with_vectors(), load_native(native)
    assert found.config == model.config
    assert model.vectors is not None and found.vectors is not None
    for name in ("keys", "rows", "vectors"):
        np.testing.assert_array_equal(getattr(found.vectors, name), getattr(model.vectors, name))


def test_a_loader_brings_vectors(native):
    nlp = cove_pipeline(vectors_width=0, vectors="model")
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(native)}
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader}
    nlp.initialize(lambda: examples(nlp))
    assert layers_of(nlp(TEXT)).any()
    assert shim_of(nlp.get_pipe("ctxvec").model).source == "toy"


@pytest.mark.parametrize("vectors", ["vocab", "model"])
def test_a_pipeline_without_vectors(vectors):
    nlp = cove_pipeline(vectors_width=0, vectors=vectors)
    with pytest.raises(CtxvecError, match=r"vocab\.vectors is empty"):
        nlp.initialize(lambda: examples(nlp))


@pytest.mark.parametrize("vectors", ["vocab", "model"])
def test_vectors_of_another_width(vectors):
    nlp = cove_pipeline(vectors_width=4, vectors=vectors)
    with pytest.raises(CtxvecError, match=r"width 4.* width 5"):
        nlp.initialize(lambda: examples(nlp))


def test_a_model_whose_vectors_have_another_width(native):
    nlp = cove_pipeline(vectors="model", input_width=7)
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(native)}
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader}
    with pytest.raises(CtxvecError):
        nlp.initialize(lambda: examples(nlp))


def test_how_many_words_have_a_vector_is_said(caplog):
    with caplog.at_level(logging.INFO, "spacy"):
        initialised()
    assert "7 of 14 words (50.0%) have a static vector" in caplog.text


def test_floret_vectors_are_computed():
    nlp = cove_pipeline(vectors_width=0)
    data = np.random.default_rng(0).standard_normal((50, 5)).astype("float32")
    settings = {"mode": "floret", "minn": 2, "maxn": 3, "hash_count": 2, "hash_seed": 1}
    vectors = Vectors(data=data, strings=nlp.vocab.strings, **settings)
    nlp.vocab.vectors = vectors
    nlp.initialize(lambda: examples(nlp))
    assert layers_of(nlp("a word never seen")).any()
    nlp = cove_pipeline(vectors_width=0, vectors="model")
    nlp.vocab.vectors = vectors
    with pytest.raises(CtxvecError, match='vectors = "vocab"'):
        nlp.initialize(lambda: examples(nlp))


def test_vectors_of_lower_cased_words_are_not_copied_for_others():
    """Words as they are written would be looked for among keys that are all lower-cased."""
    nlp = cove_pipeline(vectors_width=0, vectors="model", lower=False)
    data = np.ones((1, 5), dtype="float32")
    nlp.vocab.vectors = Vectors(data=data, keys=["alice"], strings=nlp.vocab.strings, attr="LOWER")
    with pytest.raises(CtxvecError, match="lower = true"):
        nlp.initialize(lambda: examples(nlp))


def test_copies_share_the_vectors_of_a_model():
    nlp, _ = initialised(vectors="model")
    model = nlp.get_pipe("ctxvec").model
    table = shim_of(model).inputs.table
    assert table is not None and shim_of(model.copy()).inputs.table is table


def test_odd_widths_are_refused():
    make = registry.architectures.get(COVE)
    with pytest.raises(CtxvecError, match="width"):
        make(width=15)
    assert settings_of(make(**SIZES)).state == "reset"


def test_docs_of_two_vocabs_share_a_batch():
    nlp, _ = initialised()
    other = with_vectors(spacy.blank("en"), words=["zebra"])
    docs = [nlp.make_doc("bank"), other.make_doc("zebra")]
    inputs = shim_of(nlp.get_pipe("ctxvec").model).inputs
    batch = inputs.batch(docs, 128)
    assert inputs.find(batch.keys, batch.vocabs)[1].all()
