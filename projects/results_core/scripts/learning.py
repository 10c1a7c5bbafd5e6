"""Learning curves: systems trained on shares of a corpus, and how little they need to reach the
baseline that has all of it.

    python scripts/learning.py wikigold --workdir work --vectors work/vectors

Runs after `core`, whose trainings are the share of 100 %. Finished trainings are skipped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import numpy as np
import srsly
import typer

# isort: split
from cells import Workdir
from console import run_script
from core import TITLES, corpus_counts
from representations import BASELINE, SYSTEMS, available, training
from results import insert
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from summary import make_report, provenance, read_results, score
from trainings import Training, chosen, train_all, train_in_process

from spacy_ctxvec.errors import CtxvecError

PERCENT = (1, 3, 10, 30, 100)
COMPARED = f"{BASELINE},mix"
START, END = "<!-- learning:start -->", "<!-- learning:end -->"
NOTE = "Examples are drawn by the seed; one fold where there are several."


def main(
    corpus: Annotated[str, typer.Argument(help="Task, as in `core`")] = "wikigold",
    workdir: Annotated[Path, typer.Option(help="Working folder, with corpus/")] = Path("work"),
    vectors: Annotated[Path, typer.Option(help="Pipeline of static vectors")] = Path("vectors"),
    output: Annotated[Path, typer.Option(help="Results to write")] = Path("learning.json"),
    readme: Annotated[Path, typer.Option(help="Where the table goes")] = Path("README.md"),
    systems: Annotated[str, typer.Option(help="To compare, with commas")] = COMPARED,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds, from 0")] = 3,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="NAME=VALUE of [training], for all")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
) -> None:
    """Train what is missing, test, and write JSON, a table and a plot. One fold of WikiGold."""
    root, names = workdir.resolve(), chosen(systems.split(","), tuple(available({})))
    fold = Workdir(root).folds(corpus)[0]
    grid: dict[tuple[str, int], list[Training]] = {}
    for name in names:
        for seed in range(seeds):
            whole = training(corpus, fold, name, seed, root, vectors, setting or [])
            for percent in PERCENT:
                grid.setdefault((name, percent), []).append(on_share(whole, percent, seed, root))
    todo = [one for of_seed in zip(*grid.values()) for one in of_seed]
    if train_all(todo, train_in_process, jobs):
        raise typer.Exit(1)
    report = make_curves(corpus, grid, seeds)
    srsly.write_json(output, report)
    insert(readme, render(report, output.with_suffix(".png").name), START, END)
    plot(report, output.with_suffix(".png"))


def on_share(whole: Training, percent: int, seed: int, root: Path) -> Training:
    """The same training on a share of its examples, other ones for each seed."""
    if percent == 100:
        return whole
    name = f"{whole.name}-{percent}"
    path = root / "shares" / f"{name}.spacy"
    write_share(whole.corpus / "train.spacy", path, percent, seed)
    config = whole.config.copy()
    config["paths"]["train"] = str(path)
    return replace(whole, config=config, result=whole.result.with_name(f"{name}.json"))


def write_share(examples: Path, path: Path, percent: int, seed: int) -> None:
    """So many of the examples, at least one, drawn by the seed."""
    docs = list(DocBin().from_disk(examples).get_docs(Vocab()))
    n = max(1, math.ceil(len(docs) * percent / 100))
    drawn = np.random.default_rng(seed).permutation(len(docs))[:n]
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=[docs[i] for i in sorted(drawn)]).to_disk(path)


def make_curves(
    corpus: str, grid: Mapping[tuple[str, int], Sequence[Training]], seeds: int
) -> dict[str, Any]:
    """Scores of all systems by share, and the share at which each reaches the baseline."""
    every, scores = [], []
    for (system, percent), trainings in grid.items():
        results = read_results(trainings)
        if results is None:
            raise CtxvecError(f"{system}, {percent} %: trainings are missing.")
        every += results
        for measure, counts in corpus_counts(corpus, results, seeds).items():
            found = score(corpus, system, measure, counts)
            scores.append({"percent": percent, **asdict(found)})
    report = make_report([], every, command=f"python scripts/learning.py {corpus}", note=NOTE)
    return {**report, "corpus": corpus, "scores": scores, "enough": enough(scores)}


def enough(scores: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """By system, the percent of the data with which its mean is that of the baseline with all:
    between two shares on a straight line over their logarithms, None where it never is."""
    curves = {system: curve_of(scores, system) for system in systems_of(scores)}
    if BASELINE not in curves:
        return {}
    aim = curves[BASELINE][-1][1]
    return {system: reached(curve, aim) for system, curve in curves.items() if system != BASELINE}


def systems_of(scores: Sequence[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(score["system"] for score in scores))


def curve_of(scores: Sequence[Mapping[str, Any]], system: str) -> list[tuple[int, float]]:
    return sorted((s["percent"], s["mean"]) for s in scores if s["system"] == system)


def reached(curve: Sequence[tuple[int, float]], aim: float) -> float | None:
    """Where a curve of (percent, mean) comes to `aim` first."""
    if curve[0][1] >= aim:
        return float(curve[0][0])
    for (x, low), (further, high) in pairwise(curve):
        if high >= aim:
            way = (aim - low) / (high - low)
            return round(math.exp(math.log(x) + way * math.log(further / x)), 1)
    return None


def render(report: Mapping[str, Any], plot_name: str) -> str:
    """Where it comes from, a row for each system, what is enough, and the plot."""
    percents = list(dict.fromkeys(s["percent"] for s in report["scores"]))
    rows = [["the heads read", *(f"{percent} %" for percent in percents)]]
    rows.append(["---"] * len(rows[0]))
    for system in systems_of(report["scores"]):
        of_system = [s for s in report["scores"] if s["system"] == system]
        cells = [f"{100 * s['mean']:.1f} ± {100 * s['deviation']:.1f}" for s in of_system]
        rows.append([SYSTEMS[system].title, *cells])
    found = [
        f"{SYSTEMS[system].title} reaches {SYSTEMS[BASELINE].title} on all data "
        + ("nowhere." if percent is None else f"with {percent:g} % of it.")
        for system, percent in report["enough"].items()
    ]
    title = TITLES[report["corpus"]]
    return "\n".join(
        [
            f"{title}. {provenance(report['run'])}", "",
            *(f"| {' | '.join(row)} |" for row in rows), "",
            *found, "", f"![{title}, by share of the training data]({plot_name})",
        ]
    )  # fmt: skip


def plot(report: Mapping[str, Any], path: Path) -> None:
    """A line for each system over the share; the form follows from the file's ending."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CtxvecError(
            "The plot needs matplotlib, which is not installed: pip install spacy-ctxvec[plot]"
        ) from error
    figure = Figure(figsize=(4.6, 3.2), layout="constrained")
    axes = figure.subplots()
    for system in systems_of(report["scores"]):
        of_system = [s for s in report["scores"] if s["system"] == system]
        percents = [s["percent"] for s in of_system]
        means, deviations = ([100 * s[key] for s in of_system] for key in ("mean", "deviation"))
        axes.errorbar(percents, means, yerr=deviations, marker="o", label=SYSTEMS[system].title)
    axes.set_xscale("log")
    axes.set_xticks(PERCENT, [f"{percent}" for percent in PERCENT])
    axes.set_xlabel(f"percent of the training data, {TITLES[report['corpus']]}")
    axes.set_ylabel(f"{report['scores'][0]['measure']} on test")
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    run_script(main)
