"""Write a pretraining config: another one with some settings changed, and texts to leave out.

What a run was made with then lies beside it, in one file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import typer

# isort: split
from console import run_script
from thinc.api import Config

from spacy_ctxvec.errors import CtxvecError


def main(
    base: Annotated[Path, typer.Argument(help="The config to start from")],
    output: Annotated[Path, typer.Argument(help="The config to write")],
    change: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE, as training.epochs=20")
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(help="File with patterns of evaluation texts, one a line")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder of the patterns", envvar="CTXVEC_DATA")
    ] = None,
) -> None:
    """Write the config."""
    config = Config().from_disk(base)
    for setting in change or []:
        set_value(config["pretrain"], setting)
    if exclude is not None:
        if data is None:
            raise CtxvecError("--exclude needs --data, or the environment variable CTXVEC_DATA.")
        config["pretrain"]["exclude"] = [str(data / name) for name in read_patterns(exclude)]
    output.parent.mkdir(parents=True, exist_ok=True)
    config.to_disk(output)


def set_value(section: dict[str, Any], setting: str) -> None:
    """Change `NAME=VALUE`; the name is dotted, the value JSON or else a string."""
    name, equals, text = setting.partition("=")
    *sections, last = name.split(".")
    for part in sections:
        section = section.get(part, {})
    if not equals or last not in section:
        raise CtxvecError(f"--set {setting}: expected NAME=VALUE, and a NAME that the config has.")
    try:
        section[last] = json.loads(text)
    except ValueError:
        section[last] = text


def read_patterns(path: Path) -> list[str]:
    """The lines of a file of patterns, without comments and blank ones."""
    lines = map(str.strip, path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


if __name__ == "__main__":
    run_script(main)
