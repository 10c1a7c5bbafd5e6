"""Parts that share no source sentence."""

from __future__ import annotations

from collections import Counter

import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.parallel import Pair
from spacy_ctxvec.text.splitting import FRACTIONS, pairs_of_part, part_of

PAIRS = [Pair(f"Sentence {i // 3}.", f"Satz {i}.", "") for i in range(6000)]
THIRDS = {"a": 0.3, "b": 0.3, "c": 0.4}


def test_every_pair_is_in_one_part_and_no_source_in_two():
    parts = {part: list(pairs_of_part(PAIRS, part)) for part in FRACTIONS}
    assert sorted(pair for pairs in parts.values() for pair in pairs) == sorted(PAIRS)
    sources = [{pair.source for pair in pairs} for pairs in parts.values()]
    assert sum(map(len, sources)) == len(set.union(*sources)) == 2000
    assert all(sources)


def test_parts_are_about_as_large_as_asked_for():
    found = Counter(part_of(f"sentence {i}", THIRDS) for i in range(3000))
    assert {part: round(n / 3000, 1) for part, n in found.items()} == THIRDS


def test_parts_are_the_same_everywhere():
    assert [part_of(f"Sentence {i}.", THIRDS) for i in range(12)] == list("bacccbabbcca")


@pytest.mark.parametrize("other", ["hi there!", " Hi  there! ", "HI\tTHERE!", "Hi\u00a0there!"])
def test_case_and_white_space_do_not_tell_sources_apart(other):
    fractions = {str(i): 1 / 64 for i in range(64)}
    assert part_of(other, fractions) == part_of("Hi there!", fractions)


def test_a_part_may_be_all_or_nothing():
    assert list(pairs_of_part(PAIRS, "all", {"none": 0.0, "all": 1.0})) == PAIRS
    assert not list(pairs_of_part(PAIRS, "none", {"all": 1.0, "none": 0.0}))


@pytest.mark.parametrize("fractions", [{}, {"a": 0.5}, {"a": 0.5, "b": 0.6}, {"a": 1.5, "b": -0.5}])
def test_fractions_that_cannot_work(fractions):
    with pytest.raises(CtxvecError, match=r"fractions = \{.*together 1"):
        part_of("a", fractions)


def test_a_part_that_is_not_known():
    with pytest.raises(CtxvecError, match=r'part = "trian".*train, dev, test'):
        pairs_of_part(PAIRS, "trian")
