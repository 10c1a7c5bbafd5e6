"""Write the tables of results.json between the markers of README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import typer

# isort: split
from console import run_script
from results import insert
from speed_table import speed_table

from spacy_ctxvec.errors import CtxvecError

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
    if not results.is_file():
        raise CtxvecError(f"Expected speeds in {results}, found none. Run `measure` first.")
    record = srsly.read_json(results)
    insert(readme, "\n\n".join([about(record), *map(table, record["groups"].items())]))


def about(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return (
        f"{record['device']}; {machine['processor']}, {machine['threads']} threads; "
        f"{record['date']}, torch {machine['torch']}, spaCy {machine['spacy']}, Thinc "
        f"{machine['thinc']}, Python {machine['python']}."
    )


def table(group: tuple[str, dict[str, Any]]) -> str:
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
