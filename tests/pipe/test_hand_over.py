"""Gradients on their way from listeners to the encoder: the failures of spaCy's own protocol.

Each test but the last few fails when a `tok2vec` and its listeners take the place of `ctxvec`.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from spacy.training import Example
from thinc.api import Adam
from toys import encoder_weights, examples, mix_of, trained

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers.listener import is_listener, state_of


def change(nlp, action) -> float:
    before = encoder_weights(nlp)
    action()
    return float((encoder_weights(nlp) - before).abs().max())


def listeners(nlp):
    return [node for _, pipe in nlp.pipeline for node in pipe.model.walk() if is_listener(node)]


def test_1_the_last_listener_is_frozen():
    nlp, optimizer = trained()
    update = lambda: nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])  # noqa: E731
    nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])
    assert change(nlp, update) > 1e-5


def test_2_the_last_listener_has_no_gold():
    nlp, optimizer = trained()
    batch = examples(nlp, entities=False)
    for example in batch:
        example.reference.set_ents([], default="missing")
    nlp.update(batch, sgd=optimizer)
    assert change(nlp, lambda: nlp.update(batch, sgd=optimizer)) > 1e-5


def test_3_update_with_an_optimizer_steps_the_encoder_at_once():
    nlp, optimizer = trained()
    assert change(nlp, lambda: nlp.update(examples(nlp), sgd=optimizer)) > 1e-5
    assert nlp.get_pipe("ctxvec")._batch is None


def test_4_no_stale_batch_after_freezing():
    nlp, optimizer = trained()
    batch = examples(nlp)
    nlp.update(batch, sgd=False)
    assert all(state_of(node).batch is None for node in listeners(nlp))
    assert change(
        nlp, lambda: nlp.update(batch, exclude=["ctxvec"], annotates=["ctxvec"], sgd=optimizer)
    ) == pytest.approx(0)


def test_4_no_stale_batch_when_a_listener_never_reports():
    nlp, optimizer = trained()
    batch = examples(nlp)
    nlp.update(batch, sgd=optimizer, exclude=["ner"])
    before = encoder_weights(nlp)
    pending = nlp.get_pipe("ctxvec")._batch
    nlp.update(examples(nlp), exclude=["ctxvec", "ner"], annotates=["ctxvec"], sgd=optimizer)
    assert pending._flushed and nlp.get_pipe("ctxvec")._batch is None
    after_flush = encoder_weights(nlp)
    assert (after_flush != before).any()  # the step that was still to be taken
    nlp.update(examples(nlp), exclude=["ctxvec", "ner"], annotates=["ctxvec"], sgd=optimizer)
    assert (encoder_weights(nlp) == after_flush).all()


def test_4_no_stale_gradient_when_a_listener_never_reports():
    """The step of a batch is taken before the next one is read."""
    weights = []
    for flushes in (False, True):
        nlp, optimizer = trained()
        for _ in range(4):
            nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])
            if flushes:
                nlp.get_pipe("ctxvec").finish_update(optimizer)
        nlp.get_pipe("ctxvec").finish_update(optimizer)
        weights.append(encoder_weights(nlp))
    assert torch.equal(*weights)


@pytest.mark.parametrize("frozen", [True, False])
def test_another_thread_may_predict_meanwhile(frozen: bool):
    nlp, optimizer = trained(frozen=frozen)
    update = nlp.get_pipe("tagger").update

    def predicts_before(*args, **kwargs):
        with ThreadPoolExecutor(1) as other:
            other.submit(nlp.get_pipe("ctxvec"), nlp.make_doc("some other text")).result()
        return update(*args, **kwargs)

    nlp.get_pipe("tagger").update = predicts_before
    moved = change(nlp, lambda: nlp.update(examples(nlp), sgd=optimizer))
    assert (moved > 0) != frozen


def test_rehearsal_after_an_update_in_which_a_listener_never_reports():
    nlp, optimizer = trained()
    nlp.resume_training(sgd=optimizer)
    nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])
    doc = nlp.make_doc("some other text")
    raw = [Example(doc, nlp.make_doc(doc.text))]
    assert change(nlp, lambda: nlp.rehearse(raw, sgd=optimizer, exclude=["ner"])) > 0


def test_the_last_step_is_taken_before_averages_stand_in():
    nlp, _ = trained()
    optimizer = Adam(0.01, use_averages=True)
    nlp.update(examples(nlp), sgd=optimizer)
    nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])

    def predict_with_averages():
        with nlp.use_params(optimizer.averages):
            nlp("Alice met Bob")

    assert change(nlp, predict_with_averages) > 1e-5


def test_the_last_step_is_taken_before_saving():
    nlp, optimizer = trained()
    nlp.update(examples(nlp), sgd=optimizer, exclude=["ner"])
    before = encoder_weights(nlp)
    nlp.to_bytes()
    assert (encoder_weights(nlp) != before).any()


def test_a_frozen_listener_that_was_sourced_still_gets_its_vectors():
    """`spacy train` disables frozen components, and so hides their listeners, while it links."""
    nlp, _ = trained(store="output", steps=8)
    expected = [t.tag_ for t in nlp("Alice met Bob in town .")]
    with nlp.select_pipes(disable=["tagger"]):
        nlp._link_components()
        optimizer = nlp.resume_training()
    nlp.update(examples(nlp), sgd=optimizer, exclude=["tagger", "ctxvec"], annotates=["ctxvec"])
    assert [t.tag_ for t in nlp("Alice met Bob in town .")] == expected


def test_4_frozen_and_not_annotating_is_an_error_that_names_the_cure():
    nlp, optimizer = trained()
    with pytest.raises(CtxvecError, match="annotating_components"):
        nlp.update(examples(nlp), exclude=["ctxvec"], sgd=optimizer)


def test_5_empty_docs_of_a_frozen_annotating_encoder():
    nlp, optimizer = trained()
    empty = Example.from_dict(nlp.make_doc(""), {})
    before = mix_of(nlp, "tagger").get_param("weights").copy()
    losses = {}
    batch = [empty, *examples(nlp)]
    for _ in range(3):
        nlp.update(batch, exclude=["ctxvec"], annotates=["ctxvec"], sgd=optimizer, losses=losses)
    assert np.abs(mix_of(nlp, "tagger").get_param("weights") - before).max() > 1e-5
    assert all(np.isfinite(loss) for loss in losses.values())


def test_6_a_permuted_batch_is_another_batch():
    nlp, _ = trained(("tagger",))
    nlp.get_pipe("ctxvec").update(examples(nlp))
    batch = nlp.get_pipe("ctxvec")._batch
    assert batch.matches([nlp.make_doc(e.text) for e in examples(nlp)])
    words = [[t.text for t in example.predicted][::-1] for example in examples(nlp)]
    permuted = [type(nlp.make_doc(""))(nlp.vocab, words=w) for w in words]
    assert not batch.matches(permuted)


@pytest.mark.parametrize("texts", [["", ""], ["", "a b"], ["  "], ["  ", "", "x"]])
def test_batches_of_nothing(texts):
    nlp, optimizer = trained()
    batch = [Example.from_dict(nlp.make_doc(text), {}) for text in texts]
    losses = {}
    nlp.update(batch, sgd=optimizer, losses=losses)
    assert all(np.isfinite(loss) for loss in losses.values())
    assert len(list(nlp.pipe(texts))) == len(texts)


def test_the_spacy_train_order_of_calls():
    """Update without an optimizer, then every pipe finished in pipeline order."""
    nlp, optimizer = trained()

    def step() -> None:
        nlp.update(examples(nlp), sgd=False)
        for _, pipe in nlp.pipeline:
            pipe.finish_update(optimizer)

    assert change(nlp, step) > 1e-5


def test_accumulated_gradients():
    nlp, optimizer = trained()

    def step() -> None:
        nlp.update(examples(nlp)[:1], sgd=False)
        nlp.update(examples(nlp)[1:], sgd=False)
        nlp.get_pipe("ctxvec").finish_update(optimizer)

    assert change(nlp, step) > 1e-5


def test_gradient_is_the_sum_over_listeners_whatever_their_order():
    nlp, _ = trained()
    encoder = nlp.get_pipe("ctxvec")
    seen = []
    outputs = {}

    def run(order):
        encoder.update(examples(nlp))
        batch = encoder._batch
        nodes = listeners(nlp)
        rows = [np.ones_like(array) for array in batch.outputs]
        batch._backprop = lambda gradient: seen.append([g.copy() for g in gradient])
        outputs["expected"] = [3 * r for r in rows]
        for i in order:
            batch.receive(nodes[i].id, [(i + 1) * r for r in rows])

    run([0, 1])
    run([1, 0])
    for gradient in seen:
        for got, expected in zip(gradient, outputs["expected"]):
            np.testing.assert_allclose(got, expected)


def test_a_second_backward_pass_of_the_same_listener_changes_nothing():
    nlp, _ = trained(("tagger",))
    encoder = nlp.get_pipe("ctxvec")
    encoder.update(examples(nlp))
    batch = encoder._batch
    rows = [np.ones_like(array) for array in batch.outputs]
    batch.receive(listeners(nlp)[0].id, rows)
    gradient = encoder.model.shims[0].module.forward_lstms[0].weight_hh.grad.clone()
    batch.receive(listeners(nlp)[0].id, rows)
    assert (encoder.model.shims[0].module.forward_lstms[0].weight_hh.grad == gradient).all()


def test_grad_factor_zero_sends_none():
    from toys import listener

    nlp, _ = trained(("tagger",), tok2vec=listener(grad_factor=0.0))
    before = encoder_weights(nlp)
    losses = {}
    nlp.get_pipe("ctxvec").update(examples(nlp), losses=losses)
    batch = nlp.get_pipe("ctxvec")._batch
    nlp.get_pipe("tagger").update(examples(nlp), losses=losses)
    assert batch._flushed and losses["ctxvec"] == 0.0
    assert (encoder_weights(nlp) == before).all()


def test_frozen_encoder_stays_and_the_mixes_learn():
    nlp, optimizer = trained(frozen=True)
    mix = mix_of(nlp, "ner")
    before = mix.get_param("weights").copy()
    assert change(nlp, lambda: nlp.update(examples(nlp), sgd=optimizer)) == 0.0
    assert np.abs(mix.get_param("weights") - before).max() > 1e-6
    assert all(p.grad is None for p in nlp.get_pipe("ctxvec").model.shims[0].module.parameters())


def test_learn_rate_factor_scales_the_step_and_leaves_the_optimizer_alone():
    from thinc.api import Adam

    changes = []
    for factor in (1.0, 0.1):
        nlp, _ = trained(("tagger",), learn_rate_factor=factor)
        optimizer = Adam(0.001)
        changes.append(change(nlp, lambda: nlp.update(examples(nlp), sgd=optimizer)))  # noqa: B023
        assert optimizer.learn_rate == 0.001
    assert changes[1] == pytest.approx(changes[0] / 10, rel=0.05)


def test_rehearsal_gives_listeners_their_vectors_whoever_comes_first():
    import random

    nlp, optimizer = trained(("tagger",))
    nlp.resume_training()
    for seed in range(8):
        random.seed(seed)
        assert change(nlp, lambda: nlp.rehearse(examples(nlp), sgd=optimizer)) == 0.0


def test_a_listener_that_predicts_without_its_encoder_says_so_once(caplog):
    nlp, _ = trained(("tagger",))
    logging.getLogger("spacy").propagate = True
    doc = nlp.make_doc("one two")
    for _ in range(3):
        nlp.get_pipe("tagger")(doc)
    assert sum("predicts on Docs without" in record.message for record in caplog.records) == 1


def test_the_spacy_training_loop_runs(tmp_path):
    """`spacy.training.loop.train` itself, with evaluation, averages and saving."""
    from spacy.tokens import DocBin
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train
    from toys import pipeline

    nlp = pipeline(frozen=False)
    path = tmp_path / "train.spacy"
    DocBin(docs=[e.reference for e in examples(nlp)] * 4).to_disk(path)
    corpus = {"@readers": "spacy.Corpus.v1", "path": str(path)}
    training = {
        "max_steps": 6,
        "eval_frequency": 3,
        "optimizer": {"@optimizers": "Adam.v1", "use_averages": True},
        "logger": {"@loggers": "spacy.ConsoleLogger.v1"},
    }
    settings = {"corpora": {"train": corpus, "dev": corpus}, "training": training}
    config = nlp.config.merge(settings)
    made = init_nlp(config)
    before = encoder_weights(made)
    (tmp_path / "out").mkdir()
    train(made, tmp_path / "out")
    assert (encoder_weights(made) - before).abs().max() > 1e-5
    assert (tmp_path / "out" / "model-last").exists()
