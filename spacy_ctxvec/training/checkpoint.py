"""Checkpoints that are whole or absent: written beside the old one, then put in its place."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from .. import errors


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors and plain values). A kill at any byte leaves the old file intact.

    CtxvecError where it cannot be written, as on a full disk.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    try:
        with beside.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except (OSError, RuntimeError) as error:  # PyTorch hides some failed writes behind the latter
        beside.unlink(missing_ok=True)
        free = shutil.disk_usage(path.parent).free / 1e6
        message = errors.CHECKPOINT_NOT_WRITTEN.format(path=path, error=error, free=free)
        raise errors.CtxvecError(message) from error


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read what `save_checkpoint` wrote; nothing but tensors and plain values is accepted."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        message = errors.BAD_CHECKPOINT.format(path=path, error=error)
        raise errors.MalformedModelError(message) from error
