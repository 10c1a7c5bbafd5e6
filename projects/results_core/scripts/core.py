"""Train and test every representation on every task that is not done, and write the table.

    python scripts/core.py --workdir work --vectors vectors

Tells how long it will take before it starts. Finished trainings are skipped; a system whose
trainings are not complete is missing from the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import typer

# isort: split
import numpy as np
from cells import Workdir
from compare import class_counts
from console import run_script
from evaluate import document_counts
from parsing import by_seed, named_encoders, parse_counts
from representations import BASELINE, FOLDERS, SYSTEMS, TASKS, Folders, available, training
from results import insert
from summary import Counts, make_report, read_results, render, score_systems
from trainings import CLASSES, PARSE, Training, chosen, train_all, train_in_process

TITLES = {name: system.title for name, system in SYSTEMS.items()} | {
    "wikigold": "WikiGold", "wikigold_0": "WikiGold, first fold", "wnut17": "WNUT-17",
    "bc5cdr": "BC5CDR", "ewt": "UD EWT", "emobank": "EmoBank",
}  # fmt: skip
NOTE = (
    "Error: standard error of the mean over seeds. Difference to HashEmbedCNN + GloVe, in brackets "
    "the 95 % interval of a paired bootstrap over test documents (WikiGold), messages (WNUT-17) or "
    "sentences."
)
MINUTES = {"wikigold": 1.0, "wnut17": 1.0, "bc5cdr": 1.5, "ewt": 3.0, "emobank": 1.0}
"""Of a training of 1,000 steps on one core, about."""
Trainings = dict[str, list[Training]]  # by system; seed by seed, and fold by fold in each


def main(
    workdir: Annotated[Path, typer.Option(help="Working folder, with corpus/")] = Path("work"),
    vectors: Annotated[Path, typer.Option(help="Pipeline of static vectors")] = Path("vectors"),
    output: Annotated[Path, typer.Option(help="Results to write")] = Path("results.json"),
    readme: Annotated[Path, typer.Option(help="Where the table goes")] = Path("README.md"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 0")] = 3,
    folds: Annotated[int, typer.Option(help="Folds of WikiGold: the first ones; 0: all")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="Tasks; default: all")] = None,
    systems: Annotated[str, typer.Option(help="To train, with commas; default: all")] = "",
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training], for all")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    encoder: Annotated[
        list[str] | None,
        typer.Option(help=f"NAME=FOLDER of what else there is to read: {', '.join(FOLDERS)}"),
    ] = None,
) -> None:
    """Train what is missing, test, and write JSON and Markdown."""
    root, settings, folders = workdir.resolve(), setting or [], named_encoders(encoder or [])
    names = chosen(list(filter(None, systems.split(","))), tuple(available(folders)))
    grid = {
        corpus: corpus_trainings(corpus, root, vectors, seeds, folds, settings, folders)
        for corpus in chosen(only or [], tuple(TASKS))
    }
    todo = [
        one
        for trainings in grid.values()
        for one in by_seed({name: own for name, own in trainings.items() if name in names})
    ]
    minutes = sum(MINUTES[one.name.split("-")[0]] for one in todo if not one.is_done) / jobs
    typer.echo(f"About {minutes / 60:.1f} hours to go")
    failed = train_all(todo, train_in_process, jobs)
    report(grid, seeds, output, readme)
    if failed:
        raise typer.Exit(1)


def corpus_trainings(
    corpus: str,
    root: Path,
    vectors: Path,
    seeds: int,
    folds: int,
    settings: Sequence[str],
    folders: Folders,
) -> Trainings:
    numbers = Workdir(root).folds(corpus)[: folds or None]
    return {
        system: [
            training(corpus, fold, system, seed, root, vectors, settings, folders)
            for seed in range(seeds)
            for fold in numbers
        ]
        for system in available(folders)
    }


def report(grid: Mapping[str, Trainings], seeds: int, output: Path, readme: Path) -> None:
    """Write and print the scores of what is complete; of several folds, the first one alone too."""
    scores, every = [], []
    for corpus, trainings in grid.items():
        folds = len(trainings[BASELINE]) // seeds
        firsts = {f"{corpus}_0": {name: own[::folds] for name, own in trainings.items()}}
        for name, part in ({corpus: trainings} | (firsts if folds > 1 else {})).items():
            results = {system: read_results(own) for system, own in part.items()}
            found = {system: own for system, own in results.items() if own is not None}
            counts = {system: corpus_counts(corpus, own, seeds) for system, own in found.items()}
            scores += score_systems(name, counts, BASELINE)
            every += [result for own in found.values() for result in own]
    if not every:
        return
    content = make_report(scores, every, command="python scripts/core.py", note=NOTE)
    srsly.write_json(output, content)
    text = render(content, TITLES)
    insert(readme, text)
    typer.echo(text)


def corpus_counts(corpus: str, results: Sequence[Any], seeds: int) -> dict[str, Counts]:
    """Counts of each measure, (seeds, units, 3)."""
    if TASKS[corpus] == PARSE:
        return parse_counts(results)
    if TASKS[corpus] == CLASSES:
        return {"accuracy": np.stack([class_counts(result) for result in results])}
    folds = len(results) // seeds
    return {"F": document_counts([results[i * folds : (i + 1) * folds] for i in range(seeds)])}


if __name__ == "__main__":
    run_script(main)
