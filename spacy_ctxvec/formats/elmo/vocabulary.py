"""The vocabulary files of bilm-tf: text, a word a line, the most frequent ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ... import errors
from ...text.archives import open_bytes
from ...text.corpus import SPECIALS
from ...types import FloatArray, IntArray

NAMES = ("vocab.txt", "vocab.txt.gz", "vocab*.txt", "vocab*.txt.gz")
MAX_WORDS, MAX_BYTES = 20_000_000, 1 << 16
NO_WORD = "!!!MAXTERMID"  # a line that bilm-tf leaves out


@dataclass(frozen=True)
class Vocabulary:
    """words (n_words,): `SPECIALS` first; rows (n_words,): the place of each in the file."""

    words: list[str]
    rows: IntArray

    @classmethod
    def of(cls, words: Sequence[str]) -> Vocabulary:
        """From words in the order of a file; ValueError where one of `SPECIALS` is missing."""
        first = [words.index(special) for special in SPECIALS]
        others = np.setdiff1d(np.arange(len(words)), first)
        rows = np.concatenate([np.array(first, dtype=np.int64), others])
        return cls([words[int(row)] for row in rows], rows)

    def in_order(self, array: FloatArray) -> FloatArray:
        """Rows in the order of the file (n_words, ...) -> in that of `words`."""
        ordered = (self.rows[: len(SPECIALS)] == np.arange(len(SPECIALS))).all()
        return array if ordered else array[self.rows]


NO_VOCABULARY = Vocabulary([], np.zeros(0, dtype=np.int64))


def read_words(path: Path) -> list[str]:
    """Of a file whose lines may end in any way, and which may be compressed."""
    lines: list[str] = []
    try:
        with open_bytes(path) as file:
            while line := file.readline(MAX_BYTES):
                if len(line) == MAX_BYTES or len(lines) == MAX_WORDS:
                    expected = f"{MAX_WORDS:,} words at most, each of {MAX_BYTES:,} bytes at most"
                    raise errors.malformed_model(path, "content", expected, "more")
                lines.append(line.decode("utf8").strip())
    except UnicodeDecodeError as error:
        raise errors.malformed_model(path, "content", "UTF-8 text", error) from error
    return [line for line in lines if line != NO_WORD]


def read_vocabulary(path: Path) -> Vocabulary:
    """Of a biLM that reads words: the sentence marks and the unknown word are among them."""
    words = read_words(path)
    for special in SPECIALS:
        if special not in words:
            raise errors.malformed_model(path, f"line {special}", "present", "no such line")
    return Vocabulary.of(words)


def find_vocabulary(folder: Path) -> Path | None:
    """The vocabulary file in a folder: `vocab.txt`, or else the only one with such a name."""
    for pattern in NAMES:
        found = sorted(folder.glob(pattern))
        if found:
            return found[0] if len(found) == 1 else None
    return None
