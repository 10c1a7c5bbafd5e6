"""Distributions of candidate words, against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.nn.candidates import DISTRIBUTIONS, log_uniform, smoothed_frequencies

counts = st.lists(st.integers(0, 10**9), min_size=2, max_size=200).map(np.array)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
@given(counts=counts)
def test_every_word_can_be_drawn_and_they_sum_to_one(name, counts):
    probabilities = DISTRIBUTIONS[name](counts)
    assert probabilities.shape == counts.shape and (probabilities > 0).all()
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-12)


def test_log_uniform_is_the_formula_over_ranks():
    found = log_uniform(np.array([9, 9, 9, 1]))
    want = [math.log((k + 2) / (k + 1)) / math.log(5) for k in range(4)]
    assert np.allclose(found, want, rtol=1e-12)


def test_frequency_is_to_the_power_of_three_quarters():
    found = smoothed_frequencies(np.array([16, 1, 81]))
    assert np.allclose(found, np.array([8, 1, 27]) / 36, rtol=1e-12)
    never, once = smoothed_frequencies(np.array([0, 1]))
    assert math.isclose(never / once, 0.5**0.75)
