"""A tokenised pretraining corpus on disk: built once by streaming, then memory-mapped.

The folder holds

    types.txt      every distinct token, one a line; sentence marks and unknown word first, then
                   by falling frequency, so that the first n lines are a vocabulary of n words
    counts.npy     (n_types,) int64
    ids.npy        (n_tokens,) int32, rows of types.txt
    offsets.npy    (n_pieces + 1,) int64, where each piece of text starts in ids.npy
    meta.json      where it came from
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import srsly
from numpy.typing import NDArray

from .. import errors
from ..types import IntArray
from .windows import window_ends

SPECIALS = ("<S>", "</S>", "<UNK>")
SENTENCE_START_ID, SENTENCE_END_ID, UNKNOWN_ID = range(3)
OPENERS: dict[str, Callable[..., IO[str]]] = {
    ".bz2": bz2.open,  # type: ignore[dict-item]
    ".gz": gzip.open,  # type: ignore[dict-item]
    ".xz": lzma.open,  # type: ignore[dict-item]
}
UNREADABLE = (UnicodeDecodeError, EOFError, OSError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Corpus:
    """See the module's text; a piece is a stretch of one paragraph, `max_tokens` at most."""

    types: list[str]
    counts: IntArray
    ids: NDArray[np.int32]
    offsets: IntArray
    meta: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> Corpus:
        return cls(
            types=(folder / "types.txt").read_text("utf8").split("\n"),
            counts=np.load(folder / "counts.npy"),
            ids=np.load(folder / "ids.npy", mmap_mode="r"),
            offsets=np.load(folder / "offsets.npy"),
            meta=dict(srsly.read_json(folder / "meta.json")),  # type: ignore[call-overload]
        )

    def piece(self, number: int) -> NDArray[np.int32]:
        return self.ids[self.offsets[number] : self.offsets[number + 1]]

    def recoded(self, types: Sequence[str]) -> Corpus:
        """The same text over the first types of another corpus, with its own unknown types last.

        Held-out text is read so: its known words take the ids that the model was trained with.
        """
        row = {word: i for i, word in enumerate(types)}
        extended = list(types)
        mapping = np.empty(len(self.types), dtype=np.int32)
        for i, word in enumerate(self.types):
            if word not in row:
                row[word] = len(extended)
                extended.append(word)
            mapping[i] = row[word]
        counts = np.zeros(len(extended), dtype=np.int64)
        counts[mapping] = self.counts
        return Corpus(extended, counts, mapping[self.ids], self.offsets, self.meta)


def read_paragraphs(paths: Iterable[Path]) -> Iterator[str]:
    """The non-empty lines of plain or compressed UTF-8 files, one from each file in turn.

    Taking turns mixes sources evenly, so that any prefix is a sample of all of them.
    """
    streams = [_lines(path) for path in paths]
    while streams:
        for stream in list(streams):
            line = next(stream, None)
            if line is None:
                streams.remove(stream)
            else:
                yield line


def _lines(path: Path) -> Iterator[str]:
    opener = OPENERS.get(path.suffix, open)
    try:
        with opener(path, "rt", encoding="utf8") as file:
            yield from (line.strip() for line in file if line.strip())
    except UNREADABLE as error:
        raise errors.CtxvecError(errors.UNREADABLE_TEXT.format(path=path, error=error)) from error


def build_corpus(
    paragraphs: Iterable[str],
    tokenize: Callable[[str], list[str]],
    folder: Path,
    *,
    max_tokens: int,
    budget: int | None = None,
    meta: dict[str, Any] | None = None,
    progress: Callable[[int], None] = lambda n: None,
) -> Corpus:
    """Tokenise `paragraphs`, cut them to pieces of `max_tokens`, write `folder`.

    Reading stops after `budget` tokens. `progress` is told the number of tokens of each piece.
    """
    rows: dict[str, int] = {}
    counts: Counter[int] = Counter()
    chunks: list[NDArray[np.int32]] = []
    lengths: list[int] = []
    total = 0
    for words in _pieces(paragraphs, tokenize, max_tokens):
        ids = [rows.setdefault(word, len(rows)) for word in words]
        counts.update(ids)
        chunks.append(np.array(ids, dtype=np.int32))
        lengths.append(len(ids))
        total += len(ids)
        progress(len(ids))
        if budget is not None and total >= budget:
            break
    if not total:
        raise errors.CtxvecError(errors.EMPTY_CORPUS)
    return _write(folder, rows, counts, np.concatenate(chunks), lengths, meta or {})


def _pieces(
    paragraphs: Iterable[str], tokenize: Callable[[str], list[str]], max_tokens: int
) -> Iterator[list[str]]:
    for paragraph in paragraphs:
        words = iter(all_words := tokenize(paragraph))
        start = 0
        for end in window_ends(all_words, max_tokens):
            yield list(islice(words, end - start))
            start = end


def _write(
    folder: Path,
    rows: dict[str, int],
    counts: Counter[int],
    ids: NDArray[np.int32],
    lengths: list[int],
    meta: dict[str, Any],
) -> Corpus:
    words = list(rows)
    by_frequency = sorted(range(len(words)), key=lambda i: (-counts[i], words[i]))
    new_row = np.empty(len(words), dtype=np.int32)
    new_row[by_frequency] = np.arange(len(words), dtype=np.int32) + len(SPECIALS)
    folder.mkdir(parents=True, exist_ok=True)
    types = [*SPECIALS, *(words[i] for i in by_frequency)]
    (folder / "types.txt").write_text("\n".join(types), "utf8")
    np.save(folder / "counts.npy", np.array([0, 0, 0, *(counts[i] for i in by_frequency)]))
    np.save(folder / "ids.npy", new_row[ids])
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(lengths)]))
    srsly.write_json(folder / "meta.json", {**meta, "n_tokens": len(ids), "n_pieces": len(lengths)})
    return Corpus.open(folder)


def spacy_tokenizer(lang: str) -> Callable[[str], list[str]]:
    """The words of spaCy's blank pipeline for `lang`, without white space."""
    import spacy

    tokenizer = spacy.blank(lang).tokenizer
    return lambda text: [token.text for token in tokenizer(text) if not token.is_space]
