"""`spacy ctxvec pretrain`: a biLM from raw text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from .. import errors
from ..training import pretrain as training
from ..training.config import read_pretrain_config


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
    json: Annotated[bool, typer.Option("--json", help="Print one JSON record a line")] = False,
) -> None:
    """Train a biLM on your own text. Run the same command again to continue after a stop."""
    config = read_pretrain_config(config_path, text_folder(text))
    if json:
        report = training.Progress(training=lambda record: print(srsly.json_dumps(record)))
        folder = training.pretrain(config, work, report)
        print(srsly.json_dumps({"model": str(folder)}))
        return
    with Bars(config) as report:
        folder = training.pretrain(config, work, report)
    Console().print(f"Model: {folder}")


def text_folder(option: Path | None) -> Path:
    if option is not None:
        return option
    data = os.environ.get("CTXVEC_DATA")
    if data is None:
        raise errors.CtxvecError(errors.NO_TEXT_FOLDER)
    return Path(data) / "text"


class Bars:
    """Progress bars of a run: tokens prepared, then tokens trained on, with the last figures."""

    def __init__(self, config: training.PretrainConfig):
        self.config = config
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
        )  # fmt: skip
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> training.Progress:
        self.bar.start()
        return training.Progress(corpus=self._corpus, training=self._training)

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def _task(self, name: str, total: int) -> Any:
        if name not in self.tasks:
            self.tasks[name] = self.bar.add_task(name, total=total, note="")
        return self.tasks[name]

    def _corpus(self, name: str, n_tokens: int) -> None:
        self.bar.advance(self._task(name, self.config.corpus_tokens), n_tokens)

    def _training(self, record: dict[str, Any]) -> None:
        note = (
            f"{record['tokens']:,} tokens, {record['tokens_per_second']:,}/s, held-out perplexity "
            f"{record['forward']:.0f} forward, {record['backward']:.0f} backward"
        )
        task = self._task("training", self.config.training.tokens)
        self.bar.update(task, completed=record["tokens"], note=note)
