"""`spacy ctxvec layers`: which layers of an encoder each component has learned to read."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import srsly
import typer
from rich.console import Console
from rich.table import Table

from .. import errors
from ..analysis.layer_weights import Weights, draw_weights, layer_name, layer_weights
from .opening import load_pipeline
from .options import Json


def layers_cli(
    pipelines: Annotated[
        list[str], typer.Argument(help="Trained pipelines; those of several seeds give a spread")
    ],
    plot: Annotated[Path | None, typer.Option("--plot", help="Image to write")] = None,
    json: Json = False,
) -> None:
    """Show the weight that each component has learned for each layer of its encoder.

    Weights compare where the layers are standardised before the mix, as they are by default.
    """
    rows = layer_weights([load_pipeline(name) for name in pipelines])
    if plot is not None:
        try:
            draw_weights(rows, plot)
        except OSError as error:
            message = errors.CANNOT_WRITE_PLOT.format(path=plot, error=error.strerror)
            raise errors.CtxvecError(message) from error
    if json:
        typer.echo(srsly.json_dumps([asdict(row) for row in rows], indent=2))
        return
    console = Console(highlight=False)
    console.print(_table(rows))
    if any(row.n_pipelines > 1 for row in rows):
        console.print("After ±: the standard deviation over the pipelines.", style="dim")
    if plot is not None:
        console.print(f"Plot: {plot}", markup=False, soft_wrap=True)


def _table(rows: list[Weights]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("component", "encoder", "pipelines"):
        table.add_column(title)
    for layer in range(max(len(row.mean) for row in rows)):
        table.add_column(layer_name(layer), justify="right", no_wrap=True)
    table.add_column("gamma", justify="right")
    for row in rows:
        spread = row.deviation or [None] * len(row.mean)
        weights = [
            f"{mean:.3f}" if sd is None else f"{mean:.3f} ± {sd:.3f}"
            for mean, sd in zip(row.mean, spread)
        ]
        table.add_row(
            row.component, row.encoder, str(row.n_pipelines), *weights, f"{row.gamma:.2f}"
        )
    return table
