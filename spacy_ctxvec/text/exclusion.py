"""Training documents that hold evaluation text: found by the 8-grams of words that they share.

What a document shares is decided on plain words, so that the tokenisation of either side does
not matter: see `plain_words`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from ..types import IntArray
from .sources import Document

Hashes = NDArray[np.uint64]

N = 8
MIN_SHARED = 5  # distinct 8-grams; one or two are found by chance, in phrases that all texts use
HASH_FACTOR = 0x9E3779B97F4A7C15  # odd, so that multiplying loses nothing modulo 2 ** 64

BRACKETS = re.compile(r"-[lr][rsc]b-")
# "do n't" and "can not" of tokenised text are "don't" and "cannot" in running text.
SPLIT_NOT = re.compile(r"(?<=[^\W_]) +(n['’]t)(?![^\W_])")
CAN_NOT = re.compile(r"(?<![^\W_])can not(?![^\W_])")
# Scripts without spaces: tokenised text has them between words, and running text has not.
UNSPACED = r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
SPACE_WITHIN = re.compile(rf"(?<={UNSPACED})\s+(?={UNSPACED})")
WORD = re.compile(r"[^\W_]+")


def plain_words(text: str) -> list[str]:
    """The case-folded runs of letters and digits of `text`, the same however it is tokenised.

    Whatever is no letter or digit parts words, the apostrophe as well: so "John's", "John 's" and
    "John ' s" are all "john s", and "well-known" is "well - known". Left to mend are the places
    where tokenisers cut inside a run of letters, which in English is the n of "n't".
    """
    text = text.casefold()
    if not text.isascii():
        text = SPACE_WITHIN.sub("", unicodedata.normalize("NFC", text))
    text = CAN_NOT.sub("cannot", SPLIT_NOT.sub(r"\1", BRACKETS.sub(" ", text)))
    return WORD.findall(text)


@lru_cache(maxsize=1 << 18)
def word_hash(word: str) -> int:
    """64 bits that are the same in every process, unlike `hash`."""
    return int.from_bytes(blake2b(word.encode("utf8"), digest_size=8).digest(), "little")


def ngram_hashes(words: Sequence[str]) -> Hashes:
    """A hash of each run of 8 words, (n_words - 7,); empty if there are fewer."""
    if len(words) < N:
        return np.empty(0, dtype=np.uint64)
    each = np.array([word_hash(word) for word in words], dtype=np.uint64)
    windows = np.lib.stride_tricks.sliding_window_view(each, N)
    hashes = windows[:, 0].copy()
    for i in range(1, N):
        hashes *= np.uint64(HASH_FACTOR)
        hashes += windows[:, i]
    return hashes


def evaluation_ngrams(text: str) -> Hashes:
    """The distinct 8-grams of an evaluation text, sorted.

    Those of numbers alone are left out: they are offsets and labels, which any table may share.
    """
    words = plain_words(text)
    hashes = ngram_hashes(words)
    if len(hashes):
        is_number = np.array([word.isdigit() for word in words])
        windows = np.lib.stride_tricks.sliding_window_view(is_number, N)
        hashes = hashes[~windows.all(axis=1)]
    return np.unique(hashes)


@dataclass(frozen=True)
class Exclusion:
    """The 8-grams of evaluation texts: sorted hashes, and the number of the text of each.

    An 8-gram that several texts hold counts as the first one's.
    """

    hashes: Hashes
    texts: IntArray

    @classmethod
    def of(cls, texts: Iterable[str]) -> Exclusion:
        each = [evaluation_ngrams(text) for text in texts]
        numbers = np.repeat(np.arange(len(each)), [len(hashes) for hashes in each])
        hashes, first = np.unique(
            np.concatenate([np.empty(0, np.uint64), *each]), return_index=True
        )
        return cls(hashes, numbers[first])

    def most_shared(self, document: Document) -> int | None:
        """The text that `document` shares most with; None if it shares fewer than 5 8-grams."""
        if not len(self.hashes):
            return None
        text = "\n".join(p if isinstance(p, str) else " ".join(p) for p in document)
        found = ngram_hashes(plain_words(text))
        rows = np.searchsorted(self.hashes, found)
        rows[rows == len(self.hashes)] = 0
        shared = np.unique(rows[self.hashes[rows] == found])
        if len(shared) < MIN_SHARED:
            return None
        return int(np.bincount(self.texts[shared]).argmax())
