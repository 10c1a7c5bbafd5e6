"""Words of docs in groups of windows, and rows joined without a copy."""

from __future__ import annotations

import math

import numpy as np
import spacy
from hypothesis import given
from hypothesis import strategies as st
from toys import ODD_TEXTS, word_docs

from spacy_ctxvec.layers.batching import WordBatch, cut, joined

NLP = spacy.blank("en")


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=80),
    st.integers(1, 500),
    st.sampled_from([0.0, 1.25, math.inf]),
)
def test_groups_hold_every_window_once_within_the_limit(lengths, max_items, ragged_cost):
    batch = WordBatch(np.zeros(0, dtype=np.uint64), np.array(lengths), [], [])
    groups = batch.groups(max_items, ragged_cost=ragged_cost)
    assert sorted(np.concatenate(groups)) == list(range(len(lengths)))
    for group in groups:
        of_group = batch.lengths[group]
        size = len(group) * of_group.max() if ragged_cost == math.inf else of_group.sum()
        assert len(group) == 1 or size <= max_items


def test_the_cheaper_way_to_group_is_taken():
    def groups(lengths, ragged_cost):
        batch = WordBatch(np.zeros(0, dtype=np.uint64), np.array(lengths), [], [])
        return [
            batch.lengths[group].tolist() for group in batch.groups(10_000, ragged_cost=ragged_cost)
        ]

    uneven, even = [40, *[3] * 6], [20, 21] * 50
    assert groups(uneven, 1.25) == groups(uneven, 0.0) == [uneven]
    assert groups(uneven, math.inf) == [uneven[:6], uneven[6:]]
    assert groups(even, 1.25) == groups(even, math.inf) == [[21] * 50 + [20] * 50]


def test_rows_and_words_are_opposites():
    docs = [NLP.make_doc(text) for text in [*ODD_TEXTS, *word_docs(NLP, 30)]]
    batch = WordBatch.of(docs, 16)
    assert batch.lengths.sum() == len(batch.keys) and batch.lengths.max() <= 16
    layers = np.random.default_rng(0).normal(size=(len(batch.keys), 2, 3))
    rows = batch.rows(layers)
    assert [len(array) for array in rows] == [len(doc) for doc in docs]
    np.testing.assert_array_equal(np.concatenate(batch.words(rows)), layers)
    texts = [token.text for doc in docs for token in doc if not token.is_space]
    assert [batch.text(key) for key in batch.keys.tolist()] == texts


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_joined_is_concatenation_in_any_order_and_of_any_origin(lengths, data):
    flat = np.arange(sum(lengths) * 6, dtype="float32").reshape(-1, 2, 3)
    parts = cut(flat, lengths)
    np.testing.assert_array_equal(joined(parts), flat)
    mixed = [part.copy() if data.draw(st.booleans()) else part for part in parts]
    mixed = data.draw(st.permutations(mixed))
    np.testing.assert_array_equal(joined(mixed), np.concatenate(mixed))


def test_joined_does_not_copy_what_is_in_order():
    flat = np.zeros((6, 2, 3), dtype="float32")
    assert np.shares_memory(joined(cut(flat, [1, 3, 2])), flat)
