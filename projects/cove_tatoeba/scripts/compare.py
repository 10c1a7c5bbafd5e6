"""Compare static vectors with and without frozen encoders below the same heads.

    python scripts/compare.py --cove work --vectors vectors

Named entities on WikiGold, sentences in five classes on SST-5. An encoder is a model folder, a
working folder of `spacy ctxvec train-nmt` or `pretrain`, or `en_sm`, the shipped one. Systems whose
encoder is not given are left out. Finished trainings are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import numpy as np
import srsly
import typer

# isort: split
from cells import Workdir
from console import run_script
from evaluate import document_counts
from parsing import by_seed
from summary import Counts, make_report, read_results, render, score_systems
from systems import BASELINE, TASKS, available_systems, system_training
from trainings import CLASSES, Training, chosen, train_all, train_in_process

TITLES = {
    "wikigold": "WikiGold",
    "sst5": "SST-5",
    "static": "GloVe",
    "static_cove": "GloVe + CoVe",
    "static_bilm": "GloVe + biLM",
    "static_both": "GloVe + CoVe + biLM",
}
NOTE = (
    "Error: standard error of the mean over seeds. Difference to static vectors alone, in brackets "
    "the 95 % interval of a paired bootstrap over test documents (WikiGold, folds pooled: {folds}) "
    "or sentences (SST-5)."
)
Trainings = dict[str, list[Training]]  # by system; seed by seed, and fold by fold in each


def main(
    vectors: Annotated[Path, typer.Option(help="Pipeline of static vectors")] = Path("vectors"),
    cove: Annotated[Path | None, typer.Option(help="CoVe: model or working folder")] = None,
    bilm: Annotated[Path | None, typer.Option(help="biLM: the same, or en_sm")] = Path("en_sm"),
    workdir: Annotated[Path, typer.Option(help="Working folder, with corpus/")] = Path(),
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0")] = 3,
    folds: Annotated[int, typer.Option(help="Folds of WikiGold: the first ones; 0: all")] = 0,
    only: Annotated[list[str] | None, typer.Option(help="wikigold or sst5; default: both")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training], for all")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train what is missing, test, and write WORKDIR/results/CORPUS.json and .md."""
    encoders = {name: path for name, path in (("cove", cove), ("bilm", bilm)) if path is not None}
    root = workdir.resolve()
    grid = {
        corpus: corpus_trainings(corpus, encoders, root, vectors, seeds, folds, setting or [])
        for corpus in chosen(only or [], tuple(TASKS))
    }
    todo = [training for trainings in grid.values() for training in by_seed(trainings)]
    failed = train_all(todo, partial(train_in_process, gpu_id=gpu_id), jobs)
    for corpus, trainings in grid.items():
        report(corpus, trainings, seeds, root / "results" / f"{corpus}.json")
    if failed:
        raise typer.Exit(1)


def corpus_trainings(
    corpus: str,
    encoders: Mapping[str, Path],
    root: Path,
    vectors: Path,
    seeds: int,
    folds: int = 0,
    settings: Sequence[str] = (),
) -> Trainings:
    """All trainings on a corpus, by system; `folds` 0 means all."""
    numbers = Workdir(root).folds(corpus)[: folds or None]
    return {
        system: [
            system_training(corpus, fold, system, own, seed, root, vectors, settings)
            for seed in range(seeds)
            for fold in numbers
        ]
        for system, own in available_systems(encoders).items()
    }


def report(corpus: str, trainings: Trainings, seeds: int, output: Path) -> None:
    """Write and print the scores of the systems whose trainings are complete."""
    results = {system: read_results(own) for system, own in trainings.items()}
    found = {system: own for system, own in results.items() if own is not None}
    if not found:
        return
    counts = {system: corpus_counts(corpus, own, seeds) for system, own in found.items()}
    every = [result for own in found.values() for result in own]
    note = NOTE.format(folds=len(trainings[BASELINE]) // seeds)
    content = make_report(
        score_systems(corpus, counts, BASELINE), every, command="scripts/compare.py", note=note
    )
    output.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(output, content)
    text = render(content, TITLES)
    output.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")
    typer.echo(f"{text}\n")


def corpus_counts(corpus: str, results: Sequence[Any], seeds: int) -> dict[str, Counts]:
    """Counts of the measure, (seeds, documents or sentences, 3)."""
    if TASKS[corpus] == CLASSES:
        return {"accuracy": np.stack([class_counts(result) for result in results])}
    folds = len(results) // seeds
    return {"F": document_counts([results[i * folds : (i + 1) * folds] for i in range(seeds)])}


def class_counts(result: Mapping[str, Sequence[str]]) -> np.ndarray:
    """Right, predicted and gold classes of each sentence, (sentences, 3); the last two are 1."""
    right = np.array(result["gold"]) == np.array(result["predicted"])
    return np.stack([right, np.ones_like(right), np.ones_like(right)], axis=-1).astype("int64")


if __name__ == "__main__":
    run_script(main)
