"""Words a second of every system, as whole processes that take turns over the same sentences."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import srsly
import typer
from wasabi import msg

from spacy_ctxvec.analysis.benchmark import processor
from spacy_ctxvec.analysis.facts import machine_facts

SCRIPTS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class System:
    """A worker, and what its speed is put in relation to."""

    group: str
    name: str
    script: str
    arguments: tuple[str, ...]
    batch_sizes: tuple[int, ...] = (32, 128)


def systems(folder: Path) -> list[System]:
    """In groups; the first system of a group is what the others are compared with."""
    found = []
    for size in ("small", "original"):
        own = str(folder / size)
        found += [
            System(size, "AllenNLP", "reference_worker", ("allennlp", f"{folder / size}-hdf5")),
            System(size, "ctxvec", "ctxvec_worker", (own, "float32")),
            System(size, "ctxvec, cold", "ctxvec_worker", (own, "float32", "cold")),
            System(size, "ctxvec, bfloat16", "ctxvec_worker", (own, "bfloat16")),
            System(size, "ctxvec, int8", "ctxvec_worker", (own, "int8")),
        ]
    found.append(System("encoders", "HashEmbedCNN", "spacy_worker", ("hash",)))
    found.append(System("NER", "HashEmbedCNN", "spacy_worker", ("ner",), (32, 128, 1000)))
    for precision in ("float32", "bfloat16", "int8"):
        arguments = ("en_sm", precision, "alone")
        found.append(System("encoders", f"en_sm, {precision}", "ctxvec_worker", arguments))
        system = (f"ner-{precision}",)
        name = f"en_sm, {precision}"
        found.append(System("NER", name, "spacy_worker", system, (32, 128, 1000)))
    for name, system in (("MiniLM, 6 layers", "minilm"), ("BERT base", "bert")):
        found.append(System("encoders", name, "reference_worker", (system,), (32,)))
    return found


def main(
    folder: Annotated[Path, typer.Argument(help="Where `prepare` put sentences and models")],
    output: Annotated[Path, typer.Option(help="Results to write")] = Path("results.json"),
    rounds: Annotated[int, typer.Option(min=1, help="Timed passes, each system")] = 3,
    only: Annotated[
        str | None, typer.Option(help="One group alone; the results of others are kept")
    ] = None,
) -> None:
    """Measure group by group: the systems of one compare, and share no memory with others."""
    sentences = srsly.read_json(folder / "sentences.json")
    n_words = sum(map(len, sentences))
    record: dict[str, Any] = {
        "machine": {"processor": processor(), **machine_facts()},
        "words": n_words,
        "sentences": len(sentences),
        "groups": srsly.read_json(output)["groups"] if only and output.is_file() else {},
    }
    chosen = systems(folder)
    for group in dict.fromkeys(system.group for system in chosen):
        if only in (None, group):
            of_group = [system for system in chosen if system.group == group]
            record["groups"][group] = measure_group(of_group, folder, n_words, rounds)
            srsly.write_json(output, record)
            msg.good(f"{group}: {len(record['groups'][group]['speeds'])} speeds")


def measure_group(systems: list[System], folder: Path, n_words: int, rounds: int) -> dict[str, Any]:
    """Speeds by system and batch size, and how far the vectors of the same weights differ."""
    seconds: dict[tuple[str, int], list[float]] = {}
    memory: dict[str, int] = {}
    with workers(systems, folder) as running:
        difference = largest_difference(systems, running, folder)
        for number in range(rounds + 1):
            for system in systems:
                for batch_size in system.batch_sizes:
                    reply = ask(running[system.name], batch_size=batch_size)
                    memory[system.name] = reply["memory_mb"]
                    if number:
                        seconds.setdefault((system.name, batch_size), []).append(reply["seconds"])
    speeds = [
        {"system": name, "batch_size": batch_size, "words_per_second": n_words / median,
         "least": n_words / max(taken), "most": n_words / min(taken), "memory_mb": memory[name]}
        for (name, batch_size), taken in seconds.items()
        for median in [statistics.median(taken)]
    ]  # fmt: skip
    return {
        "date": date.today().isoformat(),
        "rounds": rounds,
        "speeds": speeds,
        "largest_difference": difference,
    }


@contextmanager
def workers(systems: list[System], folder: Path) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """A process for each system, ready to read."""
    running: dict[str, subprocess.Popen[str]] = {}
    try:
        for system in systems:
            is_ours = system.script != "reference_worker"
            python = sys.executable if is_ours else str(folder / "reference" / "bin" / "python")
            script, sentences = SCRIPTS / f"{system.script}.py", folder / "sentences.json"
            command = [python, str(script), str(sentences), *system.arguments]
            running[system.name] = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                stderr=subprocess.DEVNULL, env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
            )  # fmt: skip
            if not running[system.name].stdout.readline():
                msg.fail(f"{system.name} did not start. Try: {' '.join(command)}", exits=1)
        yield running
    finally:
        for process in running.values():
            process.kill()


def ask(process: subprocess.Popen[str], **request: Any) -> dict[str, Any]:
    print(json.dumps(request), file=process.stdin, flush=True)
    reply = process.stdout.readline()
    if not reply:
        msg.fail(f"A worker has ended: {process.args}", exits=1)
    return json.loads(reply)


def largest_difference(
    systems: list[System], running: dict[str, subprocess.Popen[str]], folder: Path
) -> float | None:
    """Between the mean layers of the first two systems, where both have the same weights."""
    if systems[0].name != "AllenNLP":
        return None
    vectors = []
    for system in systems[:2]:
        path = folder / "vectors.npy"
        ask(running[system.name], batch_size=32, vectors=str(path))
        vectors.append(np.load(path))
    return float(np.abs(vectors[0] - vectors[1]).max())


if __name__ == "__main__":
    typer.run(main)
