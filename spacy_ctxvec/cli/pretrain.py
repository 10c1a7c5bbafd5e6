"""`spacy ctxvec pretrain`: a biLM from raw text."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import errors
from ..training.config import read_pretrain_config
from ..training.estimate import estimate_run
from ..training.perplexity import DIRECTIONS
from ..training.pretrain import PretrainConfig, pretrain
from ..training.running import CHECKPOINT
from .options import Exclude, GpuId, Hours, JsonRecords, Processes, Restart
from .progress import Bars, JsonLines, Silence, shown_run

FULL = "Held-out perplexity is over the full softmax"
SAMPLED = "; the training loss is sampled and does not compare"
OTHERS = "; perplexities of different vocabularies do not compare."


def pretrain_cli(
    config_path: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Config file, [pretrain]")
    ],
    work: Annotated[
        Path, typer.Argument(file_okay=False, help="Folder for corpus, checkpoints and model")
    ],
    text: Annotated[
        Path | None,
        typer.Option("--text", help="Folder with the text; default: `text` in CTXVEC_DATA"),
    ] = None,
    exclude: Exclude = None,
    hours: Hours = 0.0,
    n_process: Processes = 1,
    gpu_id: GpuId = -1,
    restart: Restart = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Prepare the text, tell what training would take")
    ] = False,
    json: JsonRecords = False,
) -> None:
    """Train a biLM on your own text. Run the same command again to resume after a stop."""
    config = read_pretrain_config(config_path, text_folder(text))
    config = replace(config, exclude=[*config.exclude, *map(_absolute, exclude or [])])
    if hours:
        config = replace(config, training=replace(config.training, hours=hours))
    show = shown(config, json=json)
    if dry_run:
        with show as progress:
            estimate = estimate_run(config, work, progress, n_process=n_process)
        show.end(asdict(estimate), estimate.lines())
        return
    if restart:
        (work / CHECKPOINT).unlink(missing_ok=True)
    with show as progress:
        folder = pretrain(config, work, progress, n_process=n_process, gpu_id=gpu_id)
    show.end_run(work, folder)


def _absolute(pattern: str) -> str:
    """A pattern of the command line is relative to where the command runs."""
    return str(Path.cwd() / Path(pattern).expanduser())


def text_folder(option: Path | None) -> Path:
    if option is not None:
        return option
    data = os.environ.get("CTXVEC_DATA")
    if data is None:
        raise errors.CtxvecError(errors.NO_TEXT_FOLDER)
    return Path(data) / "text"


def shown(config: PretrainConfig, *, json: bool) -> Silence | JsonLines | Bars:
    """Where a run of a language model shows how far it is."""
    sampled = SAMPLED * (config.training.softmax == "sampled")
    return shown_run(FULL + sampled + OTHERS, config.corpus_tokens or None, perplexities, json=json)


def perplexities(record: Mapping[str, Any]) -> str:
    found = [f"{record[name]:.0f} {name}" for name in DIRECTIONS if record[name]]
    return f"held-out {' '.join(found) or 'not yet measured'}"
