"""Write the tables of results.json between the markers of README.md."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "ner" / "scripts"))

from speed_table import Group, speed_table, write_tables

ABOUT = "{words:,} words in {sentences:,} sentences of WikiGold."

TITLES = {
    "small": "The sizes of ELMo's small model, random weights",
    "original": "The sizes of ELMo's original model, random weights",
    "encoders": "Encoders alone",
    "NER": "Whole pipelines with NER",
}


def main(
    results: Annotated[Path, typer.Argument(help="What `measure` wrote")],
    readme: Annotated[Path, typer.Argument(help="The file to change")],
) -> None:
    """Put the tables between the markers."""
    write_tables(results, readme, ABOUT, table)


def table(group: Group) -> str:
    """Speeds of one group, and their ratios to its first system."""
    name, found = group
    about = f"{found['date']}, median of {found['rounds']} passes after a warm-up."
    lines = [f"### {TITLES[name]}", "", about, ""]
    if found["largest_difference"] is not None:
        lines += [
            f"Vectors differ from AllenNLP's by {found['largest_difference']:.1e} at most.",
            "",
        ]
    return "\n".join([*lines, *speed_table(found["speeds"])])


if __name__ == "__main__":
    typer.run(main)
