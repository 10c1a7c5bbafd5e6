"""Write the tables of results.json between the markers of README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer

# isort: split
from console import run_script
from speed_table import Group, speed_table, write_tables

TITLES = {
    "encode": "Encoding, the shipped model",
    "encode_original": "Encoding, the sizes of ELMo's original model, random weights",
    "ner": "Training of NER on the shipped model",
    "pretrain": "Pretraining, sizes and recipe of the shipped model",
    "pretrain_original": "Pretraining, ELMo's small sizes and the recipe of its paper",
}


def main(
    results: Annotated[Path, typer.Argument(help="What `measure` wrote")],
    readme: Annotated[Path, typer.Argument(help="The file to change")],
) -> None:
    """Put the tables between the markers."""
    write_tables(results, readme, "{device}, {date}.", table)


def table(group: Group) -> str:
    """Speeds of one group, and what failed."""
    name, found = group
    lines = [f"### {TITLES[name]}", ""]
    lines += [f"{found['words']:,} words a pass, median of {found['rounds']} after a warm-up.", ""]
    if found["speeds"]:
        lines += speed_table(found["speeds"])
    failed = [f"- {system} failed: {said}" for system, said in found["failed"].items()]
    return "\n".join([*lines, *([""] * bool(failed)), *failed])


if __name__ == "__main__":
    run_script(main)
