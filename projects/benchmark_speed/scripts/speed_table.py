"""Speeds of systems as a table, beside those of the first one."""

from __future__ import annotations

from typing import Any


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
