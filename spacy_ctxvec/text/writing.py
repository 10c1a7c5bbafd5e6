"""The writing of a corpus's folder, so that it may be larger than memory.

Words get ids in order of first appearance while the text goes by; in the end, when their
frequencies are known, the ids are replaced by falling frequency, one shard at a time. All of it
happens in a folder beside the corpus's, which takes its name when it is complete.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import errors
from ..types import IntArray
from .corpus import COUNTS, FORMAT, META, OFFSETS, SHARD, SPECIALS, TYPES, fingerprint
from .lines import Problems
from .tokenizing import Tokenized, n_duplicates

SHARD_TOKENS = 1 << 24
SIDES = ("source", "target")  # the corpora, each in a folder, of a corpus of pairs


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, which it replaces if nothing fails. One that is replaced is
    there, or beside it as `.old`, until its successor is."""
    folder = Path(folder).resolve()
    new, old = (folder.with_name(folder.name + ending) for ending in (".new", ".old"))
    for path in (folder, new, old):
        if path.exists() and not _is_only_a_corpus(path):
            raise errors.CtxvecError(errors.FOLDER_IN_USE.format(folder=path))
    if old.exists() and not folder.exists():
        old.rename(folder)  # a build was killed between the two
    for path in (new, old):
        if path.exists():
            shutil.rmtree(path)  # left by a build that was killed
    new.mkdir(parents=True)
    try:
        yield new
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
    finally:
        for path in (new, old):
            shutil.rmtree(path, ignore_errors=True)


def _is_only_a_corpus(path: Path) -> bool:
    """Whether `path` is a folder with files of a corpus, or a part of them, and nothing else."""
    return path.is_dir() and all(map(_is_of_a_corpus, path.iterdir()))


def _is_of_a_corpus(path: Path) -> bool:
    own = (TYPES, COUNTS, OFFSETS, META)
    is_side = path.name in SIDES and _is_only_a_corpus(path)
    return path.name in own or path.name.startswith(SHARD) or is_side


class CorpusWriter:
    """Collects the tokens of chunk after chunk; `finish` writes what they are together."""

    def __init__(self, folder: Path, shard_tokens: int):
        self.pieces = PieceWriter(folder, shard_tokens)
        self.paragraphs: list[NDArray[np.uint64]] = []
        self.problems = Problems()
        self.n_documents = 0
        self.excluded: dict[int, Counter[str]] = {}

    @property
    def n_tokens(self) -> int:
        return self.pieces.n_tokens

    def add(self, tokenized: Tokenized, problems: Problems) -> None:
        self.pieces.add(tokenized.words, tokenized.ids, tokenized.lengths)
        self.paragraphs.append(tokenized.paragraphs)
        self.problems.add(problems)
        self.n_documents += len(tokenized.pieces)
        for file, n_tokens in tokenized.excluded:
            counter = self.excluded.setdefault(file, Counter())
            counter.update(documents=1, tokens=n_tokens)

    def finish(self, meta: dict[str, Any], evaluation: Sequence[Path]) -> None:
        """Write the rest of the folder, `meta` with what is known now; see `corpus` for it all.

        `evaluation` are the files that `Tokenized.excluded` numbers.
        """
        excluded = self._excluded(evaluation)
        if not self.n_tokens:
            message = errors.EMPTY_CORPUS.format(
                excluded=excluded["documents"], empty_files=self.problems.empty_files
            )
            raise errors.CtxvecError(message)
        known = {
            **self.pieces.write(),  # first: then the words, the most of it all, are gone
            "n_documents": self.n_documents,
            "problems": self.problems.as_dict()
            | {"duplicate_paragraphs": n_duplicates(self.paragraphs)},
            "excluded": excluded,
        }
        self.pieces.write_meta(meta | known)

    def _excluded(self, evaluation: Sequence[Path]) -> dict[str, Any]:
        """Documents and tokens left out, in all and by the file that each shares most with."""
        total = sum(self.excluded.values(), Counter())
        by_file = {}
        for number in sorted(self.excluded):
            path = evaluation[number].absolute()
            by_file[f"{path.parent.name}/{path.name}"] = dict(self.excluded[number])
        return {"documents": total["documents"], "tokens": total["tokens"], "by_file": by_file}


