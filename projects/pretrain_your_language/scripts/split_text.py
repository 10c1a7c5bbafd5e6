"""Raw text in, paragraphs out: one paragraph a line, a blank line between documents.

Every n-th document is held out of pretraining, to measure perplexity on. Read are plain text in
just that form (`*.txt`, without blank lines a line is a document of its own) and verses (`*.tsv`,
`book.chapter.verse TAB text`), of which a chapter becomes a document of one paragraph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
from console import run_script

from spacy_ctxvec.errors import CtxvecError

Document = list[str]
NOTES = ("LICENCE", "LICENSE", "README", "SOURCE", "SOURCES")  # lie beside a text


def main(
    source: Annotated[Path, typer.Argument(help="Folder with *.txt or *.tsv")],
    output: Annotated[Path, typer.Argument(help="Folder for train.txt and heldout.txt")],
    every: Annotated[int, typer.Option(help="Hold out every so many documents")] = 20,
) -> None:
    """Split the documents of a folder."""
    documents = list(read_documents(source))
    train, heldout = split(documents, every)
    output.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", train), ("heldout", heldout)):
        (output / f"{name}.txt").write_text(to_text(part), encoding="utf-8")
        words = sum(len(paragraph.split()) for document in part for paragraph in document)
        typer.echo(f"{output / name}.txt: {len(part):,} documents, {words:,} words")


def read_documents(folder: Path) -> Iterator[Document]:
    """The documents of all files of a folder, in the order of their names."""
    for path in sorted(folder.glob("*")):
        if path.suffix in READERS and path.stem.upper() not in NOTES:
            with path.open(encoding="utf-8") as lines:
                yield from READERS[path.suffix](lines)


def plain_documents(lines: Iterable[str]) -> list[Document]:
    """Documents of plain text: parted by blank lines, or single lines where there are none."""
    stripped = "\n".join(line.strip() for line in lines).strip("\n").split("\n")
    if all(stripped):
        return [[line] for line in stripped]
    return [list(group) for is_text, group in groupby(stripped, bool) if is_text]


def verse_documents(lines: Iterable[str]) -> list[Document]:
    """A document for each chapter, its verses joined."""
    verses = [line.strip().split("\t") for line in lines if line.strip()]
    if any(len(verse) != 2 for verse in verses):
        raise CtxvecError("Expected lines `book.chapter.verse TAB text` in the .tsv file.")
    chapters = groupby(verses, lambda verse: verse[0].rpartition(".")[0])
    return [[" ".join(text for _, text in chapter)] for _, chapter in chapters]


def split(documents: Sequence[Document], every: int) -> tuple[list[Document], list[Document]]:
    """Training and held-out documents; one of every `every` is held out, spread over the text."""
    if not 2 <= every <= len(documents):
        raise CtxvecError(
            f"Cannot hold out one of every {every} documents of {len(documents)}: part the text "
            "into documents by blank lines, or use another --every."
        )
    train = [document for i, document in enumerate(documents) if (i + 1) % every]
    return train, list(documents[every - 1 :: every])


def to_text(documents: Iterable[Document]) -> str:
    return "\n\n".join("\n".join(document) for document in documents) + "\n"


READERS = {".txt": plain_documents, ".tsv": verse_documents}

if __name__ == "__main__":
    run_script(main)
