"""The scores of results.json as one small table: a row a system, a column a task.

    python scripts/overview.py results.json ../../README.md

What has no score stays empty.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import typer

# isort: split
from console import run_script
from representations import SYSTEMS
from results import insert

from spacy_ctxvec.errors import CtxvecError

COLUMNS = {
    ("wikigold", "F"): "WikiGold, F",
    ("wnut17", "F"): "WNUT-17, F",
    ("bc5cdr", "F"): "BC5CDR, F",
    ("ewt", "tag"): "EWT, tags",
    ("ewt", "LAS"): "EWT, LAS",
    ("emobank", "accuracy"): "EmoBank, accuracy",
}
PARTS = {"wikigold": "wikigold_0"}
"""Where a system has no score of a whole corpus, that of this part may be there."""
START, END = "<!-- representations:start -->", "<!-- representations:end -->"


def main(
    results: Annotated[Path, typer.Argument(help="What `core` wrote")],
    readme: Annotated[Path, typer.Argument(help="The file to change")],
) -> None:
    """Put the table between the markers."""
    if not results.is_file():
        raise CtxvecError(f"Expected scores in {results}, found none. Run `core` first.")
    insert(readme, render(srsly.read_json(results)), START, END)


def render(report: Mapping[str, Any]) -> str:
    """Means over seeds and their standard deviations; a dagger for the first fold alone."""
    scores = {(s["corpus"], s["system"], s["measure"]): s for s in report["scores"]}
    rows: list[Sequence[str]] = [["the heads read", *COLUMNS.values()]]
    rows.append(["---"] * len(rows[0]))
    for system, known in SYSTEMS.items():
        cells = [cell(scores, corpus, system, measure) for corpus, measure in COLUMNS]
        if any(cells):
            rows.append([known.title, *cells])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def cell(scores: Mapping[Any, Mapping[str, Any]], corpus: str, system: str, measure: str) -> str:
    for name, mark in ((corpus, ""), (PARTS.get(corpus, ""), " †")):
        score = scores.get((name, system, measure))
        if score is not None:
            return f"{100 * score['mean']:.1f} ± {100 * score['deviation']:.1f}{mark}"
    return ""


if __name__ == "__main__":
    run_script(main)
