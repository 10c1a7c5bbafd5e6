"""How the commands of long trainings show how far they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import srsly
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBars
from rich.table import Column

from ..training.running import Progress

SPEED_SECONDS = 300.0  # that the time left is estimated from; evaluations belong to it


def shown_run(
    intro: str,
    corpus_tokens: int | None,
    measured: Callable[[Mapping[str, Any]], str],
    *,
    json: bool,
) -> Silence | JsonLines | Bars:
    """Where a run shows how far it is; under `torchrun`, its first process does.

    intro: a line before the training, on what the figures mean
    corpus_tokens: how much text is prepared, where that is known
    measured: of a record, what the last evaluation found, in words
    """
    if os.environ.get("RANK", "0") != "0":
        return Silence()
    return JsonLines() if json else Bars(intro, corpus_tokens, measured)


class Silence:
    """Progress that nobody sees."""

    def __enter__(self) -> Progress:
        return Progress()

    def __exit__(self, *exception: object) -> None:
        pass

    def end(self, record: dict[str, Any], lines: list[str]) -> None:
        """At the end of a command: what was found, as a record and in words."""

    def end_run(self, work: Path, folder: Path | None) -> None:
        """At the end of a run: the model, or None where it was stopped."""
        if folder is None:
            self.end({"stopped": str(work)}, ["Stopped; the same command goes on from here."])
        else:
            self.end({"model": str(folder)}, [f"Model: {folder}"])


class JsonLines(Silence):
    """Progress as one JSON record a line."""

    def __enter__(self) -> Progress:
        return Progress(
            problems=lambda line: print(srsly.json_dumps({"problem": line})),
            training=lambda record: print(srsly.json_dumps(record), flush=True),
            advice=lambda line: print(srsly.json_dumps({"advice": line})),
        )

    def __exit__(self, *exception: object) -> None:
        pass

    def end(self, record: dict[str, Any], lines: list[str]) -> None:
        print(srsly.json_dumps(record))


class Bars(Silence):
    """Progress bars of a run: tokens prepared, then tokens trained on, with the last figures."""

    def __init__(
        self, intro: str, corpus_tokens: int | None, measured: Callable[[Mapping[str, Any]], str]
    ):
        self.intro = intro
        self.corpus_tokens = corpus_tokens
        self.measured = measured
        self.bar = ProgressBars(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(table_column=Column(min_width=8)),
            speed_estimate_period=SPEED_SECONDS,
        )  # fmt: skip
        self.tasks: dict[str, Any] = {}

    def __enter__(self) -> Progress:
        self.bar.start()
        return Progress(
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
        self.bar.advance(self._task(name, self.corpus_tokens), n_tokens)

    def _training(self, record: dict[str, Any]) -> None:
        if "training" not in self.tasks:
            self._print(self.intro)
        note = (
            f"{record['tokens'] / 1e6:,.2f}M tokens, {record['tokens_per_second']:,}/s, "
            f"{self.measured(record)}"
        )
        self.bar.update(self._task("training", 1.0), completed=record["done"], note=note)
