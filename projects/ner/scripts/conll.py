"""Read named entities from CoNLL columns: the word first, the tag last, a blank line per sentence.

Both spellings of tags are read: BIO (`B-LOC I-LOC`) and plain IO (`I-LOC`), as in the original
WikiGold. Documents matter because cross-validation must not split them, so each sentence carries
the number of its document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy_ctxvec.errors import CtxvecError

DOCUMENT_START = "-DOCSTART-"
Entity = tuple[int, int, str]


@dataclass(frozen=True)
class Sentence:
    """One sentence: its words, its entities as token offsets, and the number of its document."""

    words: tuple[str, ...]
    entities: tuple[Entity, ...]
    document: int = 0


def read_conll(path: Path) -> list[Sentence]:
    """Read a file. `-DOCSTART-` lines part documents, which are counted from 0.

    path (Path): The file, UTF-8.
    RETURNS (list[Sentence]): Its sentences, in order.
    """
    if not path.is_file():
        raise CtxvecError(
            f"Expected a CoNLL file at {path}, found none. Run the `data` command first."
        )
    sentences: list[Sentence] = []
    document = 0
    with path.open(encoding="utf-8") as lines:
        for rows in _blocks(lines):
            if rows[0][0] == DOCUMENT_START:
                document = sentences[-1].document + 1 if sentences else 0
                rows = rows[1:]
            if rows:
                sentences.append(_sentence(rows, document))
    return sentences


def has_document_marks(path: Path) -> bool:
    """Whether the file itself says where documents start."""
    with path.open(encoding="utf-8") as lines:
        return any(line.startswith(DOCUMENT_START) for line in lines)


def bio_entities(tags: Sequence[str]) -> list[Entity]:
    """Turn tags into (start, end, label); an `I-` that continues nothing starts an entity."""
    entities: list[Entity] = []
    previous = "O"
    for i, tag in enumerate(tags):
        label = tag[2:]
        if tag != "O" and entities and tag[0] == "I" and previous[2:] == label:
            start, _, _ = entities.pop()
            entities.append((start, i + 1, label))
        elif tag != "O":
            entities.append((i, i + 1, label))
        previous = tag
    return entities


def _blocks(lines: Iterable[str]) -> Iterator[list[list[str]]]:
    """Yield the rows of each sentence; a line of white space alone ends one."""
    rows: list[list[str]] = []
    for line in lines:
        if line.strip():
            rows.append(line.split())
        elif rows:
            yield rows
            rows = []
    if rows:
        yield rows


def _sentence(rows: Sequence[Sequence[str]], document: int) -> Sentence:
    if any(len(row) < 2 for row in rows):
        raise CtxvecError(f"Expected a word and a tag on each line, found {rows!r}.")
    entities = bio_entities([row[-1] for row in rows])
    return Sentence(tuple(row[0] for row in rows), tuple(entities), document)
