"""Words cut into pieces of a small vocabulary, so that a translation model knows every word.

The pieces are merged from characters, the most frequent pairs first (Sennrich et al. 2016, section
3.2); a word is cut into the longest ones that fit, from left to right. A piece that goes on a word
begins with `JOINER`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..types import IntArray
from .corpus import SPECIALS, UNKNOWN_ID, Corpus

JOINER = "\uffed"
UNKNOWN = SPECIALS[UNKNOWN_ID]
WORDS_AT_ONCE = 100_000
LONGEST_WORD = 1000  # characters


class Subwords:
    """Cuts words into `pieces`. A word with the joiner, with characters that no piece has, or of
    more than `LONGEST_WORD` is the unknown word.

    CtxvecError without the package tokenizers.
    """

    def __init__(self, pieces: Sequence[str]):
        self.pieces = list(pieces)
        vocabulary = {piece: i for i, piece in enumerate(self.pieces)}
        vocabulary.setdefault(UNKNOWN, len(vocabulary))
        self._model = _library().models.WordPiece(
            vocabulary,
            unk_token=UNKNOWN,
            continuing_subword_prefix=JOINER,
            max_input_chars_per_word=LONGEST_WORD,
        )

    @classmethod
    def learn(cls, counts: Mapping[str, int], n_pieces: int) -> Subwords:
        """About `n_pieces` from words and how often each occurs.

        Every character of theirs can begin a word and go on one, so that all words of the same
        characters are known.
        """
        library = _library()
        tokenizer = library.Tokenizer(
            library.models.WordPiece({}, unk_token=UNKNOWN, continuing_subword_prefix=JOINER)
        )
        tokenizer.pre_tokenizer = library.pre_tokenizers.Split(" ", "removed")
        characters = sorted({character for word in counts for character in word} - {JOINER})
        trainer = library.trainers.WordPieceTrainer(
            vocab_size=n_pieces,
            # Both, in this order: the library would number them by chance.
            special_tokens=[prefix + c for prefix in ("", JOINER) for c in characters],
            continuing_subword_prefix=JOINER,
            show_progress=False,
        )
        tokenizer.train_from_iterator(_repeated(counts), trainer)
        vocabulary = tokenizer.get_vocab()
        return cls(sorted(vocabulary, key=vocabulary.__getitem__))

    def cut_word(self, word: str) -> list[str]:
        return [UNKNOWN] if JOINER in word else [t.value for t in self._model.tokenize(word)]

    def cut(self, corpus: Corpus) -> Corpus:
        """The corpus in pieces, in memory: its types are all of them, the most frequent first."""
        n_special = len(SPECIALS)
        types = [*SPECIALS, *self.pieces]
        row = {piece: i for i, piece in enumerate(types)}
        words = [[UNKNOWN]] * n_special + list(map(self.cut_word, corpus.types[n_special:]))
        lengths = np.array([len(pieces) for pieces in words])
        flat = np.array([row[piece] for pieces in words for piece in pieces], dtype=np.int32)
        found = np.bincount(flat, np.repeat(corpus.counts, lengths), len(types)).astype(np.int64)
        order = np.arange(len(types))
        order[n_special:] = n_special + np.argsort(-found[n_special:], kind="stable")
        places = np.argsort(order).astype(np.int32)
        ids, n_pieces = _cut_ids(corpus, places[flat], lengths)
        return replace(
            corpus,
            types=[types[i] for i in order],
            counts=found[order],
            offsets=np.cumsum([0, *n_pieces]),
            shards=[ids],
            shard_starts=[0],
            folder=None,
            mapping=None,
            uncut=corpus,
        )


def _cut_ids(
    corpus: Corpus, flat: NDArray[np.int32], lengths: IntArray
) -> tuple[NDArray[np.int32], list[int]]:
    """The ids of a corpus whose type i is made of the `lengths[i]` next ones of `flat`; and how
    many each piece of the corpus has."""
    starts = np.cumsum(lengths) - lengths
    parts: list[NDArray[np.int32]] = []
    for number in range(len(corpus.lengths)):
        ids = corpus.piece(number)
        n = lengths[ids]
        within = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n)
        parts.append(flat[np.repeat(starts[ids], n) + within])
    return np.concatenate(parts), [len(part) for part in parts]


def subwords_of(words: Sequence[str]) -> Subwords | None:
    """What cut the text of a model that knows these words, if any of them goes on a word."""
    return Subwords(words) if any(word.startswith(JOINER) for word in words) else None


def word_groups(pieces: Sequence[str]) -> list[range]:
    """The places of the pieces of each word."""
    starts = [i for i, piece in enumerate(pieces) if i == 0 or not piece.startswith(JOINER)]
    return [range(*pair) for pair in zip(starts, [*starts[1:], len(pieces)])]


def joined(pieces: Sequence[str]) -> list[str]:
    """The words that the pieces are of."""
    return ["".join(pieces[i].removeprefix(JOINER) for i in group) for group in word_groups(pieces)]


def _repeated(counts: Mapping[str, int]) -> Iterator[str]:
    """Every word as often as it occurs, parted by spaces."""
    for word, count in counts.items():
        if JOINER in word:
            continue
        for start in range(0, count, WORDS_AT_ONCE):
            yield " ".join([word] * min(WORDS_AT_ONCE, count - start))


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_TOKENIZERS.format(error=error)) from error
    return tokenizers
