"""Held-out perplexity: that of the full softmax, each piece read whole by itself."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_ctxvec.nn.adaptive_softmax import AdaptiveSoftmax
from spacy_ctxvec.nn.bilm import BiLM, CarriedState
from spacy_ctxvec.text.corpus import UNKNOWN_ID, Corpus
from spacy_ctxvec.training import perplexity
from spacy_ctxvec.training.batches import Batch, top_layer
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.perplexity import Perplexity, evaluate
from spacy_ctxvec.training.reading import Group


def one_by_one(model: BiLM, softmax, corpus: Corpus, direction: int) -> tuple[float, float]:
    """Perplexity of the words and of the marks of one direction, piece after piece."""
    losses, targets = [], []
    for number in range(len(corpus.lengths)):
        batch = Batch(corpus.types, *Group(corpus, [np.array([number])], 10**6).read(0))
        with torch.no_grad():
            vectors = torch.cat([model.mark_vectors(), model.word_vectors(batch.words)])
            top = top_layer(model, direction, batch, vectors)
            hidden = batch.predicting(direction, top)
            targets.append(batch.targets(direction, softmax.n_words))
            losses.append(softmax.full_losses(direction, hidden, targets[-1]))
    of_words = torch.cat(targets) >= UNKNOWN_ID
    return tuple(torch.cat(losses)[mask].mean().exp().item() for mask in (of_words, ~of_words))


def values(found: Perplexity) -> list[float]:
    return [found.forward, found.forward_marks, found.backward, found.backward_marks]


@pytest.mark.parametrize("adaptive", [False, True])
def test_it_is_that_of_one_piece_at_a_time(make, corpus, sizes, adaptive):
    trainer = make(sizes)
    softmax = trainer.softmax
    if adaptive:
        softmax = AdaptiveSoftmax(input_width=sizes.token_width, width=4, n_words=25)
    found = evaluate(trainer.model, softmax, corpus)
    want = [x for d in (0, 1) for x in one_by_one(trainer.model, softmax, corpus, d)]
    assert np.allclose(values(found), want, rtol=1e-4)
    assert found.n_tokens == corpus.n_tokens
    unknown = corpus.counts[25:].sum() / corpus.n_tokens
    assert 0 < found.unknown_rate == pytest.approx(unknown)


def test_long_pieces_in_steps_are_like_whole_ones(make, corpus, monkeypatch, sizes):
    trainer = make(sizes)
    whole = evaluate(trainer.model, trainer.softmax, corpus)
    for name, size in (("UNROLL", 5), ("BATCH_TOKENS", 90)):
        monkeypatch.setattr(perplexity, name, size)
        found = evaluate(trainer.model, trainer.softmax, corpus)
        assert np.allclose(values(found), values(whole), rtol=1e-5)
        assert (found.n_tokens, found.unknown_rate) == (whole.n_tokens, whole.unknown_rate)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_model_of_one_direction_has_none_for_the_other(
    make, corpus, tiny_plain_config, direction
):
    trainer = make(replace(tiny_plain_config, directions=direction, width=8))
    found = evaluate(trainer.model, trainer.softmax, corpus)
    other = {"forward": "backward", "backward": "forward"}[direction]
    assert getattr(found, other) is None and getattr(found, f"{other}_marks") is None
    number = ["forward", "backward"].index(direction)
    want = one_by_one(trainer.model, trainer.softmax, corpus, number)
    assert math.isclose(getattr(found, direction), want[0], rel_tol=1e-4)
    assert math.isclose(getattr(found, f"{direction}_marks"), want[1], rel_tol=1e-4)
    assert found.rounded()[other] is None
    assert found.unknown_rate > 0 and found.n_tokens == corpus.n_tokens


def test_a_training_goes_on_undisturbed(make, take_steps, everything, corpus):
    """Its carried state is left alone, and neither that nor dropout and precision matter."""
    settings = {"carry": "stream", "dropout": 0.5, "precision": "bfloat16"}
    straight, measured = make(**settings), make(**settings)
    fresh = evaluate(make().model, make().softmax, corpus)
    for trainer in (straight, measured):
        trainer.model.state = CarriedState()
        trainer.model.state.take(0, 0, torch.arange(4), 4, (torch.zeros(8), torch.zeros(8)))
        trainer.model.state.put(0, 0, torch.arange(4), (torch.ones(4, 8), torch.ones(4, 8)))
    assert evaluate(measured.model, measured.softmax, corpus) == fresh
    assert torch.equal(measured.model.state.state_dict()[0, 0][0], torch.ones(4, 8))
    losses = [take_steps(straight, 3), take_steps(measured, 3)]
    for _ in range(2):
        evaluate(measured.model, measured.softmax, corpus)
        losses[0] += take_steps(straight, 1)
        losses[1] += take_steps(measured, 1)
    assert losses[0] == losses[1]
    assert all(torch.equal(x, y) for x, y in zip(everything(straight), everything(measured)))


def test_the_state_is_put_back_when_it_fails(make, corpus):
    trainer = make()
    trainer.model.state = state = CarriedState()
    with pytest.raises(AttributeError):
        evaluate(trainer.model, None, corpus)
    assert trainer.model.state is state


def test_only_the_pieces_that_begin_within_the_limit(make, corpus):
    trainer = make()
    limit = int(corpus.offsets[9]) + 1  # one token into the tenth piece
    found = evaluate(trainer.model, trainer.softmax, corpus, limit)
    assert found.n_tokens == corpus.offsets[10]
    pieces = [[corpus.types[i] for i in corpus.piece(n)] for n in range(10)]
    start = Corpus.in_memory(pieces).recoded(corpus.types)
    alone = evaluate(trainer.model, trainer.softmax, start)
    assert np.allclose(values(found), values(alone), rtol=1e-6)


def test_a_model_that_knows_nothing_is_as_bad_as_chance(make, corpus):
    trainer = make()
    for parameter in (trainer.softmax.weight, trainer.softmax.bias):
        parameter.data.zero_()
    found = evaluate(trainer.model, trainer.softmax, corpus)
    assert np.allclose(values(found), 25, rtol=1e-5)


RECIPES = {
    "original": LMTrainingConfig(
        optimizer="adagrad", learn_rate=0.2, loss_scale=10.0, sampler="log_uniform",
        schedule="constant", warmup=0.0,
    ),
    "modern": LMTrainingConfig(optimizer="adamw", learn_rate=0.01),
}  # fmt: skip


DEFAULT = [
    ("original", "sampled", "both", "characters"),
    ("original", "sampled", "both", "words"),
]
VARIANTS = [
    pytest.param(*variant, marks=[] if variant in DEFAULT else pytest.mark.slow)
    for variant in itertools.product(
        RECIPES, ("sampled", "full"), ("both", "forward"), ("characters", "words")
    )
]


@pytest.mark.parametrize(("recipe", "softmax", "directions", "reads"), VARIANTS)
def test_the_tiny_text_of_the_reference_trainer_is_learned(
    tmp_path, make, reference, tiny_config, recipe, softmax, directions, reads
):
    """Its own test: 50 epochs over two streams bring the perplexity below 20."""
    folder = reference / "bilm-tf" / "train"
    lines = (folder / "data.txt").read_text("utf8").splitlines()
    vocabulary = (folder / "vocab.txt").read_text("utf8").split()
    corpus = Corpus.in_memory([line.split() for line in lines if line.strip()]).recoded(vocabulary)
    sizes = replace(
        tiny_config, hidden_width=16, width=16 if directions == "both" else 8,
        directions=directions, cell_clip=3.0, output_clip=3.0, max_characters=50,
        n_words=len(vocabulary) if reads == "words" else 0,
    )  # fmt: skip
    assert sizes.token_width == 8
    settings = {
        **vars(RECIPES[recipe]), "softmax": softmax, "epochs": 50.0, "batch_tokens": 20,
        "unroll": 10, "carry": "stream", "n_samples": 16, "dropout": 0.1, "grad_clip": 1.0,
        "threads": False, "precision": "float32",
    }  # fmt: skip
    trainer = make(sizes, corpus, n_words=len(vocabulary), **settings)
    trainer.train(checkpoint=tmp_path / "c.pt", evaluate=dict, report=lambda record: None)
    found = evaluate(trainer.model, trainer.softmax, corpus)
    for direction in trainer.model.config.direction_numbers:
        words, marks = values(found)[2 * direction : 2 * direction + 2]
        counts = corpus.n_tokens, len(corpus.lengths)
        of_all = np.average(np.log([words, marks]), weights=counts)
        assert words < 20 and math.exp(of_all) < 20
