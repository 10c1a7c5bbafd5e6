"""Training of the biLM: gradients, exact resume, held-out perplexity."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import UNKNOWN_ID, Corpus, build_corpus
from spacy_ctxvec.training.batches import (
    Batch,
    all_batches,
    epoch_batches,
    reading_batches,
    token_layer,
    top_layer,
)
from spacy_ctxvec.training.checkpoint import save_checkpoint
from spacy_ctxvec.training.lm import LMTrainer, LMTrainingConfig
from spacy_ctxvec.training.perplexity import evaluate

CONFIG = LMTrainingConfig(tokens=10**6, batch_tokens=60, n_samples=20, seed=3, threads=False)


@pytest.fixture(autouse=True)
def _one_thread_in_each_product() -> None:
    """As in `LMTrainer.train`: the same bits need the same number of threads."""
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    random = np.random.default_rng(0)
    names = [f"w{i}" for i in range(40)]
    lines = [" ".join(random.choice(names, size=random.integers(1, 12))) for _ in range(120)]
    return build_corpus(lines, str.split, tmp_path_factory.mktemp("corpus"), max_tokens=16)


def make(corpus: Corpus, sizes: BiLMConfig, config: LMTrainingConfig = CONFIG) -> LMTrainer:
    torch.manual_seed(5)
    n_words = min(25, len(corpus.types))
    softmax = WordSoftmax(input_width=sizes.token_width, width=4, n_words=n_words)
    return LMTrainer(BiLM(sizes), softmax, corpus, config)


def run(trainer: LMTrainer, n_steps: int) -> list[float]:
    batches = all_batches(trainer.corpus, trainer.config.batch_tokens, trainer.config.seed)
    for _ in range(trainer.step):
        next(batches)
    return [trainer.train_step(next(batches)) for _ in range(n_steps)]


def everything(trainer: LMTrainer) -> list[torch.Tensor]:
    moments = trainer.optimizer.state_dict()["state"].values()
    return [
        *trainer.model.state_dict().values(),
        *trainer.softmax.state_dict().values(),
        *(tensor for state in moments for tensor in state.values()),
    ]


@pytest.fixture(params=["tiny", "tiny_plain"])
def sizes(request) -> BiLMConfig:
    return request.getfixturevalue(f"{request.param}_config")


@pytest.mark.parametrize("threads", [False, True])
def test_resumed_training_is_the_same_bit_for_bit(tmp_path, corpus, sizes, threads):
    config = replace(CONFIG, threads=threads, tokens=3000)
    straight = make(corpus, sizes, config)
    losses = run(straight, 20)
    first = make(corpus, sizes, config)
    losses_before = run(first, 10)
    first.save(tmp_path / "checkpoint.pt")
    second = make(corpus, sizes, config)
    second.softmax.weight.data.zero_()  # resume must bring everything
    second.resume(tmp_path / "checkpoint.pt")
    assert losses_before + run(second, 10) == losses
    assert (second.step, second.tokens) == (straight.step, straight.tokens)
    assert all(torch.equal(x, y) for x, y in zip(everything(straight), everything(second)))


def test_threads_change_nothing(corpus, sizes):
    one, two = (make(corpus, sizes, replace(CONFIG, threads=t)) for t in (False, True))
    assert run(one, 3) == run(two, 3)
    assert all(torch.equal(x, y) for x, y in zip(everything(one), everything(two)))


def train(trainer: LMTrainer, path, records) -> None:
    trainer.train(checkpoint=path, evaluate=lambda: {"extra": 1}, report=records.append)


def test_train_stops_reports_and_continues(tmp_path, corpus, tiny_plain_config):
    config = replace(CONFIG, tokens=600, evaluate_every=3)
    straight, records = make(corpus, tiny_plain_config, config), []
    train(straight, tmp_path / "straight.pt", records)
    assert straight.tokens >= 600 and [r["step"] for r in records] == [
        *range(3, straight.step + 1, 3)
    ]
    assert all(r["extra"] == 1 and math.isfinite(r["sampled_loss"]) for r in records)
    halfway = make(corpus, tiny_plain_config, config)
    run(halfway, 4)
    halfway.save(tmp_path / "halfway.pt")
    resumed = make(corpus, tiny_plain_config, config)
    resumed.resume(tmp_path / "halfway.pt")
    train(resumed, tmp_path / "halfway.pt", [])
    assert all(torch.equal(x, y) for x, y in zip(everything(straight), everything(resumed)))
    again = make(corpus, tiny_plain_config, config)
    again.resume(tmp_path / "halfway.pt")
    train(again, tmp_path / "halfway.pt", [])  # nothing is left to do
    assert again.step == straight.step


def test_checkpoints_are_written_on_the_way(tmp_path, corpus, tiny_plain_config):
    config = replace(CONFIG, checkpoint_seconds=0.0)
    trainer = make(corpus, tiny_plain_config, config)

    def interrupt(record):
        raise KeyboardInterrupt

    trainer.config = replace(config, evaluate_every=3)
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyboardInterrupt):
            trainer.train(checkpoint=tmp_path / "c.pt", evaluate=dict, report=interrupt)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    resumed = make(corpus, tiny_plain_config)
    resumed.resume(tmp_path / "c.pt")
    assert resumed.step == 2


@pytest.mark.parametrize("state", [{}, {"model": 3}, {"model": {"a": torch.zeros(1)}}])
def test_a_checkpoint_of_something_else(tmp_path, corpus, tiny_config, state):
    path = tmp_path / "other.pt"
    save_checkpoint(path, state)
    with pytest.raises(MalformedModelError, match=r"other\.pt"):
        make(corpus, tiny_config).resume(path)


def test_a_checkpoint_of_other_sizes(tmp_path, corpus, tiny_config, tiny_plain_config):
    path = tmp_path / "other.pt"
    make(corpus, tiny_config).save(path)
    with pytest.raises(MalformedModelError, match=r"other\.pt"):
        make(corpus, tiny_plain_config).resume(path)


def test_gradients_are_those_of_one_graph(corpus, sizes):
    """Two directions with leaves of their own, against plain autograd of the summed full losses."""
    config = replace(CONFIG, n_samples=5000)  # every word is a candidate, nearly surely
    trainer = make(corpus, sizes, config)
    batch = Batch(corpus, np.arange(6))
    trainer.sampler.log_expected.zero_()
    assert len(trainer.sampler.draw(0)) == 25
    trainer._backward(batch)
    got = [p.grad.clone() for p in trainer.parameters]
    trainer.optimizer.zero_grad()
    loss = torch.zeros(())
    vectors = token_layer(trainer.model, batch)
    for direction in (0, 1):
        hidden = top_layer(trainer.model, direction, batch, vectors)
        targets = batch.targets(direction, 25)
        loss = loss + 0.5 * trainer.softmax.full_losses(direction, hidden, targets).mean()
    loss.backward()
    for mine, parameter in zip(got, trainer.parameters):
        assert torch.allclose(mine, parameter.grad, atol=1e-6)


def test_a_batch_predicts_each_next_word(corpus):
    batch = Batch(corpus, np.array([0, 5, 2, 7]))
    pieces = [corpus.piece(i).tolist() for i in (0, 5, 2, 7)]
    for direction in (0, 1):
        pairs = [
            pair
            for piece in pieces
            for framed in [[0, *piece, 1][:: 1 - 2 * direction]]
            for pair in pairwise(framed)
        ]
        rows = batch.inputs(direction)[batch.predictions()].numpy()
        ids = {word: i for i, word in enumerate(corpus.types)}
        inputs = np.array([0, 1, *(ids[word] for word in batch.words)])[rows]
        targets = batch.targets(direction, len(corpus.types)).numpy()
        assert sorted(zip(inputs.tolist(), targets.tolist())) == sorted(pairs)
    few = batch.targets(0, 10)
    assert few.max() < 10 and (few == UNKNOWN_ID).any()


def test_an_epoch_is_every_piece_once(corpus):
    n_pieces = len(corpus.offsets) - 1
    epochs = [list(epoch_batches(corpus, 60, 3, epoch)) for epoch in (0, 0, 1)]
    for batches in epochs:
        assert sorted(np.concatenate(batches)) == list(range(n_pieces))
    assert all(np.array_equal(x, y) for x, y in zip(epochs[0], epochs[1]))
    assert not np.array_equal(np.concatenate(epochs[0]), np.concatenate(epochs[2]))
    lengths = np.diff(corpus.offsets) + 2
    assert max(lengths[batch].sum() for batch in epochs[0]) <= 60 + lengths.max()


def test_reading_in_order(corpus):
    batches = list(reading_batches(corpus, None))
    assert sum(batch.n_tokens for batch in batches) == len(corpus.ids)
    assert len(list(reading_batches(corpus, 1))) == 1


def test_perplexity_is_that_of_the_full_softmax(corpus, tiny_plain_config):
    trainer = make(corpus, tiny_plain_config)
    found = evaluate(trainer.model, trainer.softmax, corpus)
    losses = []
    for number in range(len(corpus.offsets) - 1):  # one piece at a time
        batch = Batch(corpus, np.array([number]))
        with torch.no_grad():
            vectors = token_layer(trainer.model, batch)
            hidden = top_layer(trainer.model, 0, batch, vectors)
            losses.append(trainer.softmax.full_losses(0, hidden, batch.targets(0, 25))[:-1])
    assert math.isclose(found.forward, torch.cat(losses).mean().exp().item(), rel_tol=1e-4)
    assert found.n_tokens == len(corpus.ids) and 0 < found.unknown_rate < 1


def test_training_lowers_perplexity(tmp_path, tiny_plain_config):
    lines = ["the cat sat on the mat .", "a dog ran to the house ."] * 20
    corpus = build_corpus(lines, str.split, tmp_path, max_tokens=16)
    config = replace(CONFIG, tokens=2500, learn_rate=0.03)
    trainer = make(corpus, tiny_plain_config, config)
    before = evaluate(trainer.model, trainer.softmax, corpus)
    train(trainer, tmp_path / "c.pt", [])
    after = evaluate(trainer.model, trainer.softmax, corpus)
    for direction in ("forward", "backward"):
        assert getattr(after, direction) < 0.7 * getattr(before, direction)


def test_a_loss_that_is_not_finite_stops_training(corpus, tiny_config):
    trainer = make(corpus, tiny_config)
    trainer.softmax.weight.data.fill_(math.nan)
    before = [w.clone() for w in trainer.model.state_dict().values()]
    with pytest.raises(CtxvecError, match="The loss became nan at step 0"):
        run(trainer, 1)
    assert all(torch.equal(x, y) for x, y in zip(before, trainer.model.state_dict().values()))


def test_layers_are_measured(corpus, tiny_model):
    softmax = WordSoftmax(input_width=6, width=4, n_words=25)
    trainer = LMTrainer(tiny_model, softmax, corpus, CONFIG)
    trainer.measure_layers(corpus, 10**6)
    with torch.no_grad():
        batch = Batch(corpus, np.arange(len(corpus.offsets) - 1))
        vectors = token_layer(trainer.model, batch)
        layers = tiny_model(vectors, batch.index, batch.lengths)
    assert torch.allclose(tiny_model.layer_mean, layers.mean(dim=0), atol=1e-5)
    assert torch.allclose(tiny_model.layer_deviation, layers.std(dim=0), atol=1e-3)
    again = BiLM(tiny_model.config)
    again.load_state_dict(tiny_model.state_dict())
    assert torch.equal(again.layer_mean, tiny_model.layer_mean)


def test_settings_are_plain_values():
    assert json.loads(json.dumps(vars(CONFIG))) == vars(CONFIG)
