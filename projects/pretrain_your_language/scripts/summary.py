"""From results of trainings to a report: means, errors, differences with their intervals, a table.

A measure is a share of right answers or an F score; both come from three counts for each unit of
the test set (a sentence or document): right, predicted, gold.
"""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, TypeAlias

import neighbours  # noqa: F401
import numpy as np

# isort: split
from cells import read_json
from scores import bootstrap_difference, total_f
from trainings import Training

from spacy_ctxvec.errors import CtxvecError

PACKAGES = ("spacy-ctxvec", "spacy", "thinc", "torch", "numpy")
Counts: TypeAlias = np.ndarray  # (seeds, units, 3)
Report: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Score:
    """One measure of one system: each seed, mean, standard deviation, standard error of the mean.

    difference, low, high: to the baseline, with its 95 % interval; None for the baseline itself.
    """

    corpus: str
    system: str
    measure: str
    seeds: list[float]
    mean: float
    deviation: float
    error: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None


def read_results(trainings: Sequence[Training]) -> list[dict[str, Any]] | None:
    """The results of the trainings, None if one is missing; CtxvecError for different budgets."""
    if not all(training.is_done for training in trainings):
        return None
    results = [read_json(training.result) for training in trainings]
    budgets = {str(result["budget"]) for result in results}
    if len(budgets) > 1:
        raise CtxvecError(f"Trainings of different budgets do not compare: {sorted(budgets)}.")
    return results


def score(
    corpus: str, system: str, measure: str, counts: Counts, baseline: Counts | None = None
) -> Score:
    """Summarise a measure, beside that of the baseline on the same units if there is one."""
    seeds = [total_f(seed) for seed in counts]
    deviation = float(np.std(seeds, ddof=1)) if len(seeds) > 1 else 0.0
    of_seeds = (float(np.mean(seeds)), deviation, deviation / len(seeds) ** 0.5)
    if baseline is None:
        return Score(corpus, system, measure, seeds, *of_seeds)
    difference = of_seeds[0] - float(np.mean([total_f(seed) for seed in baseline]))
    interval = bootstrap_difference(counts, baseline)
    return Score(corpus, system, measure, seeds, *of_seeds, difference, *interval)


def score_systems(
    corpus: str, systems: Mapping[str, Mapping[str, Counts]], baseline: str
) -> list[Score]:
    """All measures of all systems, each beside that of the baseline, if that is among them."""
    others = systems.get(baseline, {})
    return [
        score(corpus, system, name, counts, None if system == baseline else others.get(name))
        for system, measures in systems.items()
        for name, counts in measures.items()
    ]


def make_report(
    scores: Sequence[Score], results: Sequence[Mapping[str, Any]], **about: Any
) -> Report:
    """What is written as JSON: the scores and where they come from."""
    on_gpu = any(result["gpu_id"] >= 0 for result in results)
    return {
        "run": {
            **about,
            "date": datetime.date.today().isoformat(),
            "budget": results[0]["budget"],
            "train_seconds": round(float(np.mean([r["train_seconds"] for r in results]))),
            "device": "GPU" if on_gpu else "CPU, one thread a run",
            "versions": versions(),
        },
        "scores": [asdict(score) for score in scores],
    }


def versions() -> dict[str, str]:
    """Of what results were made with."""
    numbers = {package: version(package) for package in PACKAGES}
    return {"python": platform.python_version(), **numbers}


def render(report: Report, titles: Mapping[str, str] | None = None) -> str:
    """The report as Markdown: where it comes from, and a table."""
    header = ["| corpus | system | measure | mean | error | deviation | each seed | difference |"]
    rows = [_row(score, titles or {}) for score in report["scores"]]
    return "\n".join([provenance(report["run"]), "", *header, f"|{'---|' * 8}", *rows])


def provenance(run: Mapping[str, Any]) -> str:
    parts = [f"`{run['command']}`", run["date"], run["device"]]
    parts += [f"{name} {value}" for name, value in run["budget"].items()]
    parts += [f"{run['train_seconds']} s a training"]
    parts += [f"{name} {number}" for name, number in run["versions"].items()]
    return f"{', '.join(parts)}. {run['note']}"


def _row(score: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    difference = ""
    if score["difference"] is not None:
        low, high = (f"{100 * score[end]:+.1f}" for end in ("low", "high"))
        difference = f"{100 * score['difference']:+.1f} ({low} to {high})"
    seeds = " ".join(f"{100 * seed:.1f}" for seed in score["seeds"])
    corpus, system = (titles.get(score[key], score[key]) for key in ("corpus", "system"))
    numbers = " | ".join(f"{100 * score[key]:.1f}" for key in ("mean", "error", "deviation"))
    return f"| {corpus} | {system} | {score['measure']} | {numbers} | {seeds} | {difference} |"
