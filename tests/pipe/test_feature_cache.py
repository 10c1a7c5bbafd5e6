"""Training with a frozen encoder that reads each text once: the same results, whatever happens."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config
from thinc.util import fix_random_seed
from toys import encoder_weights, examples, layers_of, mix_of, pipeline, trained, word_docs

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.layers.feature_upkeep import kept_layers
from spacy_ctxvec.pipe.callbacks import gradual_unfreezing_v1

CACHE = {"max_mb": 50}


def begun(**settings):
    """A pipeline with a frozen encoder before its first update."""
    nlp = pipeline(frozen=True, **settings)
    return nlp, nlp.initialize(lambda: examples(nlp))


def epochs(nlp, optimizer, n: int = 3) -> list[dict[str, float]]:
    fix_random_seed(0)
    found = []
    for _ in range(n):
        losses = {}
        batch = [*examples(nlp), Example.from_dict(nlp.make_doc(""), {})]
        for part in (batch[:2], batch[2:]):
            nlp.update(part, sgd=optimizer, losses=losses)
        found.append(losses)
    return found


def heads(nlp) -> np.ndarray:
    """All parameters but those of the encoder."""
    nodes = [node for name in ("tagger", "ner") for node in nlp.get_pipe(name).model.walk()]
    return np.concatenate(
        [node.get_param(name).ravel() for node in nodes for name in node.param_names
         if node.has_param(name) and np.isfinite(node.get_param(name)).all()]
    )  # fmt: skip


def cache_of(nlp):
    return nlp.get_pipe("ctxvec").features


@pytest.fixture
def readings(monkeypatch):
    """`readings(nlp)`: a list that grows with each call of the encoder, by its windows."""

    def watch(nlp) -> list[int]:
        calls = []
        module = shim_of(nlp.get_pipe("ctxvec").model).module
        forward = module.forward
        monkeypatch.setattr(module, "forward", lambda *X: calls.append(len(X[2])) or forward(*X))
        return calls

    return watch


@pytest.mark.parametrize("where", ["memory", "disk"])
def test_training_has_the_same_results(where, tmp_path):
    plain, cached = begun(), begun(feature_cache={**CACHE, "where": where, "folder": str(tmp_path)})
    want, got = epochs(*plain), epochs(*cached)
    for a, b in zip(want, got):
        assert b == pytest.approx(a, rel=1e-5)
    np.testing.assert_allclose(heads(cached[0]), heads(plain[0]), atol=1e-5)
    assert cache_of(plain[0]) is None
    assert cache_of(cached[0]).misses == 3 and cache_of(cached[0]).hits == 6


def test_float16_trains_to_nearly_the_same():
    plain, cached = begun(), begun(feature_cache={**CACHE, "dtype": "float16"})
    for a, b in zip(epochs(*plain), epochs(*cached)):
        assert b == pytest.approx(a, rel=1e-2)


def test_the_encoder_reads_nothing_from_the_second_epoch_on(readings):
    nlp, optimizer = begun(feature_cache=CACHE)
    calls = readings(nlp)
    epochs(nlp, optimizer, 1)
    assert sum(calls) == 3
    epochs(nlp, optimizer, 4)
    nlp.evaluate(examples(nlp))
    assert sum(calls) == 3


def test_evaluation_during_training_is_served(readings):
    nlp, _ = begun(feature_cache=CACHE)
    dev = [Example.from_dict(nlp.make_doc(text), {}) for text in word_docs(nlp, 30)]
    want = [layers_of(doc) for doc in nlp.pipe(word_docs(nlp, 30))]
    calls = readings(nlp)
    nlp.evaluate(dev)
    assert not calls
    for text, layers in zip(word_docs(nlp, 30), want):
        np.testing.assert_array_equal(layers_of(nlp(text)), layers)


def test_the_spacy_training_loop_reads_each_text_once(tmp_path):
    """With evaluation under averaged parameters, none of which are the encoder's."""
    nlp = pipeline(frozen=True, feature_cache=CACHE)
    path = tmp_path / "train.spacy"
    DocBin(docs=[example.reference for example in examples(nlp)] * 4).to_disk(path)
    corpus = {"@readers": "spacy.Corpus.v1", "path": str(path)}
    training = {
        "max_steps": 6,
        "eval_frequency": 2,
        "optimizer": {"@optimizers": "Adam.v1", "use_averages": True},
        "logger": {"@loggers": "spacy.ConsoleLogger.v1"},
    }
    settings = {"corpora": {"train": corpus, "dev": corpus}, "training": training}
    made = init_nlp(nlp.config.merge(settings))
    (tmp_path / "out").mkdir()
    train(made, tmp_path / "out")
    assert cache_of(made).misses == 3
    assert cache_of(made).hits > 10


def test_a_pipeline_that_only_predicts_keeps_nothing(tmp_path):
    nlp, _ = trained(frozen=True, feature_cache={**CACHE, "where": "disk", "folder": str(tmp_path)})
    nlp.to_disk(tmp_path / "pipeline")
    kept = kept_layers(tmp_path)
    loaded = spacy.load(tmp_path / "pipeline")
    loaded("a text that was never seen")
    assert cache_of(loaded) is None
    assert [layers.n_texts for layers in kept_layers(tmp_path)] == [kept[0].n_texts]


