"""Training of the biLM: gradients, the same bits at each resume, ways to end."""

from __future__ import annotations

import itertools
import json
import math
import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import SPECIALS, UNKNOWN_ID, Corpus
from spacy_ctxvec.training import trainer as trainer_module
from spacy_ctxvec.training.batches import Batch, top_layer
from spacy_ctxvec.training.checkpoint import save_checkpoint
from spacy_ctxvec.training.lm import LMTrainer, word_counts
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.perplexity import evaluate
from spacy_ctxvec.training.reading import Position

DIRECTIONS = ["both", "forward", "backward"]


def reading(sizes: BiLMConfig, directions: str) -> BiLMConfig:
    """The same sizes for models of one or two directions."""
    width = sizes.token_width * (2 if directions == "both" else 1)
    return replace(sizes, directions=directions, width=width)


def same(mine: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(mine) == len(other) and all(torch.equal(x, y) for x, y in zip(mine, other))


def train(trainer: LMTrainer, path, evaluate=dict, report=lambda record: None) -> bool:
    return trainer.train(checkpoint=path, evaluate=evaluate, report=report)


def next_batch(trainer: LMTrainer) -> Batch:
    group, number, _ = next(trainer.reader.steps(trainer.position))
    return Batch(trainer.corpus.types, *group.read(number))


def plain_loss(trainer: LMTrainer, batch: Batch) -> torch.Tensor:
    """The mean full loss of a batch, as one graph."""
    model, softmax = trainer.model, trainer.softmax
    carried = model.state and model.state.copy()
    vectors = torch.cat([model.mark_vectors(), model.word_vectors(batch.words)])
    losses = [
        softmax.full_losses(
            direction,
            batch.predicting(direction, top_layer(model, direction, batch, vectors)),
            batch.targets(direction, softmax.n_words),
        ).mean()
        for direction in trainer.directions
    ]
    model.state = carried
    return torch.stack(losses).mean()


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("softmax", ["full", "sampled"])
def test_gradients_are_those_of_one_graph(make, take_steps, sizes, softmax, directions):
    """At the start of rows, and in the middle of them with the state carried along."""
    trainer = make(
        reading(sizes, directions), softmax=softmax, carry="stream", n_samples=5000, loss_scale=3.0
    )
    if softmax == "sampled":  # all words are candidates
        trainer.objective.sampler.log_expected.zero_()
        assert len(trainer.objective.sampler.draw(0)) == trainer.softmax.n_words
    for n_steps in (0, 2):
        take_steps(trainer, n_steps)
        assert bool(trainer.model.state) == bool(n_steps)
        batch = next_batch(trainer)
        trainer.optimizer.zero_grad()
        loss = plain_loss(trainer, batch)
        (3 * loss).backward()
        want = [p.grad if p.grad is None else p.grad.clone() for p in trainer.parameters]
        trainer.optimizer.zero_grad()
        assert math.isclose(trainer._backward(batch), loss.item(), rel_tol=1e-4)
        for parameter, gradient in zip(trainer.parameters, want):
            if gradient is None:
                assert parameter.grad is None
            else:
                assert torch.allclose(parameter.grad, gradient, atol=1e-5)


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_threads_change_no_bit(make, take_steps, everything, sizes, precision, directions):
    found = []
    for threads in (False, True):
        config = {"carry": "stream", "threads": threads, "dropout": 0.3, "precision": precision}
        trainer = make(reading(sizes, directions), **config)
        found.append((take_steps(trainer, 8), everything(trainer)))
    assert found[0][0] == found[1][0] and same(found[0][1], found[1][1])


def test_dropout_depends_on_seed_and_step_alone(make, take_steps):
    losses = [take_steps(make(dropout=dropout, seed=3), 3) for dropout in (0.0, 0.5, 0.5)]
    assert losses[0] != losses[1] == losses[2]
    trainer = make(dropout=0.5)
    batch = next_batch(trainer)
    trainer.model.state = None
    torch.manual_seed(1)
    first = trainer._backward(batch)
    torch.manual_seed(2)
    assert trainer._backward(batch) == first
    trainer.step += 1
    assert trainer._backward(batch) != first
    assert make(dropout=0.5, seed=4)._backward(batch) != first


def test_the_two_directions_drop_different_numbers(make):
    trainer = make(dropout=0.5, softmax="full")
    seeds = []
    make_generator = trainer.model.dropout_generator
    trainer.model.dropout_generator = lambda seed: seeds.append(seed) or make_generator(seed)
    trainer._backward(next_batch(trainer))
    trainer.step += 1
    trainer._backward(next_batch(trainer))
    assert len(set(seeds)) == 4


def test_gradients_are_clipped_together(make):
    trainer = make(grad_clip=0.01)
    trainer._backward(next_batch(trainer))
    gradients = [p.grad.clone() for p in trainer.parameters]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    assert norm > 0.01 and math.isclose(trainer.clip_gradients(), norm, rel_tol=1e-5)
    for parameter, gradient in zip(trainer.parameters, gradients):
        assert torch.allclose(parameter.grad, gradient * (0.01 / norm), rtol=1e-3)
    assert math.isclose(trainer.clip_gradients(), 0.01, rel_tol=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "adamw"},
        {"optimizer": "adagrad", "carry": "stream", "sampler": "log_uniform", "loss_scale": 6.0},
        {"carry": "stream", "dropout": 0.2, "threads": True, "precision": "bfloat16"},
        {"softmax": "full", "unroll": 2},
    ],
    ids=["adamw", "adagrad, stream", "bfloat16, threads, dropout", "full, short steps"],
)
def test_resumed_at_any_step_it_is_the_same_bit_for_bit(
    tmp_path, make, take_steps, everything, sizes, settings
):
    straight, n_steps = make(sizes, **settings), 8
    losses, positions = [], []
    for step in range(n_steps):
        straight.save(tmp_path / f"{step}.pt")
        positions.append(straight.position)
        losses += take_steps(straight, 1)
    for step in range(n_steps):
        resumed = make(sizes, **settings)
        for parameter in resumed.parameters:
            parameter.data.fill_(7.0)  # resume must bring everything
        resumed.resume(tmp_path / f"{step}.pt")
        assert resumed.position == positions[step]
        assert take_steps(resumed, n_steps - step) == losses[step:]
        assert same(everything(straight), everything(resumed))
        assert (resumed.step, resumed.tokens) == (straight.step, straight.tokens)
    assert any(position.step for position in positions) or settings["optimizer"] == "adamw"


