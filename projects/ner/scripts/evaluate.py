"""Score the finished cells and write results.json: small, and all that the report needs.

WikiGold: for each seed, micro F over the pooled test parts of all folds. Mean and spread (standard
deviation) are over seeds. Only corpora and systems whose cells are complete are scored.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import srsly
import typer
from cells import CORPORA, PROJECT, SYSTEMS, Workdir, grid_cells, read_json
from console import run_script
from scores import bootstrap_difference, error_reduction, sentence_counts, total_f, unit_counts

from spacy_ctxvec.errors import CtxvecError

PACKAGES = ("spacy-ctxvec", "spacy", "thinc", "torch", "numpy")
Fold = Mapping[str, Any]
Results = Sequence[Sequence[Fold]]  # per seed, per fold


@dataclass(frozen=True)
class Score:
    """What is known of one system on one corpus, over its seeds."""

    corpus: str
    system: str
    seed_f: list[float]
    mean: float
    spread: float
    per_type: dict[str, float]
    train_seconds: float
    words_per_second: float


@dataclass(frozen=True)
class Comparison:
    """The difference of two systems on one corpus."""

    corpus: str
    ours: str
    theirs: str
    difference: float
    low: float
    high: float
    error_reduction: float


def main(
    workdir: Annotated[
        Path, typer.Option(help="Working folder", envvar="CTXVEC_NER_WORKDIR")
    ] = Path(),
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0")] = 3,
    output: Annotated[Path, typer.Option(help="The file to write")] = PROJECT / "results.json",
) -> None:
    """Score every complete set of cells."""
    where = Workdir(workdir.resolve())
    complete = complete_cells(where, seeds)
    if not complete:
        raise CtxvecError(f"No complete set of cells in {where.root / 'cells'}. Run `train` first.")
    scores = [score(corpus, system, cells) for (corpus, system), cells in complete.items()]
    for s in scores:
        typer.echo(f"{s.corpus} {s.system}: F {100 * s.mean:.1f} +- {100 * s.spread:.1f}")
    report = {
        "run": describe_run(complete, seeds),
        "scores": [asdict(s) for s in scores],
        "comparisons": [asdict(c) for c in compare_all(complete)],
    }
    srsly.write_json(output, report)


def complete_cells(workdir: Workdir, seeds: int) -> dict[tuple[str, str], Results]:
    """The results of each corpus and system; incomplete ones are named and left out."""
    complete: dict[tuple[str, str], Results] = {}
    for corpus in CORPORA:
        for system in SYSTEMS:
            cells = grid_cells(workdir, [corpus], [system], range(seeds))
            missing = [cell.name for cell in cells if not workdir.result(cell).is_file()]
            if missing:
                typer.echo(f"{corpus} {system}: {len(missing)} cells missing, left out", err=True)
                continue
            read = {cell: read_json(workdir.result(cell)) for cell in cells}
            complete[corpus, system] = [
                [read[cell] for cell in cells if cell.seed == seed] for seed in range(seeds)
            ]
    return complete


def score(corpus: str, system: str, results: Results) -> Score:
    """Summarise one system on one corpus."""
    flat = [cell for seed in results for cell in seed]
    if len({cell["fingerprint"] for cell in flat}) > len(results):
        raise CtxvecError(f"The cells of {corpus} {system} are of different settings: run `train`.")
    seed_f = [total_f(pooled_counts(seed)) for seed in results]
    labels = sorted({entity[2] for cell in flat for gold in cell["gold"] for entity in gold})
    per_type = {
        label: float(np.mean([total_f(pooled_counts(seed, label)) for seed in results]))
        for label in labels
    }
    return Score(
        corpus=corpus,
        system=system,
        seed_f=seed_f,
        mean=float(np.mean(seed_f)),
        spread=float(np.std(seed_f, ddof=1)) if len(seed_f) > 1 else 0.0,
        per_type=per_type,
        train_seconds=float(np.mean([cell["train_seconds"] for cell in flat])),
        words_per_second=float(np.mean([cell["words_per_second"] for cell in flat])),
    )


def pooled_counts(folds: Sequence[Fold], label: str | None = None) -> np.ndarray:
    """Counts of the sentences of all folds, (sentences, 3)."""
    return np.concatenate([sentence_counts(c["gold"], c["predicted"], label) for c in folds])


def compare_all(complete: Mapping[tuple[str, str], Results]) -> list[Comparison]:
    """Compare each system with each one listed before it in `SYSTEMS`."""
    return [
        compare(corpus, (ours, complete[corpus, ours]), (theirs, complete[corpus, theirs]))
        for corpus in CORPORA
        for i, ours in enumerate(SYSTEMS)
        for theirs in SYSTEMS[:i]
        if (corpus, ours) in complete and (corpus, theirs) in complete
    ]


def compare(corpus: str, ours: tuple[str, Results], theirs: tuple[str, Results]) -> Comparison:
    """Difference of mean F, its paired bootstrap interval, and the share of errors removed.

    Refuses systems whose budgets differ: their difference would say nothing about the tok2vec.
    """
    budgets = {str(fold["budget"]) for _, results in (ours, theirs) for s in results for fold in s}
    if len(budgets) > 1:
        raise CtxvecError(
            f"{corpus}: {ours[0]} and {theirs[0]} had different budgets: {sorted(budgets)}. Run "
            " `train` for both with the same max_steps, patience and eval_frequency."
        )
    our_counts, their_counts = document_counts(ours[1]), document_counts(theirs[1])
    our_f = float(np.mean([total_f(seed) for seed in our_counts]))
    their_f = float(np.mean([total_f(seed) for seed in their_counts]))
    low, high = bootstrap_difference(our_counts, their_counts)
    removed = error_reduction(our_f, their_f)
    return Comparison(corpus, ours[0], theirs[0], our_f - their_f, low, high, removed)


def document_counts(results: Results) -> np.ndarray:
    """Counts of each document, (seeds, documents, 3)."""
    units = [unit for cell in results[0] for unit in cell["units"]]
    return np.stack([unit_counts(pooled_counts(seed), units) for seed in results])


def describe_run(complete: Mapping[tuple[str, str], Results], seeds: int) -> dict[str, Any]:
    """Where the numbers come from."""
    flat = [cell for results in complete.values() for seed in results for cell in seed]
    return {
        "date": datetime.date.today().isoformat(),
        "seeds": seeds,
        "budget": flat[0]["budget"],
        "versions": {"python": platform.python_version(), **{p: _version(p) for p in PACKAGES}},
        "device": "GPU" if any(cell["gpu_id"] >= 0 for cell in flat) else "CPU, one thread a run",
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


if __name__ == "__main__":
    run_script(main)
