"""Check that the patterns of exclude.txt name the files that the shipped encoder was kept off.

python scripts/exclude.py [--names]
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
from console import run_script
from write_config import read_patterns

from spacy_ctxvec import errors
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.sources import find_files

PATTERNS = Path(__file__).resolve().parent.parent / "exclude.txt"
# Of the run that made the shipped encoder.
N_FILES = 310
DIGEST = "7b3d31d99d2160d22c40d2ef8ac875c0e143864e4fc59b12947d8fd5f469a065"


def main(
    data: Annotated[Path, typer.Option(help="Folder of data sets", envvar="CTXVEC_DATA")],
    names: Annotated[bool, typer.Option(help="Print the names of the files")] = False,
) -> None:
    """Find the files and compare."""
    found = excluded(data)
    if names:
        typer.echo("\n".join(found))
    if (len(found), digest(found)) != (N_FILES, DIGEST):
        raise CtxvecError(
            f"The patterns of exclude.txt name {len(found)} files in {data}; expected were the "
            f"{N_FILES} of the shipped encoder. Other data sets than there, or changed patterns?"
        )
    typer.echo(f"{len(found)} evaluation files, those that the shipped encoder was kept off.")


def excluded(data: Path) -> list[str]:
    """Names of the files, relative to the folder of data sets, sorted."""
    files = find_files(read_patterns(PATTERNS), data, endings=None, message=errors.NO_TEXT_FILES)
    return sorted({path.relative_to(data).as_posix() for path in files})


def digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8")).hexdigest()


if __name__ == "__main__":
    run_script(main)
