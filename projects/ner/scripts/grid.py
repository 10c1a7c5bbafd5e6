"""Train every cell of the grid that has no result yet; safe to stop and start again.

Each cell is a process of its own with one thread, so cells do not disturb each other's random
numbers or memory, and one that dies takes nothing with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, Any

import typer
from cells import (
    CORPORA,
    SYSTEMS,
    Cell,
    Workdir,
    cell_config,
    data_digest,
    fingerprint,
    grid_cells,
    is_done,
    read_json,
)
from console import run_script
from scores import sentence_counts, total_f

from spacy_ctxvec.errors import CtxvecError

Settings = Mapping[str, Any]
Trainer = Callable[[Cell], None]


def main(
    workdir: Annotated[
        Path, typer.Option(help="Working folder", envvar="CTXVEC_NER_WORKDIR")
    ] = Path(),
    seeds: Annotated[int, typer.Option(help="Number of seeds, from 0")] = 3,
    only: Annotated[
        list[str] | None, typer.Option(help="Corpora and systems to do; all where none is named")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Cells at the same time")] = 1,
    max_steps: Annotated[int | None, typer.Option(help="Instead of the config's")] = None,
    patience: Annotated[int | None, typer.Option(help="Instead of the config's")] = None,
    eval_frequency: Annotated[int | None, typer.Option(help="Instead of the config's")] = None,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Run the grid."""
    corpora, systems = selection(only or [])
    where = Workdir(workdir.resolve())
    settings = {"max_steps": max_steps, "patience": patience, "eval_frequency": eval_frequency}
    failed = run_grid(
        grid_cells(where, corpora, systems, range(seeds)),
        where,
        settings,
        lambda cell: train_in_process(cell, where, settings, gpu_id),
        jobs,
    )
    if failed:
        typer.echo(f"{len(failed)} cells failed: {', '.join(cell.name for cell in failed)}")
        raise typer.Exit(1)


def selection(only: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the names of `--only` into corpora and systems; no name of a kind means all of it."""
    unknown = [name for name in only if name not in CORPORA + SYSTEMS]
    if unknown:
        raise CtxvecError(f"--only {unknown[0]}: expected one of {', '.join(CORPORA + SYSTEMS)}.")
    corpora = [name for name in CORPORA if name in only] or list(CORPORA)
    systems = [name for name in SYSTEMS if name in only] or list(SYSTEMS)
    return corpora, systems


def _is_done(cell: Cell, workdir: Workdir, settings: Settings) -> bool:
    config = cell_config(cell, workdir, settings)
    comes_from = {"fingerprint": fingerprint(config), "data": data_digest(config)}
    return is_done(workdir.result(cell), **comes_from)


def run_grid(
    cells: Sequence[Cell], workdir: Workdir, settings: Settings, trainer: Trainer, jobs: int
) -> list[Cell]:
    """Train the cells that are not done, show progress, go on after a failure.

    RETURNS (list[Cell]): The cells that failed.
    """
    todo = [cell for cell in cells if not _is_done(cell, workdir, settings)]
    typer.echo(f"{len(cells)} cells, {len(cells) - len(todo)} done before, {len(todo)} to do")
    failed = []
    begin = time.perf_counter()
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(trainer, cell): cell for cell in todo}
        for n, future in enumerate(as_completed(futures), start=1):
            cell = futures[future]
            left = (time.perf_counter() - begin) / n * (len(todo) - n) / 60
            if future.exception() is None:
                report = describe(workdir.result(cell))
            else:
                failed.append(cell)
                report = f"FAILED: {future.exception()}"
            typer.echo(f"[{n}/{len(todo)}] {cell.name}: {report} (about {left:.0f} min left)")
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt must not wait for the whole grid
    return failed


def train_in_process(
    cell: Cell, workdir: Workdir, settings: Settings, gpu_id: int, test: bool = True
) -> None:
    """Run `train_cell.py`; its output goes to a log file beside the result."""
    log = workdir.result(cell).with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("train_cell.py")), str(workdir.root)]
    command += [cell.corpus, str(cell.fold), cell.system, str(cell.seed)]
    command += ["--settings", json.dumps(dict(settings)), "--gpu-id", str(gpu_id)]
    command += ["--results", workdir.results, "--test" if test else "--no-test"]
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    with log.open("wb") as output:
        done = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        raise CtxvecError(f"training ended with code {done.returncode}, see {log}")


def describe(result: Path) -> str:
    """Scores and time of a finished cell, in a few words."""
    cell = read_json(result)
    report = f"dev F {100 * cell['dev_f']:.1f}, {cell['train_seconds']:.0f} s"
    if "predicted" in cell:
        report += f", test F {100 * total_f(sentence_counts(cell['gold'], cell['predicted'])):.1f}"
    return report


if __name__ == "__main__":
    run_script(main)
