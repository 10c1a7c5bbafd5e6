"""The steps of a clipped, projected LSTM over a packed batch, and their gradient by hand.

Autograd would record a dozen operations a step and add up the gradients of the weights step by
step; here all steps share two buffers, and each weight's gradient is one product at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def recurrence(
    from_input: Tensor,
    w_hh: Tensor,
    w_hr: Tensor | None,
    h: Tensor,
    c: Tensor,
    batch_sizes: Sequence[int],
    cell_clip: float,
    output_clip: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Packed outputs (n, output_width), and output and cell of each row after its last step.

    from_input (n, 4 * hidden): W_ih x + b of each packed position, blocks input, forget, candidate,
        output; w_hh (4 * hidden, output_width); w_hr (output_width, hidden) or None
    h (n_rows, output_width), c (n_rows, hidden): the state before the first step
    batch_sizes: rows still running at each step; clips: 0 for none

    The equations are those of `lstm.LSTM`. Cells are summed up in float32 at least.
    """
    return _Recurrence.apply(  # type: ignore[no-any-return]
        from_input, w_hh, w_hr, h, c, list(batch_sizes), cell_clip, output_clip
    )


class _Recurrence(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        from_input: Tensor,
        w_hh: Tensor,
        w_hr: Tensor | None,
        h: Tensor,
        c: Tensor,
        batch_sizes: list[int],
        cell_clip: float,
        output_clip: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        gates = from_input.clone()
        cells = torch.empty(
            len(gates), c.shape[1], dtype=torch.promote_types(gates.dtype, torch.float32),
            device=gates.device,
        )  # fmt: skip
        outputs = gates.new_empty(len(gates), w_hh.shape[1])
        h_last, c_last = h.clone(), c.to(cells.dtype, copy=True)
        kernel = w_hh.t()
        start = 0
        for n in batch_sizes:
            part = slice(start, start + n)
            i, f, g, o = _activated(gates[part].addmm_(h_last[:n], kernel))
            cell = torch.mul(f, c_last[:n], out=cells[part]).addcmul_(i, g)
            if cell_clip:
                cell.clamp_(-cell_clip, cell_clip)
            y = o * cell.tanh().to(o.dtype)
            if w_hr is not None:
                y = y @ w_hr.t()
            if output_clip:
                y.clamp_(-output_clip, output_clip)
            outputs[part] = h_last[:n] = y
            c_last[:n] = cell
            start += n
        ctx.save_for_backward(gates, cells, outputs, w_hh, w_hr, h, c)
        ctx.settings = (batch_sizes, cell_clip, output_clip)
        return outputs, h_last, c_last

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, outputs, w_hh, w_hr, h, c = ctx.saved_tensors
        batch_sizes, cell_clip, output_clip = ctx.settings
        of_outputs, dh = gradients[0], gradients[1].clone()
        dc = gradients[2].to(cells.dtype, copy=True)
        d_gates = torch.empty_like(gates)
        d_projected = torch.empty_like(outputs)
        end = len(gates)
        for t in range(len(batch_sizes) - 1, -1, -1):
            n = batch_sizes[t]
            part = slice(end - n, end)
            d_out = dh[:n] + of_outputs[part]
            if output_clip:
                d_out *= outputs[part].abs() < output_clip
            d_projected[part] = d_out
            d_y = d_out if w_hr is None else d_out @ w_hr
            before = c[:n].to(dc.dtype) if t == 0 else cells[end - n - batch_sizes[t - 1] :][:n]
            dc[:n] = _step_back(
                gates[part], cells[part], before, d_y, dc[:n], cell_clip, d_gates[part]
            )
            dh[:n] = d_gates[part] @ w_hh
            end -= n
        previous = _previous(outputs, h, batch_sizes)
        d_w_hr = None if w_hr is None else d_projected.t() @ _unprojected(gates, cells)
        return d_gates, d_gates.t() @ previous, d_w_hr, dh, dc.to(c.dtype), None, None, None


def _activated(gates: Tensor) -> tuple[Tensor, ...]:
    """The blocks input, forget, candidate, output, each through its activation, in place."""
    i, f, g, o = gates.chunk(4, dim=1)
    gates[:, : 2 * i.shape[1]].sigmoid_()
    g.tanh_()
    o.sigmoid_()
    return i, f, g, o


def _step_back(
    gates: Tensor,
    cell: Tensor,
    before: Tensor,
    d_y: Tensor,
    d_cell: Tensor,
    cell_clip: float,
    d_gates: Tensor,
) -> Tensor:
    """Write the gradient of a step's four blocks to `d_gates`; returns that of the cell before."""
    i, f, g, o = gates.chunk(4, dim=1)
    d_i, d_f, d_g, d_o = d_gates.chunk(4, dim=1)
    squashed = cell.tanh()
    d_cell = torch.addcmul(d_cell, d_y * o, 1 - squashed.square())
    if cell_clip:
        d_cell = d_cell * (cell.abs() < cell_clip)
    d_i.copy_(d_cell * g * i * (1 - i))
    d_f.copy_(d_cell * before * f * (1 - f))
    d_g.copy_(d_cell * i * (1 - g.square()))
    d_o.copy_(d_y * squashed * o * (1 - o))
    return d_cell * f


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
