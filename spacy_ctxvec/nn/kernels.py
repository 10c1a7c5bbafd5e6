"""The weights of LSTMs in the forms that products are fastest with."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeAlias

import torch
from torch import Tensor


def _packed_type() -> Any:
    """A stand-in where PyTorch was built without quantised products."""
    try:
        return torch.classes.quantized.LinearPackedParamsBase
    except (AttributeError, RuntimeError):
        return Tensor


Packed: TypeAlias = _packed_type()  # type: ignore[valid-type]
"""A matrix of bytes, as PyTorch's quantised products want it."""

_LSTM_MODE = 2  # among the library's kinds of recurrent layers

_lock = threading.Lock()


class KeptKernels:
    """What was made of some weights, for as long as they stay as they are.

    Another weight in its place and PyTorch's own operations are noticed, but its fused optimizers
    are not, nor is who writes into the memory; they have to `clear`.
    """

    def __init__(self) -> None:
        self._kept: dict[object, tuple[object, object, Any]] = {}

    def clear(self) -> None:
        self._kept = {}  # a new one: what another thread is making may be of the weights before

    def get(self, make: Callable[..., Any], dtype: torch.dtype, *weights: Tensor) -> Any:
        """What `make` gets out of the weights in that type."""
        key = (make, *map(id, weights))
        origin = (dtype, *((w._version, w.data_ptr(), w.device) for w in weights))
        all_kept = self._kept
        kept = all_kept.get(key)
        if kept is None or kept[1] != origin:
            made = make(*(weight.detach().to(dtype) for weight in weights))
            # The weights themselves are kept too, so that no other ones get their ids.
            kept = all_kept[key] = (weights, origin, made)
        return kept[2]

    def __deepcopy__(self, memo: object) -> KeptKernels:
        return KeptKernels()

    def __getstate__(self) -> dict[str, Any]:
        """Nothing travels: it is made of the weights again."""
        return {"_kept": {}}


def turned(w: Tensor) -> Tensor:
    """A matrix (m, n) as (n, m). On a CPU, a product of few rows is up to twice as fast with the
    numbers in that order."""
    return w.t() if w.is_cuda else w.t().contiguous()


def packed(w: Tensor) -> Packed:
    """A matrix (m, n) in bytes, each row with a scale of its own; in 7 bits for processors without
    VNNI, which add up two products in 16 bits."""
    has_vnni = torch.cpu._is_vnni_supported()
    scales = w.abs().amax(dim=1).clamp_(min=1e-12) / (127 if has_vnni else 63)
    zeros = torch.zeros(len(w), dtype=torch.long)
    with _engine("onednn" if has_vnni else "fbgemm"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the function is to move to another package
        quantised = torch.quantize_per_channel(w.float(), scales, zeros, 0, torch.qint8)
        return torch.ops.quantized.linear_prepack(quantised, None)


def laid_out(w_ih: Tensor, w_hh: Tensor) -> Sequence[Tensor]:
    """Both matrices of a plain LSTM as the library's kernel for CPUs wants them. Otherwise it
    lays them out in each call, which takes longer than to read a sentence or two."""
    make = torch.ops.mkldnn._reorder_mkldnn_rnn_layer_weight
    return make(w_ih, w_hh, w_hh.shape[1], False, True, False, None)  # type: ignore[no-any-return]


def laid_out_lstm(
    x: Tensor, weights: Sequence[Tensor], biases: Sequence[Tensor], h: Tensor, c: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """A plain LSTM, in the precision of `x`: outputs (n_steps, n_rows, width), last output and
    cell (1, n_rows, width).

    x (n_steps, n_rows, input_width); weights: `laid_out`; biases: of both, (4 * width,) each
    """
    settings = (False, [], _LSTM_MODE, h.shape[2], 1, True, False, False, False)
    y, h, c, _ = torch.ops.aten.mkldnn_rnn_layer(x, *weights, *biases, h, c, *settings)
    return y, h, c


@cache
def can_lay_out(dtype: torch.dtype) -> bool:
    """Whether this PyTorch and this processor can: the function belongs to its compiler, and may
    go some day."""
    w, x, state = (torch.zeros(size, dtype=dtype) for size in ((4, 1), (1, 1, 1), (1, 1, 1)))
    try:
        laid_out_lstm(x, laid_out(w, w), [w[:, 0], w[:, 0]], state, state)
    except (AttributeError, RuntimeError, TypeError):
        return False
    return True


@contextmanager
def _engine(name: str) -> Iterator[None]:
    """Pack for this engine: a setting of the whole process, which both directions change."""
    engines = torch.backends.quantized
    with _lock:
        before = engines.engine
        engines.engine = name
        try:
            yield
        finally:
            engines.engine = before


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()  # another thread of the parent may have held it


def int8_product(x: Tensor, w: Packed) -> Tensor:
    """x (n, k) times a packed (m, k) -> (n, m), with one scale for all of x."""
    return torch.ops.quantized.linear_dynamic(x, w)  # type: ignore[no-any-return]


def has_int8(device: torch.device) -> bool:
    engines = {"onednn", "fbgemm"}
    return device.type == "cpu" and engines <= set(torch.backends.quantized.supported_engines)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