class PieceWriter:
    """Collects pieces of words and writes the corpus that they are; `meta` is its user's."""

    def __init__(self, folder: Path, shard_tokens: int):
        self.folder = folder
        self.shards = ShardWriter(folder, shard_tokens)
        self.rows: dict[str, int] = {}
        self.counts = np.zeros(1 << 16, dtype=np.int64)
        self.lengths: list[NDArray[np.int32]] = []
        self.n_tokens = 0

    def add(
        self, words: Sequence[str], token_words: NDArray[np.int32], lengths: NDArray[np.int32]
    ) -> None:
        """Append pieces of `lengths` (n_pieces,); `token_words` (n_tokens,) are rows of `words`."""
        rows = self.rows
        ids = np.array([rows.setdefault(w, len(rows)) for w in words], dtype=np.int32)
        if len(rows) > len(self.counts):
            self.counts = np.concatenate([self.counts, np.zeros(len(rows), dtype=np.int64)])
        self.counts[ids] += np.bincount(token_words, minlength=len(ids))
        self.shards.add(ids[token_words], lengths)
        self.lengths.append(lengths)
        self.n_tokens += len(token_words)

    def write(self) -> dict[str, Any]:
        """Write everything but `meta`, and return what of that is known now."""
        self.shards.flush()
        n_types = self._write_types()
        return {
            "format": FORMAT,
            "spacy": version("spacy"),
            "n_tokens": self.n_tokens,
            "n_pieces": self._write_offsets(),
            "n_types": n_types,
        }

    def write_meta(self, meta: dict[str, Any]) -> None:
        names = [TYPES, COUNTS, OFFSETS, *(path.name for path in self.shards.paths)]
        write_meta(self.folder, meta, names)

    def _write_types(self) -> int:
        """Replace ids in order of appearance by ids in order of frequency; the number of types."""
        words = list(self.rows)
        self.rows = {}
        counts = self.counts[: len(words)]
        by_word = np.argsort(np.array(words, dtype=object), kind="stable")
        order: IntArray = by_word[np.argsort(-counts[by_word], kind="stable")]
        new_ids = np.empty(len(words), dtype=np.int32)
        new_ids[order] = np.arange(len(words), dtype=np.int32) + len(SPECIALS)
        renumber(self.shards.paths, new_ids)
        np.save(self.folder / COUNTS, np.concatenate([[0] * len(SPECIALS), counts[order]]))
        with open(self.folder / TYPES, "w", encoding="utf8") as file:  # a list, one word a line
            file.write("[\n" + json.dumps(SPECIALS)[1:-1])
            file.writelines(f",\n{json.dumps(words[i], ensure_ascii=False)}" for i in order)
            file.write("\n]\n")
        return len(SPECIALS) + len(words)

    def _write_offsets(self) -> int:
        """The number of pieces."""
        offsets = np.zeros(sum(map(len, self.lengths)) + 1, dtype=np.int64)
        np.cumsum(np.concatenate(self.lengths), out=offsets[1:])
        np.save(self.folder / OFFSETS, offsets)
        return len(offsets) - 1


class ShardWriter:
    """Collects pieces and writes them as `ids-00000.npy`, ..., int32; no piece is in two shards.

    A shard has at most `shard_tokens` tokens, but for one with a single piece that is longer.
    """

    def __init__(self, folder: Path, shard_tokens: int = SHARD_TOKENS):
        self.folder = folder
        self.shard_tokens = shard_tokens
        self.paths: list[Path] = []
        self._parts: list[NDArray[np.int32]] = []
        self._n_tokens = 0

    def add(self, ids: NDArray[np.int32], lengths: NDArray[np.int32]) -> None:
        """Append pieces: `ids` (n_tokens,) of `lengths` (n_pieces,)."""
        ends = np.cumsum(lengths, dtype=np.int64)
        start = 0
        while start < len(ids):
            room = start + self.shard_tokens - self._n_tokens
            fitting = int(np.searchsorted(ends, room, side="right"))
            end = int(ends[fitting - 1]) if fitting else 0
            if end <= start and self._n_tokens:
                self.flush()
                continue
            if end <= start:
                end = int(ends[fitting])
            self._parts.append(ids[start:end])
            self._n_tokens += end - start
            start = end

    def flush(self) -> None:
        """Write what is collected, if anything is."""
        if self._parts:
            path = self.folder / f"{SHARD}{len(self.paths):05}.npy"
            np.save(path, np.concatenate(self._parts).astype(np.int32, copy=False))
            self.paths.append(path)
            self._parts, self._n_tokens = [], 0


def write_meta(folder: Path, meta: dict[str, Any], names: Sequence[str]) -> None:
    """Write `meta` with the fingerprints of the files `names`, paths within `folder`."""
    files = {name: fingerprint(folder / name) for name in names}
    text = json.dumps({**meta, "files": files}, indent=1, ensure_ascii=False)
    (folder / META).write_text(text, "utf8")


def renumber(paths: Sequence[Path], new_ids: NDArray[np.int32]) -> None:
    """Replace each id of each shard by `new_ids` of it, one shard at a time."""
    for path in paths:
        np.save(path, new_ids[np.load(path)])
