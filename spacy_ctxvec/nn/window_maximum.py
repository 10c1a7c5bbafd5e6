"""The greatest value of each feature over all windows of a word's characters.

This is what convolutions of several widths with a maximum over time compute, here as one product
for all widths, for a block of words at a time: the values of the block stay in the core's cache,
and are made again on the way back instead of being kept.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

BLOCK = 2**18  # numbers of a block, about 1 MB
EVEN_WORDS = 32
"""Words come in multiples of this where that is possible: see `softmax.EVEN`."""


def window_maximum(x: Tensor, kernel: Tensor, blocked: Tensor | None = None) -> Tensor:
    """Maximum over positions of (windows of x) @ kernel, (n_words, n_features).

    x (n_words, n_positions + window - 1, width); kernel (window * width, n_features)
    blocked (n_positions, n_features): windows that a feature does not look at

    Where several windows have the greatest value, they share its gradient equally.
    """
    return _WindowMaximum.apply(x.contiguous(), kernel, blocked)  # type: ignore[no-any-return]


class _WindowMaximum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, kernel: Tensor, blocked: Tensor | None) -> Tensor:
        parts = [_values(part, kernel, blocked)[1].amax(dim=1) for part in _blocks(x, kernel)]
        maximum = torch.cat(parts) if parts else x.new_zeros(0, kernel.shape[1])
        ctx.save_for_backward(x, kernel, blocked, maximum)
        return maximum

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        x, kernel, blocked, maximum = ctx.saved_tensors
        d_x = torch.zeros_like(x)
        d_kernel = torch.zeros(kernel.shape, dtype=_sum_dtype(kernel), device=kernel.device)
        start = 0
        for part in _blocks(x, kernel):
            rows = slice(start, start + len(part))
            windows, values = _values(part, kernel, blocked)
            chosen = values.eq_(maximum[rows, None])  # 1 where the maximum is, else 0
            shared = gradients[0][rows].to(x.dtype) / chosen.sum(dim=1)
            d_values = chosen.mul_(shared[:, None]).flatten(0, 1)
            d_kernel += windows.t() @ d_values
            _add_windows(d_x[rows], (d_values @ kernel.t()).view(len(part), -1, windows.shape[1]))
            start += len(part)
        return d_x, d_kernel.to(kernel.dtype), None


def _blocks(x: Tensor, kernel: Tensor) -> tuple[Tensor, ...]:
    n_values = (x.shape[1] - kernel.shape[0] // x.shape[2] + 1) * kernel.shape[1]
    n_words = max(1, BLOCK // n_values)
    if n_words > EVEN_WORDS:
        n_words -= n_words % EVEN_WORDS
    return x.split(n_words) if len(x) else ()


def _values(x: Tensor, kernel: Tensor, blocked: Tensor | None) -> tuple[Tensor, Tensor]:
    """Windows (n_words * n_positions, window * width) and values (n_words, n_positions, n)."""
    n_words, length, width = x.shape
    window = kernel.shape[0] // width
    n_positions = length - window + 1
    shape, strides = (n_words, n_positions, window * width), (length * width, width, 1)
    # A part of a larger tensor starts somewhere inside of its memory.
    windows = x.as_strided(shape, strides, x.storage_offset()).reshape(-1, window * width)
    values = (windows @ kernel).view(n_words, n_positions, -1)
    if blocked is not None:
        values.masked_fill_(blocked, -math.inf)
    return windows, values


def _add_windows(d_x: Tensor, d_windows: Tensor) -> None:
    """Add the gradient of each window to the characters that it covers."""
    n_positions, width = d_windows.shape[1], d_x.shape[2]
    for i, part in enumerate(d_windows.split(width, dim=2)):
        d_x[:, i : i + n_positions] += part


def _sum_dtype(tensor: Tensor) -> torch.dtype:
    return torch.float64 if tensor.dtype == torch.float64 else torch.float32
