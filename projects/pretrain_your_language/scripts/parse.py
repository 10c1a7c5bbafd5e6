"""Train tagger and parser on hash embeddings and on frozen encoders, and write what they score.

    python scripts/parse.py TREEBANK --name wo --lang xx --encoder wo=work/model

Trainings that are done are not done again; where some fail, what is complete is still reported.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import srsly
import typer

# isort: split
from console import run_script
from parsing import HASH, by_seed, named_encoders, parse_counts, parse_trainings
from shares import share_models
from summary import make_report, read_results, render, score_systems
from trainings import Training, train_all, train_in_process

NOTE = (
    "Error: standard error of the mean over seeds. Difference to the first system, in brackets the "
    "95 % interval of a paired bootstrap over the test sentences. Punctuation counts."
)


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder with {train,dev,test}.spacy")],
    name: Annotated[str, typer.Option(help="Name of the treebank, for files and tables")],
    output: Annotated[Path, typer.Option(help="The JSON file to write")],
    lang: Annotated[str, typer.Option(help="spaCy's code of the language")] = "xx",
    encoder: Annotated[list[str] | None, typer.Option(help="NAME=FOLDER")] = None,
    shares: Annotated[str, typer.Option(help="Encoders that shares.py has made, as 1,5")] = "",
    share_tokens: Annotated[int, typer.Option(help="Tokens they were trained on")] = 0,
    workdir: Annotated[Path, typer.Option(help="Working folder")] = Path(),
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0")] = 3,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training]")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train, test, report."""
    encoders = named_encoders(encoder or []) | share_models(workdir, shares, share_tokens)
    systems = {HASH: None, **encoders}
    cells = workdir.resolve() / "cells"
    trainings = parse_trainings(name, corpus, lang, systems, range(seeds), setting or [], cells)
    failed = train_all(by_seed(trainings), partial(train_in_process, gpu_id=gpu_id), jobs)
    report(name, trainings, output, "english-parse" if shares else "parse")
    if failed:
        raise typer.Exit(1)


def report(
    name: str, trainings: dict[str, list[Training]], output: Path, command: str = "parse"
) -> None:
    """Write and print the scores of the systems whose trainings are complete."""
    results = {system: read_results(own) for system, own in trainings.items()}
    found = {system: own for system, own in results.items() if own is not None}
    if not found:
        return
    counts = {system: parse_counts(own) for system, own in found.items()}
    scores = score_systems(name, counts, HASH)
    every = [result for own in found.values() for result in own]
    content = make_report(scores, every, command=f"spacy project run {command}", note=NOTE)
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, content)
    typer.echo(render(content))


if __name__ == "__main__":
    run_script(main)
