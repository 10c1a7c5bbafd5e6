"""Options that several commands have, with one name and one meaning each."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

Exclude: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--exclude", help="Evaluation texts: leave out documents that overlap them"),
]
Hours: TypeAlias = Annotated[
    float, typer.Option("--hours", help="End after so many hours of training")
]
Processes: TypeAlias = Annotated[
    int, typer.Option("--n-process", "-n", help="Processes that tokenise; -1: all cores")
]
GpuId: TypeAlias = Annotated[int, typer.Option("--gpu-id", "-g", help="GPU; -1: CPU")]
Restart: TypeAlias = Annotated[
    bool, typer.Option("--restart", help="Train from the beginning; default: resume")
]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON")]
JsonRecords: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print one JSON record a line")
]
