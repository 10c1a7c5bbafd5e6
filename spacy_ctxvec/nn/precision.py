"""Precision of matrix products; weights, losses and vectors are float32 all the same."""

from __future__ import annotations

import logging
from functools import cache

import torch

from .. import errors
from ..checks import bad_setting
from .kernels import has_int8

logger = logging.getLogger(__name__)

PREDICTED = ("float32", "bfloat16", "int8")
"""What an encoder may compute in where it does not learn."""
PRECISIONS = ("auto", "float32", "bfloat16")


def compute_dtype(precision: str, device: torch.device) -> torch.dtype:
    """The type behind a `precision` setting; "auto" is bfloat16 where the hardware multiplies it.

    That is most current GPUs, and CPUs with AMX; others would emulate it slowly.
    """
    if precision not in PRECISIONS:
        expected = ", ".join(PRECISIONS)
        raise bad_setting("precision", precision, expected)
    if precision == "auto":
        precision = "bfloat16" if _multiplies_bfloat16(device) else "float32"
    return torch.bfloat16 if precision == "bfloat16" else torch.float32


@cache
def possible(precision: str, device_type: str) -> str:
    """`precision`, or float32 with a message where this machine would not be faster in it."""
    device = torch.device(device_type)
    faster = {"float32": True, "bfloat16": _multiplies_bfloat16(device), "int8": has_int8(device)}
    if faster[precision]:
        return precision
    logger.warning(errors.NO_PRECISION.format(precision=precision, device=device_type))
    return "float32"


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """Products in `dtype` inside this context. It is a setting of the thread that enters it.

    Its cache of converted weights is not: it is shared by all threads and emptied whenever one of
    them leaves, so that with it the rounding of gradients would depend on their timing.
    """
    enabled = dtype == torch.bfloat16
    return torch.autocast(device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)


def _multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return device.type == "cpu" and torch.cpu._is_amx_tile_supported()
