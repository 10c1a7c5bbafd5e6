"""Where in its text a training stands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Position:
    """The step that comes next: number `step` of a group of an epoch's plan."""

    epoch: int = 0
    group: int = 0
    step: int = 0
