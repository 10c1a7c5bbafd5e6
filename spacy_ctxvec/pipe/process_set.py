"""What a component knows of its own process alone."""

from __future__ import annotations

from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")


class ProcessSet(WeakSet[T]):
    """Objects of this process, for as long as others hold them; a copy of the set is empty."""

    def __reduce__(self) -> tuple[Any, ...]:
        return ProcessSet, ()