def test_it_stops_reports_and_continues(tmp_path, make, take_steps, everything):
    settings = {"tokens": 600, "evaluate_every": 3, "schedule": "linear", "warmup": 0.0}
    straight, records = make(**settings), []
    assert train(straight, tmp_path / "straight.pt", lambda: {"extra": 1}, records.append)
    assert straight.tokens >= 600
    assert [r["step"] for r in records] == [*range(3, straight.step + 1, 3)]
    for record in records:
        assert record["extra"] == 1 and math.isfinite(record["sampled_loss"])
        done = record["tokens"] / 600
        assert math.isclose(record["learn_rate"], 3e-3 * max(0, 1 - done), abs_tol=1e-9)
    halfway = make(**settings)
    take_steps(halfway, 4)
    halfway.save(tmp_path / "halfway.pt")
    for _ in range(2):  # the second time, nothing is left to do
        resumed = make(**settings)
        resumed.resume(tmp_path / "halfway.pt")
        assert train(resumed, tmp_path / "halfway.pt")
        assert resumed.step == straight.step and same(everything(straight), everything(resumed))


def test_epochs_are_passes_over_the_corpus(tmp_path, make, corpus):
    trainer = make(epochs=2.0, tokens=1)
    assert train(trainer, tmp_path / "c.pt")
    assert trainer.tokens == 2 * corpus.n_tokens and trainer.position == Position(
        1, len(trainer.reader.plan(1))
    )
    assert make(epochs=1e-9).total_tokens == 1


def test_checkpoints_are_written_on_the_way(tmp_path, make):
    def interrupt(record):
        raise KeyboardInterrupt

    trainer = make(checkpoint_seconds=0.0, evaluate_every=3)
    torch.set_num_threads(2)
    with pytest.raises(KeyboardInterrupt):
        train(trainer, tmp_path / "c.pt", report=interrupt)
    assert torch.get_num_threads() == 2
    resumed = make()
    resumed.resume(tmp_path / "c.pt")
    assert resumed.step == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_saves_and_the_resumed_run_is_the_same(
    tmp_path, make, everything, number
):
    settings = {"tokens": 600, "evaluate_every": 3, "carry": "stream", "checkpoint_seconds": 1e6}
    straight = make(**settings)
    train(straight, tmp_path / "straight.pt")
    stopped = make(**settings)
    assert not train(stopped, tmp_path / "c.pt", report=lambda _: os.kill(os.getpid(), number))
    assert stopped.step == 3
    resumed = make(**settings)
    resumed.resume(tmp_path / "c.pt")
    assert resumed.step == 3
    assert train(resumed, tmp_path / "c.pt")
    assert same(everything(straight), everything(resumed))


