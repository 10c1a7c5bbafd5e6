"""`spacy ctxvec pretrain`: a biLM from raw text."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import srsly
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from .. import errors
from ..training import pretrain as training
from ..training.config import read_pretrain_config
from ..training.estimate import estimate_run
from .options import Exclude, GpuId, Hours, JsonRecords, Processes, Restart

SPEED_SECONDS = 300.0  # that the time left is estimated from; evaluations belong to it
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
        (work / training.CHECKPOINT).unlink(missing_ok=True)
    with show as progress:
        folder = training.pretrain(config, work, progress, n_process=n_process, gpu_id=gpu_id)
    if folder is None:
        show.end({"stopped": str(work)}, ["Stopped; the same command goes on from here."])
    else:
        show.end({"model": str(folder)}, [f"Model: {folder}"])


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


def shown(config: training.PretrainConfig, *, json: bool) -> Silence | JsonLines | Bars:
    """Where a run shows how far it is; under `torchrun`, its first process does."""
    if os.environ.get("RANK", "0") != "0":
        return Silence()
    return JsonLines() if json else Bars(config)


class Silence:
    """Progress that nobody sees."""

    def __enter__(self) -> training.Progress:
        return training.Progress()

    def __exit__(self, *exception: object) -> None:
        pass

    def end(self, record: dict[str, Any], lines: list[str]) -> None:
        pass


class JsonLines:
    """Progress as one JSON record a line."""

    def __enter__(self) -> training.Progress:
        return training.Progress(
            problems=lambda line: print(srsly.json_dumps({"problem": line})),
            training=lambda record: print(srsly.json_dumps(record), flush=True),
            advice=lambda line: print(srsly.json_dumps({"advice": line})),
        )

    def __exit__(self, *exception: object) -> None:
        pass

    def end(self, record: dict[str, Any], lines: list[str]) -> None:
        print(srsly.json_dumps(record))


class Bars:
    """Progress bars of a run: tokens prepared, then tokens trained on, with the last figures."""

    def __init__(self, config: training.PretrainConfig):
        self.config = config
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(table_column=Column(min_width=8)),
            speed_estimate_period=SPEED_SECONDS,
        )  # fmt: skip
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> training.Progress:
        self.bar.start()
        return training.Progress(
            corpus=self._corpus, problems=self._print, training=self._training,
            tick=self._training, advice=self._print,
        )  # fmt: skip

    def __exit__(self, *exception: object) -> None:
        self.bar.stop()

    def end(self, record: dict[str, Any], lines: list[str]) -> None:
        for line in lines:
            self._print(line)

    def _print(self, line: str) -> None:
        self.bar.console.print(line, highlight=False, markup=False)

    def _task(self, name: str, total: float | None) -> Any:
        if name not in self.tasks:
            self.tasks[name] = self.bar.add_task(name, total=total, note="")
        return self.tasks[name]

    def _corpus(self, name: str, n_tokens: int) -> None:
        self.bar.advance(self._task(name, self.config.corpus_tokens or None), n_tokens)

    def _training(self, record: dict[str, Any]) -> None:
        if "training" not in self.tasks:
            is_sampled = self.config.training.softmax == "sampled"
            self._print(FULL + SAMPLED * is_sampled + OTHERS)
        found = [f"{record[name]:.0f} {name}" for name in ("forward", "backward") if record[name]]
        note = (
            f"{record['tokens'] / 1e6:,.2f}M tokens, {record['tokens_per_second']:,}/s, held-out "
            f"{' '.join(found) or 'not yet measured'}"
        )
        self.bar.update(self._task("training", 1.0), completed=record["done"], note=note)
