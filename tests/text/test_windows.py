"""Windows over long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.windows import CLOSING, ends_sentence, window_ends

WORDS = st.lists(st.sampled_from(["a", "b", ".", "!", "...", '"', ")", "。"]), max_size=60)


def cuts_well(words: list[str], end: int) -> bool:
    """Whether a sentence ends before `end`, with all the marks that close it."""
    before = end - 1
    while before > 0 and words[before] in CLOSING:
        before -= 1
    return ends_sentence(words[before]) and words[end] not in CLOSING


@given(WORDS, st.integers(1, 12))
def test_every_token_is_in_one_window(words, max_tokens):
    ends = window_ends(words, max_tokens)
    starts = [0, *ends[:-1]]
    assert all(0 < end - start <= max_tokens for start, end in zip(starts, ends))
    assert ends == sorted(set(ends)) and (ends[-1] if ends else 0) == len(words)


@given(WORDS, st.integers(1, 12))
def test_windows_end_after_sentences_where_one_ends_in_them(words, max_tokens):
    ends = window_ends(words, max_tokens)
    for start, end in zip([0, *ends], ends[:-1]):
        inside = range(start + 1, min(start + max_tokens, len(words) - 1) + 1)
        good = [i for i in inside if cuts_well(words[start:], i - start)]
        assert end == (good[-1] if good else start + max_tokens)


def test_ten_thousand_tokens():
    words = [*(["word"] * 9), "."] * 1000
    ends = window_ends(words, 64)
    assert ends[-1] == 10_000 and {b - a for a, b in zip([0, *ends], ends)} <= {60, 40}
    unbroken = window_ends(["word"] * 10_000, 64)
    assert unbroken == [*range(64, 10_000, 64), 10_000]


@pytest.mark.parametrize("n, ends", [(0, []), (1, [1]), (64, [64]), (65, [64, 65])])
def test_the_smallest_texts(n, ends):
    assert window_ends(["a"] * n, 64) == ends


def test_a_closing_quote_stays_with_its_sentence():
    words = ["a", "b", ".", '"', "c", "d", "e"]
    assert window_ends(words, 5) == [4, 7]
    assert window_ends(words, 3) == [3, 6, 7]  # no whole sentence fits


@pytest.mark.parametrize("max_tokens", [0, -1])
def test_windows_of_nothing_are_refused(max_tokens):
    with pytest.raises(CtxvecError, match="max_tokens"):
        window_ends(["a", "b"], max_tokens)
