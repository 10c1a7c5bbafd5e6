"""The cache of word vectors: exact, bounded, right after evictions."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.layers.cache import WordVectorCache


def look_up(cache: WordVectorCache, keys: list[int]) -> torch.Tensor:
    array = np.array(keys, dtype=np.uint64)
    return cache.vectors(array, lambda missing: vector_of(array[missing]))


def vector_of(keys: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.stack([keys, keys * 2]).T.astype("float32"))


@given(st.lists(st.sets(st.integers(0, 30), min_size=1, max_size=12), max_size=20))
def test_every_look_up_is_exact_and_the_size_is_bounded(batches):
    cache = WordVectorCache(16)
    for batch in batches:
        keys = sorted(batch)
        torch.testing.assert_close(look_up(cache, keys), vector_of(np.array(keys)))
        assert len(cache) <= 16


def test_the_words_used_last_survive():
    cache = WordVectorCache(20)
    look_up(cache, list(range(10)))
    look_up(cache, list(range(10, 20)))
    look_up(cache, [0, 1])
    look_up(cache, [90])
    cache.misses = 0
    look_up(cache, [0, 1, 90, 15])
    assert cache.misses == 0


def test_hit_rate_and_clear():
    cache = WordVectorCache(100)
    look_up(cache, [1, 2])
    look_up(cache, [1, 2, 3, 4])
    assert cache.hit_rate == 2 / 6
    cache.clear()
    assert len(cache) == 0
