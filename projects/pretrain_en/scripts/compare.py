"""Compare encoders, each frozen below the same heads: named entities, and tagging with parsing.

    python scripts/compare.py --encoder old=en_sm --encoder new=work/en_sm

The first encoder is the baseline of the others. An encoder is a model folder, the working folder of
`spacy ctxvec pretrain`, or `en_sm`, the shipped one. Finished trainings are skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import typer

# isort: split
from cells import Cell, Workdir, cell_config
from console import run_script
from evaluate import document_counts
from parsing import by_seed, named_encoders, parse_counts, parse_trainings
from summary import Counts, make_report, read_results, render, score_systems
from trainings import ENTITIES, Training, chosen, complete, train_all, train_in_process

NER, EWT = ("wikigold", "wnut17", "bc5cdr"), "ewt"
TITLES = {"wikigold": "WikiGold", "wnut17": "WNUT-17", "bc5cdr": "BC5CDR", "ewt": "UD EWT"}
NOTE = (
    "Error: standard error of the mean over seeds. Difference to the first encoder, in brackets "
    "the 95 % interval of a paired bootstrap over test documents (WikiGold), messages (WNUT-17) or "
    "sentences. WikiGold: five folds pooled. UD EWT: gold words, punctuation counts."
)
Trainings = dict[str, list[Training]]  # by encoder; seed by seed, and fold by fold in each


def main(
    encoder: Annotated[list[str], typer.Option(help="NAME=FOLDER")],
    workdir: Annotated[Path, typer.Option(help="Working folder, with corpus/")] = Path(),
    output: Annotated[Path | None, typer.Option(help="Default: WORKDIR/results.json")] = None,
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0")] = 3,
    only: Annotated[list[str] | None, typer.Option(help="Corpora; default: all")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training], for all")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train what is missing, test, and write table and JSON."""
    encoders, root = named_encoders(encoder), workdir.resolve()
    grid = {
        corpus: corpus_trainings(corpus, encoders, root, seeds, setting or [])
        for corpus in chosen(only or [], (*NER, EWT))
    }
    todo = [training for trainings in grid.values() for training in by_seed(trainings)]
    failed = train_all(todo, partial(train_in_process, gpu_id=gpu_id), jobs)
    report(grid, seeds, output or root / "results.json")
    if failed:
        raise typer.Exit(1)


def corpus_trainings(
    corpus: str, encoders: Mapping[str, Path], root: Path, seeds: int, settings: Sequence[str]
) -> Trainings:
    """All trainings on a corpus, by encoder."""
    if corpus == EWT:
        data, results = root / "corpus" / EWT / "0", root / "cells"
        return parse_trainings(EWT, data, "en", encoders, range(seeds), settings, results)
    workdir = Workdir(root)
    cells = [
        Cell(seed=seed, system="ctxvec", corpus=corpus, fold=fold)
        for seed in range(seeds)
        for fold in workdir.folds(corpus)
    ]
    return {
        name: [entity_training(cell, workdir, name, folder, settings) for cell in cells]
        for name, folder in encoders.items()
    }


def entity_training(
    cell: Cell, workdir: Workdir, name: str, encoder: Path, settings: Sequence[str]
) -> Training:
    """A cell of `projects/ner` with another encoder than the shipped one."""
    corpus = workdir.corpus(cell)
    config = complete(cell_config(cell, workdir, {}), corpus, cell.seed, encoder, settings)
    result = workdir.root / "cells" / f"{cell.corpus}-{cell.fold}-{name}-{cell.seed}.json"
    return Training(config, corpus, ENTITIES, result)


def report(grid: Mapping[str, Trainings], seeds: int, output: Path) -> None:
    """Write the scores of all encoders and corpora whose trainings are complete."""
    scores, every = [], []
    for corpus, trainings in grid.items():
        results = {name: read_results(own) for name, own in trainings.items()}
        found = {name: own for name, own in results.items() if own is not None}
        counts = {name: corpus_counts(corpus, own, seeds) for name, own in found.items()}
        scores += score_systems(corpus, counts, next(iter(trainings)))
        every += [result for own in found.values() for result in own]
    if every:
        command = "python scripts/compare.py"
        content = make_report(scores, every, command=command, note=NOTE)
        srsly.write_json(output, content)
        text = render(content, TITLES)
        output.with_suffix(".md").write_text(f"{text}\n", encoding="utf-8")
        typer.echo(text)


def corpus_counts(corpus: str, results: Sequence[Any], seeds: int) -> dict[str, Counts]:
    """Counts of each measure, (seeds, units, 3)."""
    if corpus == EWT:
        return parse_counts(results)
    folds = len(results) // seeds
    return {"F": document_counts([results[i * folds : (i + 1) * folds] for i in range(seeds)])}


if __name__ == "__main__":
    run_script(main)
