"""Batches: the words and pairs of a step, and the top layer that predicts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.nn.bilm import BiLM, CarriedState
from spacy_ctxvec.text.corpus import SPECIALS, UNKNOWN_ID, Corpus
from spacy_ctxvec.training.batches import Batch, top_layer
from spacy_ctxvec.training.reading import NO_TARGET, Group

PIECES = [["a", "bank"], ["ran"], ["the", "bank", "of", "the", "river"], ["a", "a", "a"]]


def group_of(pieces: list[list[str]], unroll: int = 100) -> Group:
    corpus = Corpus.in_memory(pieces)
    return Group(corpus, list(np.arange(len(pieces))[:, None]), unroll)


def batch_of(group: Group, step: int = 0) -> Batch:
    return Batch(group.rows[0][0].corpus.types, *group.read(step))


def vectors_of(model: BiLM, batch: Batch) -> torch.Tensor:
    return torch.cat([model.mark_vectors(), model.word_vectors(batch.words)])


pieces = st.lists(st.lists(st.sampled_from("abcdefg"), min_size=1, max_size=9), min_size=1)


@given(pieces=pieces, unroll=st.integers(1, 12), n_words=st.integers(3, 10))
def test_pairs_are_those_that_were_read(pieces, unroll, n_words):
    group = group_of(pieces, unroll)
    types = group.rows[0][0].corpus.types
    for step in range(group.n_steps):
        inputs, targets = group.read(step)
        batch = batch_of(group, step)
        spelled = np.array([*SPECIALS[:2], *batch.words])
        assert len({*batch.words}) == len(batch.words)
        for direction in (0, 1):
            has_target = targets[direction].ravel() != NO_TARGET
            rows = batch.inputs(direction).numpy()
            assert (spelled[rows] == np.array(types)[inputs[direction].ravel()]).all()
            numbers = torch.arange(has_target.size)
            assert (
                batch.predicting(direction, numbers).numpy() == np.flatnonzero(has_target)
            ).all()
            want = targets[direction].ravel()[has_target]
            want = np.where(want < n_words, want, UNKNOWN_ID)
            assert (batch.targets(direction, n_words).numpy() == want).all()
    n_tokens = [batch_of(group, step).n_tokens for step in range(group.n_steps)]
    assert sum(n_tokens) == sum(map(len, pieces))


def test_padding_has_no_target():
    batch = batch_of(group_of(PIECES))
    for direction in (0, 1):
        assert batch.rows[direction].shape == (6, 4)
        assert len(batch.targets(direction, 9)) == sum(len(piece) + 1 for piece in PIECES)


def test_words_beyond_the_softmax_are_unknown():
    batch = batch_of(group_of(PIECES))  # types: specials, a, bank, the, of, ran, river
    assert (batch.targets(0, 6) == UNKNOWN_ID).sum() == 3
    assert (batch.targets(0, 9) == UNKNOWN_ID).sum() == 0


def test_the_top_layer_is_that_of_each_piece_alone(either_model, embed):
    """Padding beside a row does not matter, and each word is predicted from what is before it."""
    group = group_of(PIECES)
    batch = batch_of(group)
    with torch.no_grad():
        vectors = vectors_of(either_model, batch)
        positions = [top_layer(either_model, direction, batch, vectors) for direction in (0, 1)]
    width = either_model.config.token_width
    numbers = torch.arange(len(positions[0])) % len(PIECES)
    tops = [batch.predicting(d, positions[d]) for d in (0, 1)]
    rows = [batch.predicting(d, numbers).numpy() for d in (0, 1)]
    for number, layers in enumerate(embed(either_model, PIECES)):
        forward, backward = (tops[d].numpy()[rows[d] == number] for d in (0, 1))
        # The first prediction of a row is made from a sentence mark, which `embed` leaves out.
        assert np.allclose(forward[1:], layers[:, -1, :width], atol=1e-6)
        assert np.allclose(backward[1:], layers[::-1, -1, width:], atol=1e-6)


@pytest.mark.parametrize("unroll", [1, 2, 4, 5])
def test_pieces_in_steps_have_the_top_layer_of_whole_ones(either_model, unroll):
    def tops(unroll: int, direction: int) -> torch.Tensor:
        group = group_of(PIECES, unroll)
        either_model.state = CarriedState()
        batches = [batch_of(group, step) for step in range(group.n_steps)]
        return torch.cat(
            [
                batch.predicting(
                    direction,
                    top_layer(either_model, direction, batch, vectors_of(either_model, batch)),
                )
                for batch in batches
            ]
        )

    for direction in (0, 1):
        whole, parts = tops(6, direction), tops(unroll, direction)
        assert torch.allclose(whole, parts, atol=1e-6)


def test_gradients_stop_between_steps(either_model):
    group = group_of(PIECES, 2)
    either_model.state = CarriedState()
    vectors, tops = [], []
    for step in range(2):
        batch = batch_of(group, step)
        vectors.append(vectors_of(either_model, batch).detach().requires_grad_())
        tops.append(top_layer(either_model, 0, batch, vectors[-1]))
    first, second = torch.autograd.grad(tops[1].square().sum(), vectors, allow_unused=True)
    assert first is None and second.any()
    carried = [tensor for pair in either_model.state.state_dict().values() for tensor in pair]
    assert carried and not any(tensor.requires_grad for tensor in carried)


def test_the_top_layer_in_another_precision(tiny_plain_model):
    batch = batch_of(group_of(PIECES))
    with torch.no_grad():
        vectors = vectors_of(tiny_plain_model, batch)
        exact = top_layer(tiny_plain_model, 0, batch, vectors)
        rough = top_layer(tiny_plain_model, 0, batch, vectors, torch.bfloat16)
    assert rough.dtype == torch.bfloat16
    assert 0 < (exact - rough.float()).abs().max() < 0.02