def test_unfreezing_changes_the_vectors_and_frees_the_cache():
    nlp, optimizer = begun(feature_cache=CACHE)
    callback = gradual_unfreezing_v1({"*": 2})
    for step in range(4):
        callback(nlp, {"step": step, "epoch": 0})
        nlp.update(examples(nlp), sgd=optimizer)
        assert (cache_of(nlp) is not None) == (step < 2)
    plain, _ = begun()
    plain.get_pipe("ctxvec").model.from_bytes(nlp.get_pipe("ctxvec").model.to_bytes())
    assert (encoder_weights(plain) == encoder_weights(nlp)).all()
    nlp.get_pipe("ctxvec").frozen = True
    for _ in range(2):
        nlp.update(examples(nlp), sgd=optimizer)
    assert cache_of(nlp).misses == 3
    got, want = layers_of(nlp("Alice saw a bank")), layers_of(plain("Alice saw a bank"))
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_other_weights_are_never_served_stale():
    nlp, optimizer = begun(feature_cache=CACHE)
    epochs(nlp, optimizer, 2)
    other, _ = begun()
    weights = shim_of(other.get_pipe("ctxvec").model).module.forward_lstms[0].weight_hh
    with torch.no_grad():
        weights.mul_(3)
    nlp.from_bytes(other.to_bytes())
    for _ in range(2):
        got, want = layers_of(nlp("Alice saw a bank")), layers_of(other("Alice saw a bank"))
        np.testing.assert_allclose(got, want, atol=1e-5)


def test_augmented_texts_are_read_and_others_are_not(readings):
    nlp, optimizer = begun(feature_cache=CACHE)
    augment = spacy.registry.augmenters.get("spacy.lower_case.v1")(level=0.5)
    calls = readings(nlp)
    seen = set()
    for _ in range(6):
        batch = [made for example in examples(nlp) for made in augment(nlp, example)]
        nlp.update(batch, sgd=optimizer)
        seen |= {example.text for example in batch}
    assert 3 < sum(calls) == len(seen) <= 6


def test_runs_and_components_share_a_folder(tmp_path, readings):
    place = {**CACHE, "where": "disk", "folder": str(tmp_path)}
    first = begun(feature_cache=place)
    epochs(*first, 1)
    second, optimizer = begun(components=("tagger",), feature_cache=place, model={"window": 64})
    calls = readings(second)
    epochs(second, optimizer, 1)
    assert not calls
    assert cache_of(second).hits == 3


def test_the_cache_is_neither_saved_nor_copied(tmp_path):
    small = begun()[0]
    nlp, _ = begun(feature_cache=CACHE)
    pipe, plain = nlp.get_pipe("ctxvec"), small.get_pipe("ctxvec")
    list(nlp.pipe(word_docs(nlp, 200)))
    assert cache_of(nlp).misses > 100
    assert pipe.to_bytes(exclude=["vocab"]) == plain.to_bytes(exclude=["vocab"])
    nlp.to_disk(tmp_path / "pipeline")
    assert {path.name for path in (tmp_path / "pipeline" / "ctxvec").iterdir()} == {"cfg", "model"}
    assert len(pickle.dumps(pipe.features)) < 1000
    copied = copy.deepcopy(pipe)
    assert copied.features.misses == 0
    np.testing.assert_allclose(
        copied.predict([nlp.make_doc("a bank")])[0], layers_of(nlp("a bank")), atol=1e-5
    )


def test_worker_processes_agree(tmp_path):
    nlp, optimizer = begun(feature_cache={**CACHE, "where": "disk", "folder": str(tmp_path)})
    epochs(nlp, optimizer, 1)
    texts = word_docs(nlp, 30)
    plain, _ = begun()
    want = [layers_of(doc) for doc in plain.pipe(texts)]
    for doc, layers in zip(nlp.pipe(texts, n_process=2, batch_size=8), want):
        np.testing.assert_allclose(layers_of(doc), layers, atol=1e-5)
    for doc, layers in zip(nlp.pipe(texts), want):
        np.testing.assert_allclose(layers_of(doc), layers, atol=1e-5)


def test_the_settings_survive_the_config(tmp_path):
    block = {"max_mb": 7, "where": "disk", "folder": str(tmp_path), "dtype": "float16"}
    nlp = pipeline(frozen=True, feature_cache=block)
    nlp.config.to_disk(tmp_path / "config.cfg")
    again = spacy.util.load_model_from_config(load_config(tmp_path / "config.cfg"))
    assert again.config["components"]["ctxvec"]["feature_cache"] == block
    assert again.get_pipe("ctxvec").feature_cache == nlp.get_pipe("ctxvec").feature_cache


def test_a_part_of_the_block_is_enough_and_none_is_off():
    nlp = pipeline(frozen=True, feature_cache={"max_mb": 3})
    block = {"max_mb": 3, "where": "memory", "folder": None, "dtype": "float32"}
    assert nlp.config["components"]["ctxvec"]["feature_cache"] == block
    assert begun()[0].get_pipe("ctxvec").feature_cache.max_mb == 0


def test_a_wrong_setting_is_named():
    with pytest.raises(CtxvecError, match="where = cloud"):
        pipeline(frozen=True, feature_cache={"where": "cloud"})


def test_an_encoder_that_learns_is_not_remembered():
    nlp, _ = trained(feature_cache=CACHE)
    assert cache_of(nlp) is None
    assert mix_of(nlp, "ner") is not None


def test_rehearsal_is_served(readings):
    nlp, _ = begun(components=("tagger",), feature_cache=CACHE)
    optimizer = nlp.resume_training()
    nlp.update(examples(nlp), sgd=optimizer)
    calls = readings(nlp)
    nlp.rehearse(examples(nlp), sgd=optimizer)
    assert not calls
