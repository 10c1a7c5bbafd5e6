"""Speeds of systems as tables, beside those of the first one, and these in a README."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import srsly
from results import insert

from spacy_ctxvec.errors import CtxvecError

Group = tuple[str, dict[str, Any]]
"""Its name and what was measured."""


def write_tables(results: Path, readme: Path, about: str, table: Callable[[Group], str]) -> None:
    """Put a table for each group of the results between the markers of the README.

    about: before the name of the machine
    """
    if not results.is_file():
        raise CtxvecError(f"Expected speeds in {results}, found none. Run `measure` first.")
    record = srsly.read_json(results)
    about = about.format(**record)
    insert(
        readme, "\n\n".join([f"{about} {machine(record)}", *map(table, record["groups"].items())])
    )


def machine(record: dict[str, Any]) -> str:
    found = record["machine"]
    return (
        f"{found['processor']}, {found['threads']} threads; torch {found['torch']}, spaCy "
        f"{found['spacy']}, Thinc {found['thinc']}, Python {found['python']}."
    )


def speed_table(speeds: list[dict[str, Any]]) -> list[str]:
    """Lines of Markdown. Of each system: `system` (its name), `batch_size` (docs), and
    `words_per_second`, the `least` and the `most` of it; `memory_mb`, None where it is unknown."""
    rows = [
        f"| {speed['system']} | {speed['batch_size']} | {speed['words_per_second']:,.0f} | "
        f"{speed['least']:,.0f} to {speed['most']:,.0f} | "
        f"{speed['words_per_second'] / base_of(speeds, speed['batch_size']):.2f} | "
        f"{in_megabytes(speed['memory_mb'])} |"
        for speed in speeds
    ]
    return [
        f"| | docs a batch | words/s | least to most | to {speeds[0]['system']} | memory |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def base_of(speeds: list[dict[str, Any]], batch_size: int) -> float:
    """The speed of the first system, at the same batch size where it was measured there."""
    of_first = {
        speed["batch_size"]: speed["words_per_second"]
        for speed in speeds
        if speed["system"] == speeds[0]["system"]
    }
    return of_first.get(batch_size, next(iter(of_first.values())))


def in_megabytes(memory: float | None) -> str:
    return "" if memory is None else f"{memory:,} MB"
