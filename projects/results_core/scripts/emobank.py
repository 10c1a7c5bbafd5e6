"""EmoBank's sentences in classes of valence, cut at the quintiles of the training sentences.

Many sentences are rated 3.0 exactly, so that two of the four cuts are one: there are four classes.
"""

from __future__ import annotations

import bz2
import csv
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import numpy as np
import spacy
import srsly
import typer

# isort: split
from console import run_script
from spacy.tokens import DocBin

PARTS = ("train", "dev", "test")


def main(
    source: Annotated[Path, typer.Argument(help="corpus_emobank.csv.bz2")],
    folder: Annotated[Path, typer.Argument(help="Where train, dev and test.spacy go")],
) -> None:
    """Convert, and write down where the classes are cut."""
    text = bz2.decompress(source.read_bytes()).decode("utf8")
    rows = [row for row in csv.DictReader(text.splitlines(keepends=True)) if row["text"].strip()]
    valence = [float(row["V"]) for row in rows if row["split"] == "train"]
    cuts = np.unique(np.quantile(valence, [0.2, 0.4, 0.6, 0.8]))
    folder.mkdir(parents=True, exist_ok=True)
    srsly.write_json(folder / "cuts.json", [float(cut) for cut in cuts])
    nlp = spacy.blank("en")
    for part in PARTS:
        docs = DocBin()
        for row in rows:
            if row["split"] == part:
                doc = nlp.make_doc(row["text"].strip())
                found = int(np.searchsorted(cuts, float(row["V"]), side="right"))
                doc.cats = {f"valence {i}": float(i == found) for i in range(len(cuts) + 1)}
                docs.add(doc)
        docs.to_disk(folder / f"{part}.spacy")
        typer.echo(f"{folder / part}: {len(docs)} sentences")


if __name__ == "__main__":
    run_script(main)