@pytest.mark.parametrize("carry", ["document", "stream"])
@pytest.mark.parametrize("broken", ["loss", "gradient"])
def test_a_step_that_is_not_finite_harms_nothing(
    tmp_path, monkeypatch, make, take_steps, everything, carry, broken
):
    """The run says where, keeps what was before, and can go on from there."""
    settings = {"tokens": 500, "carry": carry, "unroll": 3}
    straight = make(**settings)
    train(straight, tmp_path / "straight.pt")
    trainer = make(**settings)
    take_steps(trainer, 5)
    assert trainer.position.step  # in the middle of a group
    before = everything(trainer)
    batch = next_batch(trainer)
    name, bad = ("losses", math.nan) if broken == "loss" else ("backward", math.inf)
    method = getattr(trainer.objective, name)

    def spoilt(*arguments):
        if name == "losses":
            return method(*arguments) * bad
        *rest, gradients = arguments
        return method(*rest, [gradient * bad for gradient in gradients])

    monkeypatch.setattr(trainer.objective, name, spoilt)
    with pytest.raises(CtxvecError, match=r"at step 5\b.*failed_batch\.json"):
        train(trainer, tmp_path / "c.pt")
    evidence = json.loads((tmp_path / "failed_batch.json").read_text("utf8"))
    assert evidence["step"] == 5 and Position(**evidence["position"]) == trainer.position
    assert evidence["rows"].keys() == {"forward", "backward"}
    rows = itertools.chain.from_iterable(evidence["rows"].values())
    words = {word for row in rows for word in row} - {*SPECIALS}
    assert words == {*batch.words}
    resumed = make(**settings)
    resumed.resume(tmp_path / "c.pt")
    assert same(before, everything(resumed))
    train(resumed, tmp_path / "c.pt")
    assert same(everything(straight), everything(resumed))


def perplexities(*values: float):
    """An `evaluate` that finds these values, for both directions."""
    left = iter(values)
    return lambda: dict.fromkeys(("forward", "backward"), next(left))


def test_it_ends_when_the_perplexity_no_longer_falls(tmp_path, make):
    settings = {"evaluate_every": 2, "patience": 2}
    trainer, records = make(**settings), []
    found = perplexities(10, 9, 9.5, 8, 8, 8.5)
    assert train(trainer, tmp_path / "c.pt", found, records.append)
    assert trainer.step == 12 and len(records) == 6
    assert math.isclose(trainer.best, 8) and trainer.evaluations_since_best == 2
    resumed = make(**settings)
    resumed.resume(tmp_path / "c.pt")
    assert train(resumed, tmp_path / "c.pt") and resumed.step == 12


def test_patience_is_carried_over_a_stop(tmp_path, make):
    settings = {"evaluate_every": 2, "patience": 2}
    trainer = make(**settings)
    calls = itertools.count(1)

    def stop_at_third(record):
        if next(calls) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    assert not train(trainer, tmp_path / "c.pt", perplexities(10, 9, 9.5), stop_at_third)
    resumed = make(**settings)
    resumed.resume(tmp_path / "c.pt")
    assert train(resumed, tmp_path / "c.pt", perplexities(9.2)) and resumed.step == 8


def test_without_patience_it_goes_on(tmp_path, make):
    trainer = make(evaluate_every=2, tokens=1000)
    assert train(trainer, tmp_path / "c.pt", perplexities(*range(1, 99)))
    assert trainer.tokens >= 1000


