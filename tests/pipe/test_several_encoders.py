"""Two encoders in a pipeline, or spaCy's tok2vec beside one: nobody reads the other's rows."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import spacy
from toys import add_encoder, component_model, examples, layers_of, listener

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.listener import state_of

TEXT = "Alice met Bob in town ."


def two_encoders():
    nlp = spacy.blank("en")
    add_encoder(nlp, frozen=False)
    add_encoder(nlp, name="other", frozen=False, model={"width": 24})
    first, second = listener(upstream="ctxvec"), listener(upstream="other", width=24)
    nlp.add_pipe("tagger", config={"model": component_model("tagger", first)})
    nlp.add_pipe("ner", config={"model": component_model("ner", second)})
    optimizer = nlp.initialize(lambda: examples(nlp))
    return nlp, optimizer


def test_two_encoders_train_save_and_reload(tmp_path):
    nlp, optimizer = two_encoders()
    for _ in range(4):
        losses = nlp.update(examples(nlp), sgd=optimizer)
    assert losses["ctxvec"] > 0 and losses["other"] > 0
    assert nlp.get_pipe("ctxvec").listening_components == ["tagger"]
    assert nlp.get_pipe("other").listening_components == ["ner"]
    doc = nlp(TEXT)
    assert layers_of(doc).shape[2] == 16
    assert doc._.ctxvec["other"].layers.shape[2] == 24
    assert list(doc._.ctxvec) == ["ctxvec", "other"]
    assert doc.tensor.shape[1] == 16 and doc[0].vector.shape == (16,)
    with pytest.raises(CtxvecError, match="It has those of: ctxvec, other"):
        doc._.ctxvec["third"]
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")(TEXT)
    for name in ("ctxvec", "other"):
        np.testing.assert_array_equal(again._.ctxvec[name].layers, doc._.ctxvec[name].layers)
    assert [t.tag_ for t in again] == [t.tag_ for t in doc]


def test_a_star_that_could_mean_two_encoders_is_an_error():
    nlp = spacy.blank("en")
    add_encoder(nlp)
    add_encoder(nlp, name="other")
    with pytest.raises(CtxvecError, match="more than one encoder before it: ctxvec, other"):
        nlp.add_pipe("tagger", config={"model": component_model("tagger", listener())})


def test_a_star_means_the_encoder_before_it():
    nlp = spacy.blank("en")
    add_encoder(nlp)
    nlp.add_pipe("tagger", config={"model": component_model("tagger", listener())})
    add_encoder(nlp, name="other")
    assert nlp.get_pipe("ctxvec").listening_components == ["tagger"]
    assert nlp.get_pipe("other").listening_components == []


def tok2vec_pipeline():
    nlp = spacy.blank("en")
    config = {"model": {"@architectures": "spacy.HashEmbedCNN.v2", "width": 16, "depth": 1,
                        "embed_size": 50, "window_size": 1, "maxout_pieces": 2,
                        "subword_features": False, "pretrained_vectors": None}}  # fmt: skip
    nlp.add_pipe("tok2vec", config=config)
    own = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "tok2vec"}
    nlp.add_pipe("tagger", config={"model": component_model("tagger", own)})
    nlp.initialize(lambda: examples(nlp))
    return nlp


@pytest.mark.parametrize("place", [{"first": True}, {"after": "tok2vec"}, {"last": True}])
def test_beside_spacy_s_own_tok2vec_of_the_same_width(tmp_path, place, caplog):
    """At equal widths nothing would crash: the tagger would read the wrong vectors."""
    logging.getLogger("spacy").propagate = True
    tok2vec_pipeline().to_disk(tmp_path / "saved")
    nlp = spacy.load(tmp_path / "saved")
    expected = np.concatenate(nlp.get_pipe("tagger").model.predict([nlp(TEXT)]))
    from toys import TINY

    nlp.add_pipe("ctxvec", config={"model": TINY}, **place)
    nlp.get_pipe("ctxvec").initialize(lambda: examples(nlp), nlp=nlp)
    doc = nlp(TEXT)
    got = np.concatenate(nlp.get_pipe("tagger").model.predict([doc]))
    if place == {"last": True}:
        np.testing.assert_array_equal(doc.tensor, doc._.ctxvec.output)
    else:
        np.testing.assert_allclose(got, expected, atol=1e-6)
        warned = [r for r in caplog.records if "leaves doc.tensor alone" in r.message]
        assert len(warned) == 1
    assert doc[0].vector.shape == (16,)
    np.testing.assert_array_equal(doc[0].vector, doc._.ctxvec.output[0])


def test_tok2vec_without_a_listener_writes_doc_tensor_too(caplog):
    logging.getLogger("spacy").propagate = True
    nlp = tok2vec_pipeline()
    nlp.remove_pipe("tagger")
    add_encoder(nlp)
    nlp.remove_pipe("ctxvec")
    from toys import TINY

    nlp.add_pipe("ctxvec", config={"model": TINY}, first=True)
    nlp.get_pipe("ctxvec").initialize(lambda: examples(nlp), nlp=nlp)
    doc = nlp(TEXT)
    np.testing.assert_allclose(doc[0].vector, layers_of(doc)[0].mean(axis=0), atol=1e-6)
    nlp.add_pipe("sentencizer")
    assert sum("leaves doc.tensor alone" in record.message for record in caplog.records) == 1


def test_spacy_s_listener_on_our_encoder_is_an_error():
    nlp = spacy.blank("en")
    add_encoder(nlp)
    foreign = {"@architectures": "spacy.Tok2VecListener.v1", "width": 16, "upstream": "ctxvec"}
    with pytest.raises(CtxvecError, match=r"spacy-ctxvec\.Listener\.v1"):
        nlp.add_pipe("tagger", config={"model": component_model("tagger", foreign)})


def test_a_wrong_width_is_named():
    nlp = spacy.blank("en")
    add_encoder(nlp)
    with pytest.raises(CtxvecError, match=r"expects vectors of width 99.* have 16"):
        nlp.add_pipe("tagger", config={"model": component_model("tagger", listener(width=99))})


def test_a_listener_without_an_encoder_is_named():
    nlp = spacy.blank("en")
    block = listener(upstream="missing")
    nlp.add_pipe("tagger", config={"model": component_model("tagger", block)})
    with pytest.raises(CtxvecError, match='upstream = "missing" found no component'):
        nlp.initialize(lambda: examples(nlp))


def test_several_listeners_in_one_component():
    nlp = spacy.blank("en")
    add_encoder(nlp, frozen=False)
    static = {"@architectures": "spacy-ctxvec.Concat.v1", "listener": listener(),
              "hash": listener(projection=8)}  # fmt: skip
    nlp.add_pipe("tagger", config={"model": component_model("tagger", static)})
    optimizer = nlp.initialize(lambda: examples(nlp))
    nodes = nlp.get_pipe("ctxvec").listener_map["tagger"]
    assert len(nodes) == 2
    for _ in range(3):
        losses = nlp.update(examples(nlp), sgd=optimizer)
    assert losses["ctxvec"] > 0
    assert all(state_of(node).batch is None for node in nodes)
