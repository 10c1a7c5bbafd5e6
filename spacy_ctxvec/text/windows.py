"""Cuts of a long text into windows, decided from the text alone.

Because nothing but the tokens decides (no parser, no batch), pretraining, training and prediction
cut the same text at the same places, and a document has the same vectors in every batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .. import errors

SENTENCE_FINAL = frozenset(".!?…。！？।॥؟۔")
CLOSING = frozenset("\"')]}»”’›」』")


def ends_sentence(word: str) -> bool:
    """Whether a window may end after `word`: final punctuation, or quotes that close after it."""
    return word in SENTENCE_FINAL or (len(word) > 1 and set(word) <= SENTENCE_FINAL)


def window_ends(words: Sequence[str], max_tokens: int) -> list[int]:
    """The exclusive end of each window of at most `max_tokens` tokens; empty for no words.

    A text that fits is one window. Otherwise each window ends after the last sentence that is
    complete within it, or, where a sentence is longer than the window, at `max_tokens`.
    """
    if max_tokens < 1:
        raise errors.CtxvecError(errors.EMPTY_WINDOW.format(found=max_tokens))
    ends: list[int] = []
    start = 0
    while len(words) - start > max_tokens:
        end = _last_break(words.__getitem__, start, start + max_tokens)
        ends.append(end)
        start = end
    return [*ends, len(words)] if len(words) else []


def _last_break(word_at: Callable[[int], str], start: int, limit: int) -> int:
    for end in range(limit, start, -1):
        if word_at(end) in CLOSING:  # keep a closing quote with the sentence that it closes
            continue
        before = end - 1
        while before > start and word_at(before) in CLOSING:
            before -= 1
        if ends_sentence(word_at(before)):
            return end
    return limit
