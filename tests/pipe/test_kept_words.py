"""Words whose token layer is saved with a pipeline: not computed again, never other vectors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import spacy
from thinc.api import Adam
from toys import examples, layers_of, trained

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.layers.encoder import settings_of, shim_of

TEXT = "Alice saw the NOUN bank of a river"
KEPT = ["Alice", "saw", "bank", "<S>", "NOUN", "bank"]


def encoder_of(nlp):
    return nlp.get_pipe("ctxvec").model


def table_of(nlp):
    return shim_of(encoder_of(nlp)).inputs.table


def keeping(**settings):
    nlp, optimizer = trained(("tagger",), **settings)
    nlp.get_pipe("ctxvec").keep_words(KEPT)
    return nlp, optimizer


def computed(nlp, text: str, monkeypatch) -> tuple[np.ndarray, set[str]]:
    """Layers of a text, and of which words the token layer was computed for them."""
    module, words = shim_of(encoder_of(nlp)).module, set()
    compute = module.word_vectors
    monkeypatch.setattr(module, "word_vectors", lambda new: words.update(new) or compute(new))
    return layers_of(nlp(text)), words


@pytest.mark.parametrize("way", ["disk", "bytes", "pickle", "copy", "device"])
def test_known_from_the_start_and_the_same_vectors(way, tmp_path, monkeypatch):
    nlp, _ = keeping()
    want = layers_of(nlp(TEXT))
    other = nlp
    if way == "disk":
        nlp.to_disk(tmp_path)
        other = spacy.load(tmp_path)
    elif way == "pickle":
        other = pickle.loads(pickle.dumps(nlp))
    elif way == "bytes":
        other = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    elif way == "copy":
        other.get_pipe("ctxvec").model = encoder_of(nlp).copy()
    else:
        shim_of(encoder_of(nlp)).to_device("cpu", 0)
    table = table_of(other)
    inputs = shim_of(encoder_of(other)).inputs
    inputs.forget()  # the cache, in which `nlp` has left the words
    inputs.adopt(table)
    got, words = computed(other, TEXT, monkeypatch)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert words == {"the", "of", "a", "river"}
    inputs.forget()
    np.testing.assert_allclose(layers_of(other(TEXT)), got, atol=1e-5)


def test_training_the_token_layer_drops_them():
    nlp, _ = keeping(frozen=False)
    size = len(nlp.to_bytes())
    optimizer = Adam(0.05, use_averages=True)
    nlp.update(examples(nlp), sgd=optimizer)
    assert len(nlp.to_bytes()) < size
    nlp.get_pipe("ctxvec").keep_words(KEPT)
    with nlp.use_params(optimizer.averages):
        assert table_of(nlp) is None
    want = layers_of(nlp(TEXT))
    loaded = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    assert table_of(loaded) is None
    np.testing.assert_allclose(layers_of(loaded(TEXT)), want, atol=1e-5)


def test_training_the_layers_above_keeps_them():
    nlp, _ = keeping(frozen=False)
    settings_of(encoder_of(nlp)).first_trainable = 1
    before = layers_of(nlp(TEXT))
    nlp.update(examples(nlp), sgd=Adam(0.05))
    after = layers_of(nlp(TEXT))
    assert table_of(nlp) is not None and np.abs(after - before).max() > 1e-3
    np.testing.assert_allclose(after[:, 0], before[:, 0], atol=1e-6)


def test_other_weights_come_without_them():
    nlp, _ = keeping()
    other, _ = trained(("tagger",))
    nlp.from_bytes(other.to_bytes())
    assert table_of(nlp) is None


def test_others_replace_them():
    nlp, _ = keeping()
    nlp.get_pipe("ctxvec").keep_words(["river"])
    assert len(table_of(nlp).keys) == 1
    nlp.get_pipe("ctxvec").keep_words([])
    assert table_of(nlp) is None


def test_an_encoder_that_spells_no_words_refuses():
    nlp = spacy.blank("en")
    block = {"@architectures": "spacy-ctxvec.CoVe.v1", "width": 8, "input_width": 4}
    pipe = nlp.add_pipe("ctxvec", config={"model": block})
    nlp.vocab.set_vector("bank", np.ones(4, dtype="float32"))
    nlp.initialize()
    with pytest.raises(CtxvecError, match="only biLMs"):
        pipe.keep_words(["bank"])


def test_words_of_another_encoder_are_refused():
    nlp, _ = keeping()
    inputs = shim_of(encoder_of(nlp)).inputs
    inputs.forget()
    inputs.adopt(WordTable.of(np.arange(1, dtype=np.uint64), np.arange(1), np.ones((1, 5), "f")))
    with pytest.raises(
        CtxvecError, match="have 5 numbers each, and its encoder's token layer has 8"
    ):
        nlp("Alice saw something")
