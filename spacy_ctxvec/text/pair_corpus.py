"""A tokenised corpus of pairs, a sentence and its translation, to train a translation model with.

The folder holds

    source/    a `Corpus`, see there; piece i of it belongs to
    target/    piece i of this one
    meta.json  what it was made from, what was wrong with that, and the checksums of their meta.json
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..types import IntArray
from .corpus import META, Corpus, check_built, fingerprint, read_meta
from .lines import Problems
from .pair_tokenizing import PAIR_KINDS, PairTokenizer, TokenizedPairs, source_keys
from .parallel import COLUMNS, KEYS, Pair, PairSource, find_sources, read_pairs, sentences_of
from .settings import pair_settings_of
from .splitting import FRACTIONS, pairs_of_part
from .tokenizing import n_duplicates
from .workers import tokenized_chunks
from .writing import SHARD_TOKENS, SIDES, PieceWriter, new_folder, write_meta

FORMAT = "pairs 1"  # no number, or a folder of pairs might pass for one of a `Corpus`
CHUNK_PAIRS = 5000


@dataclass(frozen=True, eq=False)
class PairCorpus:
    """See the module's text. Has `len()`, the number of pairs."""

    source: Corpus
    target: Corpus
    meta: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> PairCorpus:
        """Map both sides into memory.

        CtxvecError if a file is missing, cut off or unreadable, or if the sides were not built
        together; changes within files, `verify` finds.
        """
        folder = Path(folder)
        meta = read_meta(folder, FORMAT)
        source, target = (Corpus.open(folder / side) for side in SIDES)
        for name, expected in meta["files"].items():
            check_built(folder / name, "checksum", expected, fingerprint(folder / name))
        return cls(source, target, meta)

    @classmethod
    def in_memory(
        cls,
        pairs: Iterable[tuple[Sequence[str], Sequence[str]]],
        meta: dict[str, Any] | None = None,
    ) -> PairCorpus:
        """A small corpus of these pairs of words; no side may be empty."""
        pairs = list(pairs)
        source, target = (Corpus.in_memory([pair[side] for pair in pairs]) for side in (0, 1))
        return cls(source, target, meta or {})

    def __len__(self) -> int:
        return len(self.source.lengths)

    @cached_property
    def lengths(self) -> IntArray:
        """Tokens of each pair's source and target, (n_pairs, 2)."""
        return np.stack([self.source.lengths, self.target.lengths], axis=1)

    def pair(self, number: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The ids of one pair's source and target, (n_tokens of it,) each."""
        return self.source.piece(number), self.target.piece(number)

    def recoded(self, source_types: Sequence[str], target_types: Sequence[str]) -> PairCorpus:
        """The same pairs over the types of another corpus; see `Corpus.recoded`."""
        return replace(
            self,
            source=self.source.recoded(source_types),
            target=self.target.recoded(target_types),
        )

    def verify(self) -> None:
        """Compare the checksum of every file; CtxvecError names one that has changed."""
        self.source.verify()
        self.target.verify()


def build_pair_corpus(
    sources: Iterable[PairSource],
    folder: Path,
    *,
    source_lang: str,
    target_lang: str,
    lower: bool = True,
    max_tokens: int = 50,
    columns: tuple[int, int] = COLUMNS,
    keys: tuple[str, str] = KEYS,
    exclude_sources: Path | str | Collection[str] = (),
    part: str | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
    n_process: int = 1,
    meta: dict[str, Any] | None = None,
    progress: Callable[[int], None] = lambda n: None,
    shard_tokens: int = SHARD_TOKENS,
) -> PairCorpus:
    """Tokenise the pairs of `sources` with spaCy and write them to `folder`.

    sources: Files with both sides, or two line-aligned files as (source, target); they, `columns`
        and `keys` are those of `read_pairs`.
    source_lang, target_lang: spaCy's codes of the languages.
    lower: Whether words are lower-cased, after they are told apart.
    max_tokens: Pairs with more on either side are left out.
    exclude_sources: Sentences, or a file with one a line; pairs whose source has the words of one
        are left out.
    part, fractions: Only pairs of this part are taken; see `part_of`. None takes all.
    n_process: How many processes tokenise; the corpus does not depend on it.
    meta: More to keep in `PairCorpus.meta`.
    progress: Is told the number of pairs as they are added.

    `PairCorpus.meta["problems"]` counts what was left out, and pairs that are copies of others,
    which stay. A corpus that `folder` holds is replaced in the end. Raises CtxvecError for files
    that cannot be read or are no pairs, unknown settings, and where no pair is left.
    """
    files, problems = find_sources(sources), Problems()
    excluded = sentences_of(exclude_sources, problems)
    settings = pair_settings_of(
        files,
        source_lang=source_lang,
        target_lang=target_lang,
        lower=lower,
        max_tokens=max_tokens,
        columns=columns,
        keys=keys,
        exclude_sources=excluded,
        part=part,
        fractions=fractions,
    )
    pairs = read_pairs(files, problems, columns=columns, keys=keys)
    if part is not None:
        pairs = pairs_of_part(pairs, part, fractions)
    keys_of_excluded = source_keys(excluded, source_lang, lower)
    make = partial(PairTokenizer, source_lang, target_lang, lower, max_tokens, keys_of_excluded)
    chunks = pair_chunks(pairs, problems)
    with new_folder(folder) as new:
        writer = PairWriter(new, shard_tokens)
        with closing(tokenized_chunks(chunks, make, n_process)) as results:
            for tokenized, found in results:
                writer.add(tokenized, found)
                progress(len(tokenized))
        writer.finish({**(meta or {}), "settings": settings})
    return PairCorpus.open(folder)


def pair_chunks(pairs: Iterator[Pair], problems: Problems) -> Iterator[tuple[list[Pair], Problems]]:
    """Pairs together, with the problems of reading just these."""
    while chunk := list(islice(pairs, CHUNK_PAIRS)):
        yield chunk, problems.take()
    yield [], problems.take()


class PairWriter:
    """Collects pairs, chunk after chunk; `finish` writes what they are together."""

    def __init__(self, folder: Path, shard_tokens: int):
        self.folder = folder
        for side in SIDES:
            (folder / side).mkdir()
        self.source, self.target = (PieceWriter(folder / side, shard_tokens) for side in SIDES)
        self.hashes: list[NDArray[np.uint64]] = []
        self.problems = Problems()
        self.n_pairs = 0

    def add(self, pairs: TokenizedPairs, problems: Problems) -> None:
        self.source.add(*pairs.source)
        self.target.add(*pairs.target)
        self.hashes.append(pairs.hashes)
        self.problems.add(problems)
        self.problems.add(pairs.problems)
        self.n_pairs += len(pairs)

    def finish(self, meta: dict[str, Any]) -> None:
        if not self.n_pairs:
            message = errors.NO_PAIRS.format(
                problems=dict(self.problems.counts), empty_files=self.problems.empty_files
            )
            raise errors.CtxvecError(message)
        for side in (self.source, self.target):
            side.write_meta(side.write())
        known = {
            "format": FORMAT,
            "spacy": version("spacy"),
            "n_pairs": self.n_pairs,
            "problems": self.problems.as_dict(PAIR_KINDS)
            | {"duplicate_pairs": n_duplicates(self.hashes)},
        }
        write_meta(self.folder, meta | known, [f"{side}/{META}" for side in SIDES])
