"""Build a spaCy vectors directory from GloVe, looked up by lower-case form.

GloVe 6B is lower-cased. Without `attr="LOWER"` every capitalised word, so nearly every name, would
miss its row, and the baseline with vectors would be weaker than it needs to be.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import spacy
import typer
from spacy.vectors import Vectors

from spacy_ctxvec.errors import CtxvecError


def main(
    source: Path = typer.Argument(..., help="Folder with top100k.float16.npy, top100k.vocab.txt"),
    output: Path = typer.Argument(..., help="Where the vectors directory goes"),
) -> None:
    """Write a blank English pipeline whose vocab has the vectors."""
    nlp = spacy.blank("en")
    words, rows = read_glove(source)
    nlp.vocab.vectors = Vectors(
        strings=nlp.vocab.strings, data=rows, keys=words, name="glove", attr="LOWER"
    )
    nlp.to_disk(output)
    typer.echo(f"{output}: {rows.shape[0]} vectors of width {rows.shape[1]}")


def read_glove(folder: Path) -> tuple[list[str], np.ndarray]:
    """Read the words and their rows (words, width), as float32."""
    table, vocab = folder / "top100k.float16.npy", folder / "top100k.vocab.txt"
    for path in (table, vocab):
        if not path.is_file():
            raise CtxvecError(f"Expected the GloVe file {path}, found none. Run the `data` command.")
    rows = np.load(table, allow_pickle=False).astype("float32")
    words = vocab.read_text(encoding="utf-8").rstrip("\n").split("\n")
    if len(words) != rows.shape[0]:
        raise CtxvecError(f"{vocab} has {len(words)} words, {table} has {rows.shape[0]} rows.")
    return words, rows


if __name__ == "__main__":
    typer.run(main)
