"""Contextual, static and hash vectors side by side: any subset, trained and reloaded."""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
import spacy
from spacy.vectors import Vectors
from toys import component_model, examples, listener, pipeline

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.concat import Concat_v1

PARTS = {
    "listener": listener(),
    "static": {
        "@layers": "spacy.StaticVectors.v2",
        "nO": 6,
        "init_W": {"@initializers": "glorot_uniform_init.v1"},
    },
    "hash": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 8,
        "attrs": ["NORM", "PREFIX"],
        "rows": [50, 50],
        "include_static_vectors": False,
    },
}
WIDTHS = {"listener": 16, "static": 6, "hash": 8}
SUBSETS = list(chain.from_iterable(combinations(PARTS, n) for n in (1, 2, 3)))


@pytest.mark.parametrize("parts", SUBSETS, ids="+".join)
def test_any_subset_trains_and_reloads(parts, tmp_path):
    nlp = pipeline(())
    words = ["Alice", "Bob", "town", "bank"]
    data = np.random.default_rng(0).normal(size=(len(words), 5)).astype("float32")
    for word in words:
        nlp.vocab[word]
    nlp.vocab.vectors = Vectors(strings=nlp.vocab.strings, data=data, keys=words)
    tok2vec = {"@architectures": "spacy-ctxvec.Concat.v1", **{part: PARTS[part] for part in parts}}
    nlp.add_pipe("tagger", config={"model": component_model("tagger", tok2vec)})
    optimizer = nlp.initialize(lambda: examples(nlp))
    inner = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    doc = nlp("Alice saw the bank")
    assert inner.predict([doc])[0].shape == (4, sum(WIDTHS[part] for part in parts))
    for _ in range(3):
        losses = nlp.update(examples(nlp), sgd=optimizer)
    assert ("listener" in parts) == (losses["ctxvec"] > 0)
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    expected = nlp.get_pipe("tagger").model.predict([nlp("Alice saw the bank")])[0]
    got = again.get_pipe("tagger").model.predict([again("Alice saw the bank")])[0]
    np.testing.assert_allclose(got, expected, atol=1e-6)


def test_nothing_to_concatenate_is_an_error():
    with pytest.raises(CtxvecError, match="no part"):
        Concat_v1()


def test_a_part_of_unknown_width_is_named():
    from spacy.ml.staticvectors import StaticVectors

    with pytest.raises(CtxvecError, match="`static` does not tell"):
        Concat_v1(listener=None, static=StaticVectors())
