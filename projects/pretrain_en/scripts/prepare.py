"""Convert what encoders are compared on: WikiGold in folds, WNUT-17, BC5CDR and UD English EWT."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
import convert
import treebank
from console import run_script


def main(
    assets: Annotated[Path, typer.Argument(help="Folder with one folder per data set")],
    output: Annotated[Path, typer.Argument(help="Where the .spacy files go")],
) -> None:
    """Write OUTPUT/CORPUS/FOLD/{train,dev,test}.spacy."""
    convert.main(assets, output)
    # In its own split, as WNUT-17; its abstracts are not marked, so a sentence is a unit.
    convert.write_split(convert.read_wnut17(assets / "bc5cdr"), output / "bc5cdr" / "0")
    treebank.main(assets / "ewt", output / "ewt" / "0")


if __name__ == "__main__":
    run_script(main)
