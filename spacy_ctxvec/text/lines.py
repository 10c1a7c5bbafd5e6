"""The lines of a file of text, checked: bad ones are dropped and counted, never guessed at.

`Problems` are the counts, with the first few places of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path
from typing import IO, Any

from .. import errors
from .archives import open_bytes

NOT_UTF8 = "not_utf8"
NUL_BYTES = "nul_bytes"  # UTF-16, or no text at all
BAD_RECORD = "bad_record"
TOO_LONG = "too_long"
CONTROL = "control_characters"
KINDS = (NOT_UTF8, NUL_BYTES, BAD_RECORD, TOO_LONG, CONTROL)
MAX_PLACES = 5

MAX_CHARACTERS = 100_000  # of a line; longer ones are data, not prose
BLOCK = 1 << 16
MAX_BAD_SHARE = 0.01
# A file that is in another encoding is refused after this many lines, not at its end.
LINES_BEFORE_REFUSAL = 10_000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CONTROL_BYTES = bytes(b for b in range(0x20) if b not in b"\t\n\v\f\r") + b"\x7f"


@dataclass
class Problems:
    """Lines of each kind of problem; `places` are "file, line n" of the first of each kind."""

    counts: Counter[str] = field(default_factory=Counter)
    places: dict[str, list[str]] = field(default_factory=dict)
    empty_files: list[str] = field(default_factory=list)

    def note(self, kind: str, place: str) -> None:
        self.counts[kind] += 1
        self._keep(kind, [place])

    def add(self, other: Problems) -> None:
        self.counts.update(other.counts)
        self.empty_files += other.empty_files
        for kind, places in other.places.items():
            self._keep(kind, places)

    def take(self) -> Problems:
        """What was noted since the last time; what is left is empty."""
        taken = Problems(self.counts, self.places, self.empty_files)
        self.counts, self.places, self.empty_files = Counter(), {}, []
        return taken

    def as_dict(self, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
        return {
            **{kind: self.counts[kind] for kind in kinds},
            "empty_files": self.empty_files,
            "places": {kind: self.places[kind] for kind in kinds if kind in self.places},
        }

    def _keep(self, kind: str, places: list[str]) -> None:
        kept = self.places.setdefault(kind, [])
        kept += places[: MAX_PLACES - len(kept)]


class LineReader:
    """One file's lines, with the count of those that could not be used.

    A file with more bad lines than `max_bad_share` raises CtxvecError: it is something else than it
    seems.
    `strip` are the characters that both ends of a line lose; None is all white space.
    """

    def __init__(
        self,
        path: Path,
        problems: Problems,
        max_characters: int = MAX_CHARACTERS,
        strip: str | None = None,
        max_bad_share: float = MAX_BAD_SHARE,
    ):
        self.path = path
        self.problems = problems
        self.max_characters = max_characters
        self.strip = strip
        self.max_bad_share = max_bad_share
        self.number = 0
        self._n_bad = 0
        self._first_bad = 0

    @property
    def place(self) -> str:
        """Where the present line stands."""
        return f"{self.path.name}, line {self.number}"

    def __iter__(self) -> Iterator[str]:
        """Lines without white space around them; blank ones are empty."""
        max_bytes = 4 * self.max_characters + 8  # as long as UTF-8 can be, with a line break
        with open_bytes(self.path) as file:
            while raw := file.readline(max_bytes):
                self.number += 1
                if self.number == 1:
                    raw = raw.removeprefix(BYTE_ORDER_MARK)
                if len(raw) == max_bytes and not raw.endswith(b"\n"):
                    _skip_line(file)
                    self._note(TOO_LONG)
                elif (line := self._checked(raw)) is not None:
                    yield line
        self._refuse_if_bad()

    def in_place(self) -> Iterator[str | None]:
        """Every line, so that line n is the n-th: None for one that is dropped."""
        n_told = 0
        for line in self:
            yield from repeat(None, self.number - n_told - 1)
            yield line
            n_told = self.number
        yield from repeat(None, self.number - n_told)

    def bad(self, kind: str) -> None:
        """Count the present line as bad."""
        self._note(kind)
        self._n_bad += 1
        self._first_bad = self._first_bad or self.number
        if self.number >= LINES_BEFORE_REFUSAL:
            self._refuse_if_bad()

    def _checked(self, raw: bytes) -> str | None:
        try:
            line = raw.decode("utf8").strip(self.strip)
        except UnicodeDecodeError:
            return self.bad(NOT_UTF8)
        if len(raw.translate(None, CONTROL_BYTES)) != len(raw):
            if b"\0" in raw:
                return self.bad(NUL_BYTES)
            self._note(CONTROL)
        if len(line) > self.max_characters:
            return self._note(TOO_LONG)
        return line

    def _note(self, kind: str) -> None:
        self.problems.note(kind, self.place)

    def _refuse_if_bad(self) -> None:
        if self._n_bad > self.max_bad_share * self.number:
            message = errors.BAD_LINES.format(
                path=self.path, found=self._n_bad, lines=self.number, first=self._first_bad
            )
            raise errors.CtxvecError(message)


def _skip_line(file: IO[bytes]) -> None:
    while block := file.readline(BLOCK):
        if block.endswith(b"\n"):
            return
