"""The learning curve of a run: its log, read and drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import errors

LOG = "log.jsonl"
CURVE = "curve.png"
COLOURS = {"forward": "#d1602c", "backward": "#5b8db8", "perplexity": "#d1602c"}
BLEU_COLOUR = "#3d7d5c"


def read_log(path: Path) -> list[dict[str, Any]]:
    """The records of a run by rising step; none where there is no file.

    A run that was killed goes on from a checkpoint older than its last records, and one that was
    begun anew from step 0: both log steps again. So a record replaces all earlier ones of its own
    and of later steps. Lines that a kill left half-written are passed over.
    """
    records: list[dict[str, Any]] = []
    for line in path.read_bytes().split(b"\n") if path.exists() else []:
        record = _record(line)
        if record is not None:
            while records and records[-1]["step"] >= record["step"]:
                records.pop()
            records.append(record)
    return records


def draw_curve(log: Path, path: Path) -> None:
    """Draw the perplexities, BLEU where there is any, and the learning rate of a log against the
    tokens seen.

    path: of the image; its form follows from its ending. Nothing is written for a log without
        perplexities.

    CtxvecError without matplotlib; OSError where `path` cannot be written.
    """
    records = read_log(log)
    if not any(record.get(name) for record in records for name in COLOURS):
        return
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        message = errors.NO_CURVE.format(path=path, error=error)
        raise errors.CtxvecError(message) from error
    bleu = [(r["tokens"], r["bleu"]) for r in records if r.get("bleu") is not None]
    heights = (4, 3, 1) if bleu else (4, 1)
    figure = Figure(figsize=(6.4, 0.4 + 0.8 * sum(heights)), layout="constrained")
    perplexity, *middle, rate = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
    _draw_perplexities(perplexity, records)
    for axes in middle:
        _draw_bleu(axes, bleu)
    _draw_rate(rate, records)
    figure.savefig(path, dpi=110)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) and {"step", "tokens"} <= record.keys() else None


def _draw_perplexities(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import LogFormatter

    for name, colour in COLOURS.items():
        found = [(r["tokens"], r[name]) for r in records if r.get(name)]
        if found:
            axes.plot(
                *zip(*found),
                ".-",
                color=colour,
                markersize=3,
                label=f"{name}, last {found[-1][1]:.1f}",
            )
    axes.set_yscale("log")
    for set_formatter in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        set_formatter(LogFormatter(minor_thresholds=(1.5, 0.7)))
    axes.set_ylabel("held-out perplexity\n(full softmax)")
    axes.legend(frameon=False)
    axes.grid(which="both", alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_bleu(axes: Any, found: Sequence[tuple[int, float]]) -> None:
    label = f"last {found[-1][1]:.1f}"
    axes.plot(*zip(*found), ".-", color=BLEU_COLOUR, markersize=3, label=label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("held-out BLEU")
    axes.legend(frameon=False, loc="lower right")
    axes.grid(alpha=0.2)
    axes.spines[["top", "right"]].set_visible(False)


def _draw_rate(axes: Any, records: Sequence[dict[str, Any]]) -> None:
    from matplotlib.ticker import EngFormatter

    found = [(r["tokens"], r["learn_rate"]) for r in records if "learn_rate" in r]
    if found:
        axes.plot(*zip(*found), ".-", color="#606870", markersize=3)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("learning\nrate")
    axes.set_xlabel("tokens")
    axes.xaxis.set_major_formatter(EngFormatter())
    axes.spines[["top", "right"]].set_visible(False)
