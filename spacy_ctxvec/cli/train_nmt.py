"""`spacy ctxvec train-nmt`: an MT-LSTM from parallel text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from ..training.config import read_nmt_config
from ..training.running import CHECKPOINT
from ..training.train_nmt import train_nmt
from .options import GpuId, Hours, JsonRecords, Processes, Restart
from .progress import shown_run

INTRO = (
    "BLEU is over held-out pairs, tokenised as in training; it compares with no BLEU of another "
    "tokenisation."
)


def train_nmt_cli(
    config_path: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Config file, [train_nmt]")
    ],
    work: Annotated[
        Path, typer.Argument(file_okay=False, help="Folder for pairs, checkpoints and model")
    ],
    text: Annotated[
        Path, typer.Option("--text", help="Folder that the files of the config are in")
    ] = Path(),
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Pipeline with static vectors; default: that of the config"),
    ] = None,
    hours: Hours = 0.0,
    n_process: Processes = 1,
    gpu_id: GpuId = -1,
    restart: Restart = False,
    json: JsonRecords = False,
) -> None:
    """Train a translation model for CoVe. Run the same command again to resume after a stop."""
    config = read_nmt_config(config_path, text)
    if vectors:
        config = replace(config, vectors=vectors)
    if hours:
        config = replace(config, training=replace(config.training, hours=hours))
    if restart:
        (work / CHECKPOINT).unlink(missing_ok=True)
    show = shown_run(INTRO, None, measured, json=json)
    with show as progress:
        folder = train_nmt(config, work, progress, n_process=n_process, gpu_id=gpu_id)
    show.end_run(work, folder)


def measured(record: Mapping[str, Any]) -> str:
    """What the last evaluation found, in words."""
    if record["bleu"] is None:
        return "not yet evaluated"
    return f"held-out BLEU {record['bleu']:.1f}, perplexity {record['perplexity']:.1f}"
