"""Choose dropout and learning rate on dev: one grid of four points, the same for every system.

Only the dev part of the chosen folds is read, and only with seed 0; the test parts stay unread
until `grid.py` trains the final models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from cells import Workdir, grid_cells, read_json
from console import run_script
from grid import run_grid, selection, train_in_process

DROPOUT = (0.2, 0.35)
LEARN_RATE = (0.001, 0.002)


def main(
    workdir: Annotated[
        Path, typer.Option(help="Working folder", envvar="CTXVEC_NER_WORKDIR")
    ] = Path(),
    only: Annotated[
        list[str] | None, typer.Option(help="Corpora and systems; all where none is named")
    ] = None,
    folds: Annotated[int, typer.Option(help="Use the dev parts of the first so many folds")] = 1,
    jobs: Annotated[int, typer.Option(help="Trainings at the same time")] = 1,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Train each system at each point of the grid and list the mean dev F."""
    corpora, systems = selection(only or [])
    for point in [(dropout, rate) for dropout in DROPOUT for rate in LEARN_RATE]:
        scores = try_point(workdir.resolve(), point, (corpora, systems, folds), jobs, gpu_id)
        for system, dev_f in scores.items():
            typer.echo(
                f"dropout {point[0]} learn_rate {point[1]} {system}: dev F {100 * dev_f:.1f}"
            )


def try_point(
    root: Path,
    point: tuple[float, float],
    chosen: tuple[list[str], list[str], int],
    jobs: int,
    gpu_id: int,
) -> dict[str, float]:
    """Mean dev F of each system at (dropout, learning rate); what is there is not trained again."""
    corpora, systems, folds = chosen
    workdir = Workdir(root, results=f"tune/dropout-{point[0]}-rate-{point[1]}")
    settings = {"dropout": point[0], "optimizer.learn_rate": point[1]}
    cells = [c for c in grid_cells(workdir, corpora, systems, [0]) if c.fold < folds]
    run_grid(
        cells,
        workdir,
        settings,
        lambda cell: train_in_process(cell, workdir, settings, gpu_id, test=False),
        jobs,
    )
    results = {
        c: read_json(workdir.result(c))["dev_f"] for c in cells if workdir.result(c).is_file()
    }
    return {
        system: sum(f for c, f in results.items() if c.system == system)
        / max(sum(c.system == system for c in results), 1)
        for system in systems
    }


if __name__ == "__main__":
    run_script(main)
