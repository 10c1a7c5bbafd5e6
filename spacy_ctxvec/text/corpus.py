"""A tokenised pretraining corpus: opened from the folder that `build_corpus` wrote, or in memory.

The folder holds

    types.json     every distinct token; sentence marks and unknown word first, then by falling
                   frequency, so that the first n are a vocabulary of n words
    counts.npy     (n_types,) int64
    ids-00000.npy  (n_tokens of the shard,) int32, rows of types.json; and so on
    offsets.npy    (n_pieces + 1,) int64, where each piece starts, counted over all shards
    meta.json      what it was made from, what was wrong with that, and the checksums of the rest
"""

from __future__ import annotations

import json
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..types import IntArray

SPECIALS = ("<S>", "</S>", "<UNK>")
SENTENCE_START_ID, SENTENCE_END_ID, UNKNOWN_ID = range(3)
TYPES, COUNTS, OFFSETS, META = "types.json", "counts.npy", "offsets.npy", "meta.json"
SHARD = "ids-"  # and its number
FORMAT = 2
BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Corpus:
    """See the module's text. Ids of a piece are read with `piece`, and mapped if `recoded`.

    uncut: of a corpus whose words were cut into pieces (`text.subwords`), the one with the words
    """

    types: list[str]
    counts: IntArray
    offsets: IntArray
    shards: list[NDArray[np.int32]]
    shard_starts: list[int]  # the token that each shard starts with
    meta: dict[str, Any]
    folder: Path | None = None
    mapping: NDArray[np.int32] | None = None
    uncut: Corpus | None = None

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        """Map the shards of a folder into memory.

        CtxvecError if a file is missing, cut off or unreadable; changes within it, `verify` finds.
        """
        folder = Path(folder)
        meta = read_meta(folder, FORMAT)
        for name, expected in meta["files"].items():
            check_built(folder / name, "size in bytes", expected["bytes"], _size(folder / name))
        names = [name for name in meta["files"] if name.startswith(SHARD)]
        shards = [_read(_mapped, folder / name) for name in names]
        return cls(
            types=_read(_parsed, folder / TYPES),
            counts=_read(np.load, folder / COUNTS),
            offsets=_read(_mapped, folder / OFFSETS),
            shards=shards,
            shard_starts=[0, *np.cumsum([len(shard) for shard in shards])[:-1].tolist()],
            meta=meta,
            folder=folder,
        )

    @classmethod
    def in_memory(
        cls, pieces: Sequence[Sequence[str]], meta: dict[str, Any] | None = None
    ) -> Corpus:
        """A small corpus of these pieces of words; none of them may be empty."""
        counted = Counter(chain.from_iterable(pieces))
        words = sorted(counted, key=lambda word: (-counted[word], word))
        row = {word: i for i, word in enumerate(words, len(SPECIALS))}
        ids = np.array([row[word] for piece in pieces for word in piece], dtype=np.int32)
        return cls(
            types=[*SPECIALS, *words],
            counts=np.array([0] * len(SPECIALS) + [counted[word] for word in words]),
            offsets=np.cumsum([0, *map(len, pieces)]),
            shards=[ids],
            shard_starts=[0],
            meta=meta or {},
        )

    @cached_property
    def lengths(self) -> IntArray:
        """Tokens of each piece, (n_pieces,)."""
        return np.diff(self.offsets)

    @property
    def n_tokens(self) -> int:
        return int(self.offsets[-1])

    def piece(self, number: int) -> NDArray[np.int32]:
        """The ids of one piece, (n_tokens of it,)."""
        start, end = int(self.offsets[number]), int(self.offsets[number + 1])
        shard = bisect_right(self.shard_starts, start) - 1
        first = self.shard_starts[shard]
        ids = self.shards[shard][start - first : end - first]
        return ids if self.mapping is None else self.mapping[ids]

    def recoded(self, types: Sequence[str]) -> Corpus:
        """The same text over the first types of another corpus, with its own unknown types last.

        Held-out text is read so: its known words take the ids that the model was trained with.
        """
        n_special = len(SPECIALS)  # a text may hold a word spelled like them, which is none
        row = {word: i for i, word in enumerate(types[n_special:], n_special)}
        extended = list(types)
        mapping = np.arange(len(self.types), dtype=np.int32)
        for i, word in enumerate(self.types[n_special:], n_special):
            if word not in row:
                row[word] = len(extended)
                extended.append(word)
            mapping[i] = row[word]
        counts = np.zeros(len(extended), dtype=np.int64)
        counts[mapping] = self.counts
        if self.mapping is not None:
            mapping = mapping[self.mapping]
        return replace(self, types=extended, counts=counts, mapping=mapping)

    def verify(self) -> None:
        """Compare the checksum of every file; CtxvecError names one that has changed."""
        if self.folder is not None:
            for name, expected in self.meta["files"].items():
                found = fingerprint(self.folder / name)
                check_built(self.folder / name, "checksum", expected["crc32"], found["crc32"])


def read_meta(folder: Path, format_: int | str) -> dict[str, Any]:
    """The meta.json of a folder of this format; CtxvecError where it is none."""
    path = folder / META
    if not path.exists():
        raise errors.CtxvecError(errors.NO_CORPUS.format(folder=folder, name=META))
    meta = _read(_parsed, path)
    found = meta.get("format") if isinstance(meta, dict) else None
    check_built(path, "format", format_, found)
    return meta


def check_built(path: Path, what: str, expected: object, found: object) -> None:
    """CtxvecError unless a file is what was written when the corpus was built."""
    if found != expected:
        message = errors.BAD_CORPUS.format(path=path, what=what, expected=expected, found=found)
        raise errors.CtxvecError(message)


def _size(path: Path) -> int | str:
    return path.stat().st_size if path.exists() else "no such file"


def _read(reader: Callable[[Path], Any], path: Path) -> Any:
    try:
        return reader(path)
    except (OSError, EOFError, ValueError) as error:
        message = errors.BAD_CORPUS.format(
            path=path, what="content", expected="as built", found=error
        )
        raise errors.CtxvecError(message) from error


def _parsed(path: Path) -> Any:
    return json.loads(path.read_text("utf8"))


def _mapped(path: Path) -> Any:
    """A plain array over the mapped file: slices of np.memmap itself are slow."""
    return np.asarray(np.load(path, mmap_mode="r"))


def fingerprint(path: Path) -> dict[str, Any]:
    """Size in bytes and checksum of a file."""
    crc = 0
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            crc = zlib.crc32(block, crc)
    return {"bytes": path.stat().st_size, "crc32": f"{crc:08x}"}
