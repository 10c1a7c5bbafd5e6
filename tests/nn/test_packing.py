"""Flat and packed order of ragged batches."""

from __future__ import annotations

import numpy as np
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
def test_frames_stand_around_each_sequence(lengths):
    index = np.arange(lengths.sum()) + 2
    framed = framed_index(index, lengths)
    parts = np.split(framed, np.cumsum(lengths + 2)[:-1])
    assert all(part[0] == 0 and part[-1] == 1 for part in parts)
    assert np.array_equal(np.concatenate([part[1:-1] for part in parts]), index)
