"""Write the results of all languages and shares into the README, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import typer

# isort: split
from cells import read_json
from console import run_script
from results import insert
from summary import render

from spacy_ctxvec.errors import CtxvecError

PROJECT = Path(__file__).resolve().parent.parent
SHARES = "shares"
TITLES = {
    "hash": "`HashEmbedCNN`",
    "ctxvec": "frozen `ctxvec`",
    "wo": "Wolof (WTB)",
    "ug": "Uyghur (UDT)",
    "en": "English (EWT)",
    "share-1": "frozen `ctxvec`, 1 % of the text",
    "share-5": "frozen `ctxvec`, 5 % of the text",
    "share-25": "frozen `ctxvec`, 25 % of the text",
}


def main(
    results: Annotated[Path, typer.Option(help="Folder of results")] = PROJECT / "results",
    readme: Annotated[Path, typer.Option(help="The file to change")] = PROJECT / "README.md",
) -> None:
    """Put the tables between the markers."""
    paths = sorted(results.glob("*.json"))
    if not paths:
        raise CtxvecError(f"Expected results in {results}, found none. Run `parse` first.")
    parts = [
        share_table(read_json(path)) if path.stem == SHARES else render(read_json(path), TITLES)
        for path in paths
    ]
    insert(readme, "\n\n".join(parts))


def share_table(rows: Sequence[dict[str, Any]]) -> str:
    """Held-out perplexity of the encoders of the shares."""
    header = "| share | tokens of text | trained on | forward | backward | unknown words |"
    lines = []
    for row in rows:
        perplexities = f"{row['forward']:.1f} | {row['backward']:.1f}"
        first = f"| {row['share']:g} % | {row['tokens']:,} | {row['trained']:,} | {perplexities}"
        lines.append(f"{first} | {row['unknown_rate']:.1%} |")
    title = "Perplexity on `text/heldout/enwiki-test` by share of the English text:"
    return "\n".join([title, "", header, f"|{'---|' * 6}", *lines])


if __name__ == "__main__":
    run_script(main)
