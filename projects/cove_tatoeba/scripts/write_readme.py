"""Write BLEU, sample translations and the comparison into the README of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import typer

# isort: split
from cells import read_json
from compare import TITLES
from console import run_script
from results import insert
from summary import render

from spacy_ctxvec.errors import CtxvecError

BLEU = "bleu"


def main(
    results: Annotated[Path, typer.Option(help="Folder of results")] = Path("results"),
    readme: Annotated[Path, typer.Option(help="The file to change")] = Path("README.md"),
    samples: Annotated[
        bool, typer.Option(help="Sample translations too: not of text that may not be passed on")
    ] = True,
) -> None:
    """Put the tables between the markers."""
    paths = [results / f"{name}.json" for name in (BLEU, "wikigold", "sst5")]
    parts = [
        bleu_part(read_json(path), samples)
        if path.stem == BLEU
        else render(read_json(path), TITLES)
        for path in paths
        if path.is_file()
    ]
    if not parts:
        raise CtxvecError(f"Expected results in {results}, found none. Run `bleu` or `compare`.")
    insert(readme, "\n\n".join(parts))


def bleu_part(record: Mapping[str, Any], samples: bool) -> str:
    """BLEU, how it was measured, the time of training and, where they are wanted, the samples."""
    text = (
        f"BLEU {record['bleu']:.1f} on {record['n_pairs']:,} pairs, perplexity "
        f"{record['perplexity']:.1f}, {record['unknown_rate']:.1%} of the target words unknown; "
        f"beam {record['beam']}, length penalty {record['length_penalty']:g}, "
        f"`{record['signature']}`."
    )
    if "train_seconds" in record:
        text += (
            f" Training: {record['train_seconds'] / 3600:.1f} h, {record['train_steps']:,} steps, "
            f"{record['train_tokens'] / 1e6:.1f} M tokens."
        )
    if not samples:
        return text
    title = "Translations of pairs evenly spaced over the test pairs:"
    return "\n\n".join([text, title, sample_table(record["samples"])])


def sample_table(samples: Sequence[Mapping[str, str]]) -> str:
    columns = ("source", "reference", "translation")
    rows = [[sample[column].replace("|", r"\|") for column in columns] for sample in samples]
    return "\n".join(
        [f"| {' | '.join(columns)} |", f"|{'---|' * len(columns)}"]
        + [f"| {' | '.join(row)} |" for row in rows]
    )


if __name__ == "__main__":
    run_script(main)
