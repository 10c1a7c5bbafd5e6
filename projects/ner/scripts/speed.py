"""Words per second of the NER pipelines, with and without ctxvec, in one run.

The pipelines are made from the configs that the trainings use and only initialised: speed does not
depend on what a model has learned. They take turns, so that a change of the machine's mood hits
both. The first pass of each is a warm-up.
"""

from __future__ import annotations

import json
import platform
import statistics
import time
from pathlib import Path
from typing import Annotated

import torch
import typer
from cells import Cell, Workdir, cell_config
from console import run_script
from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp

from spacy_ctxvec.layers.encoder import shim_of


def main(
    workdir: Annotated[
        Path, typer.Option(help="Working folder", envvar="CTXVEC_NER_WORKDIR")
    ] = Path(),
    rounds: Annotated[int, typer.Option(help="Passes over all sentences, each system")] = 7,
    batch_size: Annotated[int, typer.Option(help="Docs a batch; spaCy's default is 1,000")] = 1000,
    corpus: Annotated[str, typer.Option(help="wikigold or wnut17")] = "wikigold",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Measure, and print medians and their ratio."""
    where = Workdir(workdir.resolve())
    cells = {name: Cell(seed=0, system=name, corpus=corpus, fold=0) for name in ("hash", "ctxvec")}
    pipelines = {
        name: init_nlp(cell_config(cell, where, {}).interpolate()) for name, cell in cells.items()
    }
    folder = where.corpus(cells["hash"])
    words = [
        sentence
        for part in ("train", "dev", "test")
        for sentence in load_words(folder / f"{part}.spacy", pipelines["hash"])
    ]
    for nlp in pipelines.values():
        nlp.batch_size = batch_size
    speeds: dict[str, list[float]] = {name: [] for name in pipelines}
    for _ in range(rounds + 1):
        for name, nlp in pipelines.items():
            speeds[name].append(words_per_second(nlp, words))
    medians = {name: statistics.median(values[1:]) for name, values in speeds.items()}
    report = {
        "words": sum(map(len, words)),
        "batch_size": batch_size,
        "words_per_second": {name: round(value) for name, value in medians.items()},
        "ratio": round(medians["ctxvec"] / medians["hash"], 2),
        "cache_hit_rate": round(hit_rate(pipelines["ctxvec"]), 3),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
    }
    typer.echo(json.dumps(report) if as_json else describe(report))


def load_words(path: Path, nlp: Language) -> list[list[str]]:
    return [[t.text for t in doc] for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]


def words_per_second(nlp: Language, words: list[list[str]]) -> float:
    docs = [Doc(nlp.vocab, words=sentence) for sentence in words]
    begin = time.perf_counter()
    for _ in nlp.pipe(docs):
        pass
    return sum(map(len, words)) / (time.perf_counter() - begin)


def hit_rate(nlp: Language) -> float:
    return shim_of(nlp.get_pipe("ctxvec").model).inputs.cache.hit_rate


def describe(report: dict) -> str:
    speeds = report["words_per_second"]
    return (
        f"HashEmbedCNN NER {speeds['hash']:,} words/s, ctxvec NER {speeds['ctxvec']:,} words/s: "
        f"ratio {report['ratio']}. Character cache: {report['cache_hit_rate']:.1%} of the distinct "
        f"words of a batch were known. {report['threads']} threads, {report['words']:,} words."
    )


if __name__ == "__main__":
    run_script(main)
