"""A treebank of Universal Dependencies as `.spacy` files, a Doc for each sentence.

The words are the syntactic ones, as `spacy convert` takes them: contractions are parted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
from console import run_script
from spacy.tokens import DocBin
from spacy.training.converters import conllu_to_docs

from spacy_ctxvec.errors import CtxvecError

PARTS = ("train", "dev", "test")


def main(
    source: Annotated[Path, typer.Argument(help="Folder with *-{train,dev,test}.conllu")],
    output: Annotated[Path, typer.Argument(help="Folder for {train,dev,test}.spacy")],
) -> None:
    """Convert the three parts."""
    output.mkdir(parents=True, exist_ok=True)
    for part in PARTS:
        text = find_part(source, part).read_text(encoding="utf-8")
        docs = list(conllu_to_docs(text, n_sents=1, no_print=True))
        DocBin(docs=docs).to_disk(output / f"{part}.spacy")
        words = sum(map(len, docs))
        typer.echo(f"{output / part}.spacy: {len(docs):,} sentences, {words:,} words")


def find_part(folder: Path, part: str) -> Path:
    """The one file of a part: treebanks name them `xx_name-ud-train.conllu`."""
    found = sorted(folder.glob(f"*-{part}*.conllu"))
    if len(found) != 1:
        raise CtxvecError(
            f"Expected one file *-{part}*.conllu in {folder}, found {len(found)}. Is it a treebank "
            "of Universal Dependencies, and has the `data` command run?"
        )
    return found[0]


if __name__ == "__main__":
    run_script(main)
