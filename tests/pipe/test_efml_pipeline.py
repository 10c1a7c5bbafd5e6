"""Pipelines with a token layer of words and characters: whole when saved, cached, trained."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import spacy
import torch
from efml_files import Equations, write_efml
from spacy.tokens import Doc
from thinc.api import Adam
from toys import ODD_TEXTS, component_model, examples, layers_of, listener

from spacy_ctxvec.formats.efml.reading import read_efml
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.pipe.encoder_config import encoder_block

SENTENCE = ["abc", "東", "abcabcabc", "\u3000x", "ab", "<bos>"]


@pytest.fixture
def folder(tmp_path):
    return write_efml(tmp_path / "efml")


@pytest.fixture
def nlp(folder):
    made = spacy.blank("en")
    block = encoder_block(read_efml(folder).config)
    pipe = made.add_pipe("ctxvec", config={"model": block})
    pipe.initialize(lambda: examples(made), nlp=made, loader=lambda: read_efml(folder))
    return made


def test_the_rows_of_the_original(nlp, folder):
    doc = nlp(Doc(nlp.vocab, words=SENTENCE[:-1]))
    want = Equations(folder).layers([SENTENCE[:-1]])[0]
    np.testing.assert_allclose(layers_of(doc), want, atol=1e-5)


def test_a_saved_pipeline_needs_no_other_file(nlp, folder, tmp_path):
    doc = Doc(nlp.vocab, words=SENTENCE)
    want = layers_of(nlp(doc.copy()))
    nlp.to_disk(tmp_path / "saved")
    for path in folder.iterdir():
        path.unlink()
    loaded = spacy.load(tmp_path / "saved")
    np.testing.assert_array_equal(layers_of(loaded(Doc(loaded.vocab, words=SENTENCE))), want)
    copied = pickle.loads(pickle.dumps(nlp))
    np.testing.assert_array_equal(layers_of(copied(Doc(copied.vocab, words=SENTENCE))), want)


def test_any_text_alone_and_in_a_batch(nlp):
    for text, doc in zip(ODD_TEXTS, list(nlp.pipe(ODD_TEXTS))):
        np.testing.assert_allclose(layers_of(doc), layers_of(nlp(text)), atol=1e-5)


def test_words_are_remembered_until_the_token_layer_changes(nlp):
    model = nlp.get_pipe("ctxvec").model
    shim = shim_of(model)
    docs = [Doc(nlp.vocab, words=SENTENCE)]
    first = model.predict(docs)[0]
    before = shim.inputs.cache.misses
    np.testing.assert_array_equal(model.predict(docs)[0], first)
    assert shim.inputs.cache.misses == before
    layers, backprop = model.begin_update(docs)
    np.testing.assert_allclose(layers[0], first, atol=1e-6)
    backprop([np.ones_like(rows) for rows in layers])
    for parameter in shim.module.parameters():  # the token layer alone learns
        if not any(parameter is p for p in shim.module.word_char_encoder.parameters()):
            parameter.grad = None
    model.finish_update(Adam(0.01))
    assert len(shim.inputs.cache) == 0
    assert not np.allclose(model.predict(docs)[0], first, atol=1e-4)


def test_a_component_that_listens_is_trained(folder):
    nlp = spacy.blank("en")
    config = read_efml(folder).config
    nlp.add_pipe("ctxvec", config={"model": encoder_block(config), "frozen": False})
    block = component_model("tagger", listener(width=config.width))
    nlp.add_pipe("tagger", config={"model": block})
    shim = shim_of(nlp.get_pipe("ctxvec").model)
    shim.adopt("efml", read_efml(folder))
    optimizer = nlp.initialize(lambda: examples(nlp, entities=False))
    words = shim.module.word_char_encoder.words.embedding.weight.detach().clone()
    for _ in range(3):
        losses = nlp.update(examples(nlp, entities=False), sgd=optimizer)
    assert np.isfinite(losses["tagger"])
    assert not torch.equal(shim.module.word_char_encoder.words.embedding.weight, words)
