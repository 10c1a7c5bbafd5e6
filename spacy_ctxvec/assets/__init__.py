"""The models that come with the package."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from ..formats.native import EncoderModel, load_native

FOLDER = Path(__file__).parent


@lru_cache(maxsize=1)
def shipped_model(name: str) -> EncoderModel:
    """A shipped model by name, read once a process."""
    return load_native(FOLDER / name)
