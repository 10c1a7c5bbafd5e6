"""Flat and packed order of ragged batches."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.nn.packing import Packing, framed_index, inverse, token_positions

LENGTHS = st.lists(st.integers(1, 12), min_size=1, max_size=12).map(np.array)


@given(LENGTHS)
def test_order_is_stable_and_falling(lengths):
    packing = Packing.of(lengths)
    keys = [(-lengths[i], i) for i in packing.order]
    assert keys == sorted(keys) and len(keys) == len(lengths)


@given(LENGTHS)
def test_both_directions_are_permutations_that_torch_agrees_with(lengths):
    packing = Packing.of(lengths + 2)
    n = int((lengths + 2).sum())
    starts = np.cumsum(lengths + 2) - (lengths + 2)
    sequences = [torch.arange(s, s + n + 2) for s, n in zip(starts, lengths)]
    for got, flip in ((packing.forward, False), (packing.backward, True)):
        assert sorted(got) == list(range(n))
        ordered = [sequences[i].flip(0) if flip else sequences[i] for i in packing.order]
        want = torch.nn.utils.rnn.pack_sequence(ordered)
        assert (got == want.data.numpy()).all()
        assert (packing.batch_sizes == want.batch_sizes.numpy()).all()


@given(LENGTHS, st.integers(1, 4))
def test_groups_of_sequences_share_the_flat_order(lengths, n_groups):
    groups = [g for g in np.array_split(np.arange(len(lengths))[::-1], n_groups) if len(g)]
    packings = [Packing.of(lengths + 2, group) for group in groups]
    tokens = token_positions(lengths)
    assert len(tokens) == lengths.sum()
    for name in ("forward", "backward"):
        order = np.concatenate([getattr(packing, name) for packing in packings])
        assert sorted(order) == list(range(int((lengths + 2).sum())))
        assert (order[inverse(order)[tokens]] == tokens).all()


@given(LENGTHS)
def test_a_rectangle_reads_every_sequence_in_both_directions(lengths):
    packing = Packing.rectangle(lengths)
    n_rows = len(packing.order)
    assert (packing.batch_sizes == n_rows).all()
    assert n_rows * len(packing.batch_sizes) == len(packing.forward)
    assert n_rows <= 1.125 * len(lengths) and len(packing.batch_sizes) <= 1.125 * max(lengths)
    starts = np.cumsum(lengths) - lengths
    for row, sequence in enumerate(packing.order):
        n = lengths[sequence]
        positions = starts[sequence] + np.arange(n)
        assert (packing.forward[row::n_rows][:n] == positions).all()
        assert (packing.backward[row::n_rows][:n] == positions[::-1]).all()
    assert (packing.forward[inverse(packing.forward)] == np.arange(lengths.sum())).all()


def test_rectangles_have_few_sizes():
    sizes = {len(Packing.rectangle(np.array([n])).batch_sizes) for n in range(1, 129)}
    assert len(sizes) == 40 and set(range(1, 17)) <= sizes


@pytest.mark.parametrize(
    "lengths, ragged_cost, is_rectangle",
    [
        ([20] * 32, 1.15, True), ([20] * 32, 0.0, False), ([20, 2, 2, 2], 1.15, False),
        ([20, 2, 2, 2], math.inf, True), ([7], 1.15, True),
    ],
)  # fmt: skip
def test_the_cheaper_packing(lengths, ragged_cost, is_rectangle):
    packing = Packing.cheapest(np.array(lengths), np.arange(len(lengths)), ragged_cost)
    want = Packing.rectangle if is_rectangle else Packing.of
    for field in fields(Packing):
        got = getattr(packing, field.name)
        assert (got == getattr(want(np.array(lengths)), field.name)).all()


@given(LENGTHS)
def test_frames_stand_around_each_sequence(lengths):
    index = np.arange(lengths.sum()) + 2
    framed = framed_index(index, lengths)
    parts = np.split(framed, np.cumsum(lengths + 2)[:-1])
    assert all(part[0] == 0 and part[-1] == 1 for part in parts)
    assert np.array_equal(np.concatenate([part[1:-1] for part in parts]), index)
