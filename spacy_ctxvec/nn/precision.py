"""Precision of the matrix products of training; weights and losses are float32 all the same."""

from __future__ import annotations

import torch

from ..checks import bad_setting

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
