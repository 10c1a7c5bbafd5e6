"""`replace_listeners`, sourcing, and what is left of the learned mix."""

from __future__ import annotations

import numpy as np
import pytest
import spacy
from toys import (
    component_model,
    encoder_weights,
    examples,
    listener,
    mix_of,
    pipeline,
    trained,
)

TEXT = "Alice met Bob in town ."
PLAIN = listener(projection=8)
CONCAT = {
    "@architectures": "spacy-ctxvec.Concat.v1",
    "listener": listener(),
    "hash": {
        "@architectures": "spacy.MultiHashEmbed.v2",
        "width": 8,
        "attrs": ["NORM"],
        "rows": [50],
        "include_static_vectors": False,
    },
}
WINDOW = {
    "@architectures": "spacy.Tok2Vec.v2",
    "embed": listener(projection=8),
    "encode": {
        "@architectures": "spacy.MaxoutWindowEncoder.v2",
        "width": 8,
        "window_size": 1,
        "maxout_pieces": 2,
        "depth": 1,
    },
}
PATHS = {
    "plain": (PLAIN, "model.tok2vec"),
    "concat": (CONCAT, "model.tok2vec.listener"),
    "window": (WINDOW, "model.tok2vec.embed"),
}


def tags(nlp) -> list[str]:
    return [token.tag_ for token in nlp(TEXT)]


def scores(nlp) -> np.ndarray:
    return np.concatenate(nlp.get_pipe("tagger").model.predict([nlp(TEXT)]))


@pytest.mark.parametrize("kind", PATHS)
def test_replaced_listeners_keep_their_mix(kind, tmp_path):
    tok2vec, path = PATHS[kind]
    nlp, optimizer = trained(("tagger", "ner"), tok2vec=tok2vec, steps=8)
    learned = mix_of(nlp, "tagger").get_param("weights").copy()
    assert learned.any()
    before = scores(nlp)
    nlp.replace_listeners("ctxvec", "tagger", [path])
    assert nlp.get_pipe("ctxvec").listening_components == ["ner"]
    np.testing.assert_array_equal(mix_of(nlp, "tagger").get_param("weights"), learned)
    np.testing.assert_allclose(scores(nlp), before, atol=1e-5)
    nlp.to_disk(tmp_path / "saved")
    loaded = spacy.load(tmp_path / "saved")
    np.testing.assert_allclose(scores(loaded), before, atol=1e-5)
    nlp.update(examples(nlp), sgd=optimizer)
    assert np.isfinite(scores(nlp)).all()


def test_replaced_in_a_text_classifier(tmp_path):
    nlp = pipeline(())
    model = {
        "@architectures": "spacy.TextCatEnsemble.v2",
        "tok2vec": listener(),
        "linear_model": {
            "@architectures": "spacy.TextCatBOW.v3",
            "exclusive_classes": True,
            "length": 64,
            "ngram_size": 1,
            "no_output_layer": False,
        },
    }
    nlp.add_pipe("textcat", config={"model": model})
    nlp.get_pipe("textcat").add_label("A")
    nlp.get_pipe("textcat").add_label("B")
    batch = examples(nlp)
    for example in batch:
        example.reference.cats = {"A": 1.0, "B": 0.0}
    optimizer = nlp.initialize(lambda: batch)
    for _ in range(3):
        nlp.update(batch, sgd=optimizer)
    before = nlp(TEXT).cats
    nlp.replace_listeners("ctxvec", "textcat", ["model.tok2vec"])
    assert nlp(TEXT).cats == pytest.approx(before, abs=1e-5)
    nlp.to_disk(tmp_path / "saved")
    assert spacy.load(tmp_path / "saved")(TEXT).cats == pytest.approx(before, abs=1e-5)


def test_a_copy_is_frozen_like_its_original():
    for frozen in (True, False):
        nlp, optimizer = trained(("tagger",), frozen=frozen, steps=5)
        nlp.replace_listeners("ctxvec", "tagger", ["model.tok2vec"])
        model = nlp.get_pipe("tagger").model
        module = next(node for node in model.walk() if node.name == "ctxvec_bilm").shims[0].module
        before = module.forward_lstms[0].weight_hh.detach().clone()
        nlp.update(examples(nlp), sgd=optimizer)
        assert (module.forward_lstms[0].weight_hh == before).all() == frozen
        config = nlp.get_pipe_config("tagger")["model"]["tok2vec"]
        assert config["frozen"] is frozen


def test_the_copy_and_the_original_train_apart():
    nlp, optimizer = trained(("tagger", "ner"), steps=5)
    nlp.replace_listeners("ctxvec", "ner", ["model.tok2vec"])
    before = encoder_weights(nlp)
    for _ in range(2):
        nlp.update(examples(nlp), sgd=optimizer, exclude=["ctxvec", "tagger"])
    assert (encoder_weights(nlp) == before).all()


def test_sourcing_into_another_pipeline(tmp_path):
    nlp, _ = trained(("tagger",), steps=8)
    expected = scores(nlp)
    other = spacy.blank("en")
    other.add_pipe("ctxvec", source=nlp)
    other.add_pipe("tagger", source=nlp)
    np.testing.assert_allclose(scores(other), expected, atol=1e-6)
    assert other.get_pipe("ctxvec").listening_components == ["tagger"]
    other.to_disk(tmp_path / "saved")
    np.testing.assert_allclose(scores(spacy.load(tmp_path / "saved")), expected, atol=1e-6)


def test_a_sourced_frozen_encoder_with_a_new_component():
    """[training] frozen_components with annotating_components: initialize never runs on it."""
    nlp, _ = trained(("tagger",), steps=3)
    other = spacy.blank("en")
    other.add_pipe("ctxvec", source=nlp)
    other.add_pipe("ner", config={"model": component_model("ner", listener())})
    with other.select_pipes(disable=["ctxvec"]):
        optimizer = other.initialize(lambda: examples(other))
    for _ in range(3):
        other.update(
            examples(other), sgd=optimizer, exclude=["ctxvec"], annotates=["ctxvec"], drop=0.1
        )
    assert np.isfinite(mix_of(other, "ner").get_param("weights")).all()
    assert mix_of(other, "ner").get_param("weights").any()


def test_standalone_encoder_from_a_config(tmp_path):
    from toys import TINY

    encoder = {"@architectures": "spacy-ctxvec.BiLM.v1", **TINY, "n_layers": 2, "skip": True}
    encoder |= {"cell_clip": 0.0, "output_clip": 0.0, "activation": "relu", "n_highway": 1}
    tok2vec = {
        "@architectures": "spacy-ctxvec.Tok2Vec.v1",
        "encoder": encoder,
        "mix": {"@architectures": "spacy-ctxvec.ScalarMix.v1"},
        "projection": 8,
    }
    nlp = spacy.blank("en")
    nlp.add_pipe("tagger", config={"model": component_model("tagger", tok2vec)})
    optimizer = nlp.initialize(lambda: examples(nlp))
    for _ in range(3):
        nlp.update(examples(nlp), sgd=optimizer)
    nlp.to_disk(tmp_path / "saved")
    np.testing.assert_array_equal(scores(spacy.load(tmp_path / "saved")), scores(nlp))
