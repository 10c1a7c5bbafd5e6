"""A clipped, projected LSTM over a packed batch, and its gradient by hand.

Autograd would record a dozen operations a step and add up the gradients of the weights step by
step; here all steps share a few buffers, and each weight's gradient is one product at the end. The
steps themselves are in `steps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from .kernels import Packed, turned
from .steps import run_back, run_steps


class Kernels(NamedTuple):
    """The weights of the steps, W_hh and W_hr, each `turned` or packed; W_hr may be missing."""

    w_hh: Tensor | None = None
    w_hr: Tensor | None = None
    packed_hh: Packed | None = None
    packed_hr: Packed | None = None


def recurrence(
    x: Tensor,
    w_ih: Tensor,
    bias: Tensor,
    w_hh: Tensor,
    w_hr: Tensor | None,
    h: Tensor,
    c: Tensor,
    batch_sizes: Sequence[int],
    cell_clip: float,
    output_clip: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Packed outputs (n, output_width), and output and cell of each row after its last step.

    x (n, input_width); w_ih (4 * hidden, input_width), bias (4 * hidden,) and
        w_hh (4 * hidden, output_width) in blocks input, forget, candidate, output;
        w_hr (output_width, hidden) or None
    h (n_rows, output_width), c (n_rows, hidden): the state before the first step
    batch_sizes: rows still running at each step; clips: 0 for none

    The equations are those of `lstm.LSTM`. Cells are summed up in float32 at least.
    """
    return _Recurrence.apply(  # type: ignore[no-any-return]
        x, w_ih, bias, w_hh, w_hr, h, c, list(batch_sizes), float(cell_clip), float(output_clip)
    )


def forward_steps(
    gates: Tensor,
    kernels: Kernels,
    h: Tensor,
    c: Tensor,
    batch_sizes: list[int],
    cell_clip: float,
    output_clip: float,
) -> tuple[Tensor, ...]:
    """Gates, cells and outputs of all positions, and `recurrence`'s last output and cell.

    gates (n, 4 * hidden): W_ih x + b, which are written over. Nothing is recorded.
    """
    cells = gates.new_empty(
        len(gates), c.shape[1], dtype=torch.promote_types(gates.dtype, torch.float32)
    )
    outputs = gates.new_empty(len(gates), h.shape[1])
    last = run_steps(
        gates, cells, outputs, *kernels, h, c.to(cells.dtype), batch_sizes, cell_clip, output_clip
    )
    return (gates, cells, outputs, *last)


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        w_ih: Tensor,
        bias: Tensor,
        w_hh: Tensor,
        w_hr: Tensor | None,
        h: Tensor,
        c: Tensor,
        batch_sizes: list[int],
        cell_clip: float,
        output_clip: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        kernels = Kernels(turned(w_hh), None if w_hr is None else turned(w_hr))
        gates = torch.addmm(bias, x, w_ih.t())
        gates, cells, outputs, h_last, c_last = forward_steps(
            gates, kernels, h, c, batch_sizes, cell_clip, output_clip
        )
        ctx.save_for_backward(x, gates, cells, outputs, w_ih, w_hh, w_hr, h, c)
        ctx.settings = (batch_sizes, cell_clip, output_clip)
        return outputs, h_last, c_last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, gates, cells, outputs, w_ih, w_hh, w_hr, h, c = ctx.saved_tensors
        batch_sizes, *clips = ctx.settings
        d_gates, d_projected = torch.empty_like(gates), torch.empty_like(outputs)
        dh, dc = gradients[1].clone(), gradients[2].to(cells.dtype, copy=True)
        run_back(
            gates, cells, outputs, w_hh, w_hr, c.to(cells.dtype), gradients[0],
            d_gates, d_projected, dh, dc, batch_sizes, *clips,
        )  # fmt: skip
        d_w_hh = d_gates.t() @ _previous(outputs, h, batch_sizes)
        d_w_hr = None if w_hr is None else d_projected.t() @ _unprojected(gates, cells)
        d_x = d_gates @ w_ih if ctx.needs_input_grad[0] else None
        of_weights = (d_gates.t() @ x, d_gates.sum(0), d_w_hh, d_w_hr)
        return d_x, *of_weights, dh, dc.to(c.dtype), None, None, None


def _previous(outputs: Tensor, h: Tensor, batch_sizes: list[int]) -> Tensor:
    """The output that each packed position starts from, (n, output_width)."""
    parts = [h[: batch_sizes[0]]]
    parts += [
        part[:following] for part, following in zip(outputs.split(batch_sizes), batch_sizes[1:])
    ]
    return torch.cat(parts)


def _unprojected(gates: Tensor, cells: Tensor) -> Tensor:
    """What the projection of each packed position was made from, (n, hidden)."""
    return gates.chunk(4, dim=1)[3] * cells.tanh().to(gates.dtype)
