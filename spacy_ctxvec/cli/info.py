"""`spacy ctxvec info`: what the shipped model, another model or a pipeline is, and the machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..analysis.facts import file_facts, machine_facts, model_facts, pipeline_facts
from ..formats.detect import load_model
from ..formats.native import WEIGHTS_FILE
from ..training.pretrain import SHIPPED, model_folder
from .opening import is_pipeline, load_pipeline


def info_cli(
    path: Annotated[
        str | None,
        typer.Argument(help="Model folder or file, or saved pipeline; default: the shipped model"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show sizes, training, licence and file of a model, or the encoders of a pipeline."""
    report = about(path)
    if json:
        typer.echo(srsly.json_dumps(report, indent=2))
        return
    console = Console(highlight=False)
    for title, facts in report.items():
        console.print(Text(f"\n{title}", style="bold"))
        console.print(_table(facts))


def about(path: str | None) -> dict[str, dict[str, Any]]:
    """`model` or `pipeline`, and `machine`: facts by name."""
    if path is not None and is_pipeline(path):
        return {"pipeline": pipeline_facts(load_pipeline(path)), "machine": machine_facts()}
    place = model_folder(Path(path or SHIPPED))
    facts = {"path": str(place), **model_facts(load_model(place))}
    weights = place / WEIGHTS_FILE if place.is_dir() else place
    if weights.is_file():
        facts.update(file_facts(weights))
    return {"model": facts, "machine": machine_facts()}


def _table(facts: dict[str, Any]) -> Table:
    """One line a fact; those of a nested fact are indented below its name."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="dim")
    table.add_column(overflow="fold")
    for depth, name, value in _lines(facts):
        table.add_row(Text("  " * depth + name.removeprefix("n_").replace("_", " ")), Text(value))
    return table


def _lines(facts: dict[str, Any], depth: int = 0) -> list[tuple[int, str, str]]:
    lines = []
    for name, value in facts.items():
        if isinstance(value, dict):
            lines.append((depth, name, "" if value else "none"))
            lines += _lines(value, depth + 1)
        else:
            lines.append((depth, name, _in_words(value)))
    return lines


def _in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        parts = (f"({_in_words(v)})" if isinstance(v, list) else _in_words(v) for v in value)
        return ", ".join(parts) or "none"
    return str(value)
