"""Pairs to words in spaCy's way, a chunk of pairs at a time, compactly returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import errors
from . import tokenizing
from .lines import KINDS, Problems
from .parallel import EMPTY_SIDE, Pair
from .tokenizing import Hashes, blank_pipeline, distinct_words, hash64, word_ids

TOO_MANY_TOKENS = "too_many_tokens"
EXCLUDED = "excluded_source"
PAIR_KINDS = (*KINDS, EMPTY_SIDE, TOO_MANY_TOKENS, EXCLUDED)


class Pieces(NamedTuple):
    """Distinct `words`, as they first appear; `ids` (n_tokens,) are rows of them.

    `lengths` (n_pieces,) are the tokens of each piece.
    """

    words: list[str]
    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]


@dataclass(frozen=True)
class TokenizedPairs:
    """The words of some pairs: a piece of each side for each pair, none of them empty.

    `hashes` (n_pairs,) are 64 bits of both sides' words, `problems` tell what was left out.
    """

    source: Pieces
    target: Pieces
    hashes: Hashes
    problems: Problems

    def __len__(self) -> int:
        return len(self.hashes)


class SideTokenizer:
    """spaCy's blank pipeline for `lang`; with `lower`, words are lower-cased."""

    def __init__(self, lang: str, lower: bool):
        self.lang = lang
        self.attribute = "LOWER" if lower else "ORTH"
        self.start()

    def start(self) -> None:
        self.nlp = blank_pipeline(self.lang)

    def start_if_full(self) -> None:
        if len(self.nlp.vocab) > tokenizing.MAX_LEXEMES:
            self.start()

    def __call__(self, text: str) -> Hashes:
        """spaCy's ids of the words, which are the same in every process, (n_words,)."""
        return word_ids(self.nlp.tokenizer(text), self.attribute)

    def words(self, text: str) -> list[str]:
        return [self.nlp.vocab.strings[key] for key in self(text).tolist()]

    def pieces(self, hashes: list[Hashes]) -> Pieces:
        """What this has returned for some texts, with their words."""
        words, ids = distinct_words(hashes, self.nlp.vocab.strings)
        return Pieces(words, ids, np.array([len(piece) for piece in hashes], dtype=np.int32))


class PairTokenizer:
    """Leaves out pairs with more than `max_tokens` on a side, and those with `excluded` sources.

    `excluded` are what `source_keys` makes of sentences.
    """

    def __init__(
        self,
        source_lang: str,
        target_lang: str,
        lower: bool,
        max_tokens: int,
        excluded: frozenset[bytes] = frozenset(),
    ):
        if max_tokens < 1:
            raise errors.CtxvecError(errors.EMPTY_WINDOW.format(found=max_tokens))
        self.source = SideTokenizer(source_lang, lower)
        self.target = SideTokenizer(target_lang, lower)
        self.max_tokens = max_tokens
        self.excluded = excluded

    def __call__(self, pairs: Sequence[Pair]) -> TokenizedPairs:
        self.source.start_if_full()
        self.target.start_if_full()
        sources: list[Hashes] = []
        targets: list[Hashes] = []
        problems = Problems()
        for pair in pairs:
            source, target = self.source(pair.source), self.target(pair.target)
            fault = self._fault(source, target)
            if fault:
                problems.note(fault, pair.place)
            else:
                sources.append(source)
                targets.append(target)
        hashes = [hash64(a.tobytes() + b"\t" + b.tobytes()) for a, b in zip(sources, targets)]
        return TokenizedPairs(
            source=self.source.pieces(sources),
            target=self.target.pieces(targets),
            hashes=np.array(hashes, dtype=np.uint64),
            problems=problems,
        )

    def _fault(self, source: Hashes, target: Hashes) -> str | None:
        if not (len(source) and len(target)):
            return EMPTY_SIDE
        if max(len(source), len(target)) > self.max_tokens:
            return TOO_MANY_TOKENS
        if self.excluded and source.tobytes() in self.excluded:
            return EXCLUDED
        return None


def source_keys(sentences: frozenset[str], lang: str, lower: bool) -> frozenset[bytes]:
    """Sentences by their words, as `PairTokenizer` compares them."""
    if not sentences:  # for which a pipeline need not be made
        return frozenset()
    tokenizer = SideTokenizer(lang, lower)
    return frozenset(tokenizer(sentence).tobytes() for sentence in sentences)
