"""Sizes and settings of a model as its program wrote them: JSON from elsewhere, checked as read."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import errors

LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Options:
    """One object of a JSON file, and where it stands for the messages."""

    path: Path
    values: dict[str, Any]
    name: str = ""

    def malformed(self, key: str, expected: str, found: Any) -> errors.MalformedModelError:
        return errors.malformed_model(self.path, f"{self.name}{key}", expected, found)

    def block(self, key: str) -> Options:
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.malformed(key, "an object", value)
        return Options(self.path, value, f"{self.name}{key}.")

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number; an absent or null one is `default`, where there is one."""
        found = self.values.get(key)
        value = default if found is None else found
        if value is None or not _is_count(value):
            raise self.malformed(key, "a whole number", value)
        return value

    def clip(self, key: str) -> float:
        """A clip; absent, null and 0 mean none."""
        value = self.values.get(key) or 0.0
        if not isinstance(value, (int, float)) or not 0 <= value <= LARGEST:
            raise self.malformed(key, "a number above 0, or null", value)
        return float(value)

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.malformed(key, "true or false", value)
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.values.get(key)
        if value not in choices:
            raise self.malformed(key, " or ".join(choices), value)
        return value

    def filters(self) -> tuple[tuple[int, int], ...]:
        value = self.values.get("filters")
        pairs = value if isinstance(value, list) else []
        if not pairs or not all(_is_pair(pair) for pair in pairs):
            raise self.malformed("filters", "a list of pairs [characters, features]", value)
        return tuple((width, n) for width, n in pairs)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))
