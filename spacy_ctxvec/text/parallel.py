"""Pairs of a sentence and its translation, from files: TSV, JSON lines, two line-aligned files.

What cannot be used is left out and counted, never guessed at; files that hold no pairs, or whose
lines do not belong together, are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeGuard

from .. import errors
from .archives import uncompressed_name
from .lines import BAD_RECORD, LINES_BEFORE_REFUSAL, LineReader, Problems
from .sources import TEXT_ENDINGS, find_files

Name: TypeAlias = "Path | str"
# A file with both sides, or two line-aligned files: the source's and the target's.
PairSource: TypeAlias = "Name | tuple[Name, Name]"
Sides: TypeAlias = "tuple[str, str]"

PAIR_ENDINGS = TEXT_ENDINGS - {".spacy"} | {".tsv"}
COLUMNS = (0, 1)
KEYS = ("source", "target")
EMPTY_SIDE = "empty_side"
MAX_UNFIT_SHARE = 0.5


class Pair(NamedTuple):
    """A sentence and its translation, without white space around them, and "file, line n"."""

    source: str
    target: str
    place: str


def find_sources(sources: Iterable[PairSource]) -> list[Path | tuple[Path, Path]]:
    """The files that `sources` name.

    A name is a file, a glob, a folder or `-`, as in `find_files`. Of two names given as a pair,
    the first file of one belongs to the first of the other, and so on. Raises CtxvecError for
    names that match nothing, and for pairs that match different numbers of files.
    """
    found: list[Path | tuple[Path, Path]] = []
    for source in sources:
        if isinstance(source, (Path, str)):
            found += find_files([source], endings=PAIR_ENDINGS)
            continue
        if len(source) != 2:
            raise errors.CtxvecError(errors.BAD_PAIR_SOURCE.format(found=source))
        a, b = (find_files([name], endings=None) for name in source)
        if len(a) != len(b):
            message = errors.UNEVEN_SOURCES.format(
                source=source[0], target=source[1], n_source=len(a), n_target=len(b)
            )
            raise errors.CtxvecError(message)
        found += zip(a, b)
    return found


def read_pairs(
    sources: Iterable[PairSource],
    problems: Problems,
    *,
    columns: tuple[int, int] = COLUMNS,
    keys: tuple[str, str] = KEYS,
) -> Iterator[Pair]:
    """The pairs of all sources, one file after the other, read as a stream.

    sources: See `find_sources`. A file with both sides holds JSON lines if its name ends in
        .jsonl or its first line is a JSON object, and columns with tabs between them if not.
    problems: Is told what was left out: lines as `LineReader` does, lines without both columns
        or keys, pairs with an empty side.
    columns: Those of the source and of the target in a TSV, counted from 0.
    keys: Those of the source and of the target in JSON lines.

    Raises CtxvecError for files that cannot be read, that are not line-aligned, or in which more
    than half of the lines lack a side.
    """
    if min(columns) < 0:
        raise errors.CtxvecError(errors.BAD_COLUMNS.format(found=columns))
    return _pairs(find_sources(sources), problems, columns, keys)


def _pairs(
    sources: Sequence[Path | tuple[Path, Path]],
    problems: Problems,
    columns: tuple[int, int],
    keys: tuple[str, str],
) -> Iterator[Pair]:
    for source in sources:
        if isinstance(source, Path):
            name, pairs = source.name, _pairs_of_file(source, problems, columns, keys)
        else:
            name, pairs = source[0].name, _aligned_pairs(*source, problems)
        yield from _whole_pairs(pairs, name, problems)


def _whole_pairs(pairs: Iterable[Pair], name: str, problems: Problems) -> Iterator[Pair]:
    """Those with two sides; a file without any is noted in `problems`."""
    is_empty = True
    for pair in pairs:
        if pair.source and pair.target:
            is_empty = False
            yield pair
        else:
            problems.note(EMPTY_SIDE, pair.place)
    if is_empty:
        problems.empty_files.append(name)


def _aligned_pairs(source: Path, target: Path, problems: Problems) -> Iterator[Pair]:
    a, b = LineReader(source, problems), LineReader(target, problems)
    for left, right in zip_longest(a.in_place(), b.in_place()):
        if left is not None and right is not None:
            yield Pair(left, right, a.place)
    if a.number != b.number:
        message = errors.UNEVEN_LINES.format(
            source=source, target=target, n_source=a.number, n_target=b.number
        )
        raise errors.CtxvecError(message)


def _pairs_of_file(
    path: Path, problems: Problems, columns: tuple[int, int], keys: tuple[str, str]
) -> Iterator[Pair]:
    lines = LineReader(path, problems, strip=" \r\n")  # a tab may stand for an empty column
    form: Form | None = None
    for line in filter(None, lines):
        if form is None:
            form = Form.of(lines, line, columns, keys)
        sides = form.sides(line)
        if sides is not None:
            yield Pair(sides[0].strip(), sides[1].strip(), lines.place)
    if form is not None:
        form.refuse_if_unfit()


@dataclass
class Form:
    """How the lines of a file hold pairs, and how many of them do not."""

    lines: LineReader
    parse: Callable[[str], Sides | None]
    expected: str
    setting: str
    n_lines: int = 0
    n_unfit: int = 0
    first_unfit: int = 0

    @classmethod
    def of(
        cls, lines: LineReader, line: str, columns: tuple[int, int], keys: tuple[str, str]
    ) -> Form:
        """By the ending of the file, or else by its first line."""
        ending = Path(uncompressed_name(lines.path)).suffix
        if ending == ".jsonl" or (ending != ".tsv" and _record(line) is not None):
            expected = f'a JSON object with texts under "{keys[0]}" and "{keys[1]}"'
            return cls(lines, lambda line: _values(line, keys), expected, "keys")
        expected = f"columns {columns[0]} and {columns[1]}, counted from 0 and with tabs between"
        return cls(lines, lambda line: _cells(line, columns), expected, "columns")

    def sides(self, line: str) -> Sides | None:
        """Those of the present line; if it lacks one, None, and the line is counted."""
        sides = self.parse(line)
        self.n_lines += 1
        if sides is None:
            self.lines.problems.note(BAD_RECORD, self.lines.place)
            self.n_unfit += 1
            self.first_unfit = self.first_unfit or self.lines.number
        if self.n_lines == LINES_BEFORE_REFUSAL:
            self.refuse_if_unfit()
        return sides

    def refuse_if_unfit(self) -> None:
        if self.n_unfit > MAX_UNFIT_SHARE * self.n_lines:
            message = errors.NOT_PAIRS.format(
                path=self.lines.path,
                found=self.n_unfit,
                lines=self.n_lines,
                first=self.first_unfit,
                expected=self.expected,
                setting=self.setting,
            )
            raise errors.CtxvecError(message)


def _cells(line: str, columns: tuple[int, int]) -> Sides | None:
    cells = line.split("\t")
    return (cells[columns[0]], cells[columns[1]]) if max(columns) < len(cells) else None


def _values(line: str, keys: tuple[str, str]) -> Sides | None:
    source, target = map((_record(line) or {}).get, keys)
    return (source, target) if _is_text(source) and _is_text(target) else None


def _record(line: str) -> dict[str, object] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _is_text(value: object) -> TypeGuard[str]:
    """Whether it is a string that UTF-8 can hold and a file of text might."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf8")
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def sentences_of(sentences: Name | Collection[str], problems: Problems) -> frozenset[str]:
    """Sentences as they are given, or those of a file with one a line; `problems` are its own."""
    if not isinstance(sentences, (Path, str)):
        return frozenset(sentences)
    readers = [LineReader(path, problems) for path in find_files([sentences], endings=None)]
    return frozenset(filter(None, chain.from_iterable(readers)))