def test_it_ends_with_its_hours(tmp_path, monkeypatch, make):
    """The schedule follows the hours, and those before a stop count."""
    clock = itertools.count(step=60)
    monkeypatch.setattr(trainer_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    settings = {"hours": 2.0, "schedule": "linear", "warmup": 0.0, "evaluate_every": 1}
    trainer, records = make(**settings), []

    def stop_halfway(record):
        records.append(record)
        if record["done"] > 0.5:
            os.kill(os.getpid(), signal.SIGTERM)

    assert not train(trainer, tmp_path / "c.pt", report=stop_halfway)
    assert 3600 < trainer.seconds < 7200
    resumed = make(**settings)
    resumed.resume(tmp_path / "c.pt")
    assert train(resumed, tmp_path / "c.pt", report=records.append)
    assert 7200 <= resumed.seconds < 7800 and resumed.tokens < resumed.total_tokens / 10
    done = [record["done"] for record in records]
    assert done == sorted(done) and done[-1] == 1.0
    for record in records:
        assert math.isclose(record["learn_rate"], 3e-3 * (1 - record["done"]), abs_tol=1e-6)


@pytest.mark.parametrize(
    ("directions", "precision"),
    [("both", "float32"), ("both", "bfloat16"), ("forward", "float32"), ("backward", "float32")],
)
def test_training_lowers_the_perplexity(tmp_path, make, tiny_plain_config, directions, precision):
    lines = ["the cat sat on the mat .", "a dog ran to the house ."] * 20
    corpus = Corpus.in_memory([line.split() for line in lines])
    settings = {"tokens": 4000, "learn_rate": 0.03, "unroll": 20, "precision": precision}
    trainer = make(reading(tiny_plain_config, directions), corpus, **settings)
    before = evaluate(trainer.model, trainer.softmax, corpus)
    train(trainer, tmp_path / "c.pt")
    after = evaluate(trainer.model, trainer.softmax, corpus)
    assert all(p.dtype == torch.float32 for p in trainer.parameters)
    for direction in ("forward", "backward"):
        if directions in ("both", direction):
            assert getattr(after, direction) < 0.6 * getattr(before, direction)
        else:
            assert getattr(after, direction) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("softmax", "hierarchical"),
        ("sampler", "uniform"),
        ("optimizer", "lion"),
        ("schedule", "steps"),
        ("carry", "sentence"),
        ("precision", "float8"),
        *((name, 0) for name in ("tokens", "batch_tokens", "unroll", "n_samples", "eval_tokens")),
        *((name, 0) for name in ("learn_rate", "grad_clip", "loss_scale", "evaluate_every")),
        *((name, -1) for name in ("epochs", "hours", "patience", "weight_decay", "seed")),
        *((name, 1.0) for name in ("dropout", "warmup", "beta2")),
        ("checkpoint_seconds", -1.0),
        ("learn_rate", math.nan),
        ("dropout", -0.1),
    ],
)
def test_a_setting_that_cannot_work_is_named(field, value):
    with pytest.raises(CtxvecError, match=f"{field} = {value} .*Expected"):
        LMTrainingConfig(**{field: value})


def test_settings_are_plain_values():
    config = LMTrainingConfig()
    assert json.loads(json.dumps(vars(config))) == vars(config)


@pytest.mark.parametrize("state", [{}, {"model": 3}, {"model": {"a": torch.zeros(1)}}])
def test_a_checkpoint_of_something_else(tmp_path, make, state):
    path = tmp_path / "other.pt"
    save_checkpoint(path, state)
    with pytest.raises(MalformedModelError, match=r"other\.pt"):
        make().resume(path)


def test_a_checkpoint_of_other_sizes(tmp_path, make, tiny_config):
    path = tmp_path / "other.pt"
    make(tiny_config).save(path)
    with pytest.raises(MalformedModelError, match=r"other\.pt"):
        make().resume(path)


def test_counts_are_those_of_the_targets(corpus):
    n_words = 20
    counts = word_counts(corpus, n_words)
    ids = np.concatenate([corpus.piece(i) for i in range(len(corpus.lengths))])
    assert counts[:UNKNOWN_ID].tolist() == [120, 120]
    assert counts[UNKNOWN_ID] == (ids >= n_words).sum()
    assert counts[3:].tolist() == [(ids == i).sum() for i in range(3, n_words)]
    assert corpus.counts[UNKNOWN_ID] == 0  # the corpus's own are as they were


def test_layers_are_measured(corpus, tiny_model, embed, make, tiny_config):
    softmax = WordSoftmax(input_width=tiny_config.token_width, width=4, n_words=25)
    trainer = LMTrainer(tiny_model, softmax, corpus, replace(make().config, dropout=0.5))
    trainer.measure_layers(corpus, 10**6)
    pieces = [[corpus.types[i] for i in corpus.piece(n)] for n in range(len(corpus.lengths))]
    layers = np.concatenate(embed(tiny_model, pieces))
    assert np.allclose(tiny_model.layer_mean, layers.mean(axis=0), atol=1e-5)
    assert np.allclose(tiny_model.layer_deviation, layers.std(axis=0), atol=1e-4)
    again = BiLM(tiny_model.config)
    again.load_state_dict(tiny_model.state_dict())
    assert torch.equal(again.layer_mean, tiny_model.layer_mean)
