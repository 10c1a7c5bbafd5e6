"""Documents from files: plain text, JSON lines and spaCy's DocBin, mixed evenly.

A document is a list of paragraphs; a paragraph is text, or the words of a text that its file has
tokenised already.
"""

from __future__ import annotations

import glob
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from .. import errors
from .archives import OPENERS, STANDARD_INPUT, open_bytes, uncompressed_name
from .lines import BAD_RECORD, MAX_CHARACTERS, TOO_LONG, LineReader, Problems

if TYPE_CHECKING:
    from spacy.tokens import Doc

Paragraph: TypeAlias = "str | list[str]"
Document: TypeAlias = "list[Paragraph]"

TEXT_ENDINGS = frozenset({".txt", ".jsonl", ".spacy", *OPENERS})
MAX_PARAGRAPHS = 1000  # of a document in plain text, where nobody may have marked documents
MAX_RECORD_CHARACTERS = 1 << 24  # of a line of JSON, which may be a whole book
MAX_OPEN_FILES = 64


def find_files(
    patterns: Iterable[Path | str],
    folder: Path = Path(),
    *,
    endings: frozenset[str] | None = TEXT_ENDINGS,
    message: str = errors.NO_FILES,
) -> list[Path]:
    """The files that `patterns` name, relative to `folder`, each once, in the order of patterns.

    A pattern is a file, a glob, a folder (all files in it with one of `endings`, sorted; any
    ending if None), or `-` for standard input. One that matches nothing raises CtxvecError with
    `message`.
    """
    found: dict[Path, None] = {}
    for pattern in map(str, patterns):
        matches = list(_matches(pattern, folder, endings))
        if not matches:
            raise errors.CtxvecError(message.format(patterns=[pattern], folder=folder))
        found.update(dict.fromkeys(matches))
    return list(found)


def _matches(pattern: str, folder: Path, endings: frozenset[str] | None) -> Iterator[Path]:
    if pattern == STANDARD_INPUT:
        yield Path(pattern)
        return
    name = str(Path(pattern).expanduser())
    exists = (folder / name).exists()  # its name may hold brackets, which a glob would take apart
    for match in [name] if exists else sorted(glob.glob(name, root_dir=folder, recursive=True)):
        path = folder / match
        if path.is_dir():
            inside = (inner for inner in sorted(path.rglob("*")) if inner.is_file())
            yield from (i for i in inside if endings is None or i.suffix in endings)
        else:
            yield path


def mixed_documents(paths: Sequence[Path], problems: Problems) -> Iterator[Document]:
    """One document from each file in turn, so that any prefix is a sample of all of them.

    At most 64 files are open at a time; of more files, the first are spread over the whole list.
    """
    step = -(-len(paths) // MAX_OPEN_FILES) or 1
    waiting = chain.from_iterable(paths[start::step] for start in range(step))
    streams = [read_documents(path, problems) for path in islice(waiting, MAX_OPEN_FILES)]
    while streams:
        turn, streams = streams, []
        for stream in turn:
            document = next(stream, None)
            while document is None and (path := next(waiting, None)) is not None:
                stream = read_documents(path, problems)
                document = next(stream, None)
            if document is not None:
                streams.append(stream)
                yield document


def read_documents(path: Path, problems: Problems) -> Iterator[Document]:
    """The documents of one file, by its ending; a file without any is noted in `problems`."""
    ending = Path(uncompressed_name(path)).suffix
    reader = {".jsonl": _jsonl_documents, ".spacy": _docbin_documents}.get(ending, _text_documents)
    is_empty = True
    for document in reader(path, problems):
        is_empty = False
        yield document
    if is_empty:
        problems.empty_files.append(path.name)


def _text_documents(path: Path, problems: Problems) -> Iterator[Document]:
    """A document ends at a blank line, or after 1,000 paragraphs."""
    paragraphs: Document = []
    for line in LineReader(path, problems):
        if line:
            paragraphs.append(line)
        if paragraphs and (not line or len(paragraphs) == MAX_PARAGRAPHS):
            yield paragraphs
            paragraphs = []
    if paragraphs:
        yield paragraphs


def _jsonl_documents(path: Path, problems: Problems) -> Iterator[Document]:
    """Each record is a document; the lines of its "text" are the paragraphs."""
    lines = LineReader(path, problems, MAX_RECORD_CHARACTERS)
    for line in filter(None, lines):
        text = _record_text(line)
        if text is None:
            lines.bad(BAD_RECORD)
            continue
        paragraphs: Document = []
        for paragraph in filter(None, map(str.strip, text.split("\n"))):
            if len(paragraph) > MAX_CHARACTERS:
                problems.note(TOO_LONG, f"{path.name}, line {lines.number}")
            else:
                paragraphs.append(paragraph)
        if paragraphs:
            yield paragraphs


def _record_text(line: str) -> str | None:
    """The text of a record, None if there is none, or one that is no text in UTF-8."""
    try:
        text = json.loads(line)["text"]
        return None if b"\0" in text.encode("utf8") else text
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _docbin_documents(path: Path, problems: Problems) -> Iterator[Document]:
    """The words of each Doc, as they are; a DocBin has to be read whole."""
    from spacy.tokens import DocBin
    from spacy.vocab import Vocab

    with open_bytes(path) as file:
        data = file.read()
    try:
        docs = DocBin().from_bytes(data).get_docs(Vocab())
        yield from filter(None, map(_doc_paragraphs, docs))
    except Exception as error:  # what broken msgpack raises is anybody's guess
        raise errors.CtxvecError(errors.BAD_DOCBIN.format(path=path, error=error)) from error


def _doc_paragraphs(doc: Doc) -> Document:
    """The Doc's words without white space, which ends a paragraph where it holds a line break.

    Within a word, as of merged names, white space is one space: vocabularies have a word a line.
    """
    paragraphs: list[list[str]] = [[]]
    for token in doc:
        if not token.text.isspace():
            paragraphs[-1].append(" ".join(token.text.split()))
        elif "\n" in token.text:
            paragraphs.append([])
    return [paragraph for paragraph in paragraphs if paragraph]
