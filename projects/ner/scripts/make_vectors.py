"""Build a spaCy vectors directory from GloVe in which capitalised words find their row.

GloVe 6B is lower-cased, so nearly every name would miss its row, and the baseline with vectors
would be weaker than it needs to be. spaCy's `Vectors(attr="LOWER")` does not survive saving (spaCy
3.8 writes `attr` for floret vectors only), so each row is entered under four spellings instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import spacy
import typer
from console import run_script
from spacy.vectors import Vectors

from spacy_ctxvec.errors import CtxvecError


def main(
    source: Annotated[
        Path, typer.Argument(help="Folder with top100k.float16.npy, top100k.vocab.txt")
    ],
    output: Annotated[Path, typer.Argument(help="Where the vectors directory goes")],
) -> None:
    """Write a blank English pipeline whose vocab has the vectors."""
    nlp = spacy.blank("en")
    words, rows = read_glove(source)
    vectors = Vectors(strings=nlp.vocab.strings, data=rows, keys=words, name="glove")
    add_spellings(vectors, words)
    nlp.vocab.vectors = vectors
    nlp.to_disk(output)
    keys, (count, width) = len(vectors.key2row), rows.shape
    typer.echo(f"{output}: {count} vectors of width {width} under {keys} spellings")


def add_spellings(vectors: Vectors, words: Sequence[str]) -> None:
    """Let `London`, `LONDON` and `New-Yorker` find the row of their lower-case form."""
    for row, word in enumerate(words):
        for spelling in {word.capitalize(), word.upper(), word.title()} - {word}:
            if vectors.find(key=spelling) == -1:
                vectors.add(spelling, row=row)


def read_glove(folder: Path) -> tuple[list[str], np.ndarray]:
    """Read the words and their rows (words, width), as float32."""
    table, vocab = folder / "top100k.float16.npy", folder / "top100k.vocab.txt"
    for path in (table, vocab):
        if not path.is_file():
            raise CtxvecError(
                f"Expected the GloVe file {path}, found none. Run the `data` command."
            )
    rows = np.load(table, allow_pickle=False).astype("float32")
    words = vocab.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if len(words) != rows.shape[0]:
        raise CtxvecError(f"{vocab} has {len(words)} words, {table} has {rows.shape[0]} rows.")
    return words, rows


if __name__ == "__main__":
    run_script(main)
