"""What NER pipelines cost beside what they score: words a second, memory, size on disk.

    python scripts/costs.py --workdir work --vectors work/vectors --transformer FOLDER

Each pipeline has a process of its own, and weights as they start: it is as fast and as large as a
trained one. Scores come from results.json. Close other programs first.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from pathlib import Path
from typing import Annotated, Any, TypeVar

import neighbours  # noqa: F401
import spacy
import srsly
import typer

# isort: split
from console import run_script
from representations import SYSTEMS, training
from results import insert
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from thinc.api import Config

from spacy_ctxvec.analysis.benchmark import peak_memory_mb, processor
from spacy_ctxvec.analysis.facts import machine_facts
from spacy_ctxvec.errors import CtxvecError

Result = TypeVar("Result")
CORPUS = "wnut17"
COMPARED = ("hash", "hash_glove", "mix", "mix_glove", "transformer")
TASKS = {
    "wikigold_0": "WikiGold, first fold, F",
    "wnut17": "WNUT-17, F",
    "emobank": "EmoBank, accuracy",
}
START, END = "<!-- costs:start -->", "<!-- costs:end -->"
BATCH_SIZE = 256  # docs
MEGABYTE = 1e6


def main(
    transformer: Annotated[Path, typer.Option(help="Folder of the transformer")],
    workdir: Annotated[Path, typer.Option(help="Working folder, with corpus/")] = Path("work"),
    vectors: Annotated[Path, typer.Option(help="Pipeline of static vectors")] = Path("vectors"),
    results: Annotated[Path, typer.Option(help="Scores")] = Path("results.json"),
    output: Annotated[Path, typer.Option(help="Costs to write")] = Path("costs.json"),
    readme: Annotated[Path, typer.Option(help="Where the table goes")] = Path("README.md"),
    rounds: Annotated[int, typer.Option(min=1, help="Timed passes, after a warm-up")] = 5,
) -> None:
    """Measure, and write the table."""
    if not results.is_file():
        raise CtxvecError(f"Expected scores in {results}, found none. Run `core` first.")
    costs = {}
    for system in COMPARED:
        folders = {"transformer": transformer}
        one = training(CORPUS, 0, system, 0, workdir.resolve(), vectors, (), folders)
        with tempfile.TemporaryDirectory() as folder:
            in_a_process(build, one.config, folder)
            costs[system] = in_a_process(measure, folder, one.corpus, rounds)
        typer.echo(f"{system}: {costs[system]}")
    record = {
        "date": date.today().isoformat(),
        "machine": {"processor": processor(), **machine_facts()},
        "rounds": rounds,
        "batch_size": BATCH_SIZE,
        "pipelines": costs,
    }
    srsly.write_json(output, record)
    insert(readme, render(record, srsly.read_json(results)["scores"]), START, END)


def in_a_process(function: Callable[..., Result], *arguments: Any) -> Result:
    """In a new one, which has no memory of others."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def build(config: Config, folder: str) -> None:
    init_nlp(Config(config).interpolate()).to_disk(folder)


def measure(folder: str, corpus: Path, rounds: int) -> dict[str, float]:
    """Of one NER pipeline, over the test texts of its corpus."""
    nlp = spacy.load(folder)
    texts = [[token.text for token in doc] for doc in test_docs(nlp.vocab, corpus)]
    n_words, speeds = sum(map(len, texts)), []
    for number in range(rounds + 1):
        docs = [Doc(nlp.vocab, words=words) for words in texts]
        start = time.perf_counter()
        for _ in nlp.pipe(docs, batch_size=BATCH_SIZE):
            pass
        if number:
            speeds.append(n_words / (time.perf_counter() - start))
    size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {
        "words_per_second": round(statistics.median(speeds)),
        "least": round(min(speeds)),
        "most": round(max(speeds)),
        "peak_memory_mb": peak_memory_mb() or 0,
        "disk_mb": round(size / MEGABYTE, 1),
    }


def test_docs(vocab: Any, corpus: Path) -> list[Doc]:
    return [doc for doc in DocBin().from_disk(corpus / "test.spacy").get_docs(vocab) if len(doc)]


def render(record: Mapping[str, Any], scores: Sequence[Mapping[str, Any]]) -> str:
    """A line for each system; a score that is missing stays empty."""
    means = {(one["corpus"], one["system"]): 100 * one["mean"] for one in scores}
    header = ["the NER reads", *TASKS.values(), "words a second", "peak memory", "on disk"]
    rows = [
        [
            SYSTEMS[system].title,
            *(f"{means[task, system]:.1f}" if (task, system) in means else "" for task in TASKS),
            f"{cost['words_per_second']:,} ({cost['least']:,} to {cost['most']:,})",
            f"{cost['peak_memory_mb']:,.0f} MB",
            f"{cost['disk_mb']:,.0f} MB",
        ]
        for system, cost in record["pipelines"].items()
    ]
    lines = [header, ["---"] * len(header), *rows]
    machine = record["machine"]
    about = (
        f"`python scripts/costs.py`, {record['date']}, {machine['processor']}, "
        f"{machine['threads']} threads, {record['batch_size']} docs a batch, median, slowest and "
        f"fastest of {record['rounds']} passes over the test messages of WNUT-17; spacy "
        f"{machine['spacy']}, torch {machine['torch']}."
    )
    return "\n".join([about, "", *(f"| {' | '.join(line)} |" for line in lines)])


if __name__ == "__main__":
    run_script(main)
