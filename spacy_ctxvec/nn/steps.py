"""The steps of an LSTM one after another, forward and back, as TorchScript.

A step is a dozen small operations. Called from Python, they would take turns for its lock, and two
directions at the same time would be no faster than one after the other. PyTorch's own interpreter
needs no lock, and no compiler on the user's machine. Where it is missing, the same functions run as
they stand.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

from .kernels import Packed, int8_product

P = ParamSpec("P")
R = TypeVar("R")


def _scripted(function: Callable[P, R]) -> Callable[P, R]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated, but nothing else needs no compiler
            script = torch.jit.script(function)
    except Exception:  # whatever a Python or PyTorch without it says
        return function

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        # Batches differ in size all the time: what is specialised to one has to be done again.
        with torch.jit.optimized_execution(False):  # pyright: ignore[reportPrivateImportUsage]
            return script(*args, **kwargs)  # type: ignore[no-any-return]

    return run


def _steps(
    gates: Tensor,
    cells: Tensor,
    outputs: Tensor,
    w_hh: Tensor | None,
    w_hr: Tensor | None,
    packed_hh: Packed | None,
    packed_hr: Packed | None,
    h: Tensor,
    c: Tensor,
    batch_sizes: list[int],
    cell_clip: float,
    output_clip: float,
) -> tuple[Tensor, Tensor]:
    """Fill `gates`, `cells` and `outputs`; output and cell of each row after its last step.

    gates (n, 4 * hidden): W_ih x + b, and afterwards the activated gates
    cells (n, hidden), outputs (n, output_width): of each packed position
    w_hh (output_width, 4 * hidden), w_hr (hidden, output_width): `turned`; or both packed
    h (n_rows, output_width), c (n_rows, hidden): the state before the first step
    """
    hidden = cells.size(1)
    # Views of all steps at once: a slice in each step would cost as much as its arithmetic.
    of_gates = gates.split(batch_sizes)
    of_cells, of_outputs = cells.split(batch_sizes), outputs.split(batch_sizes)
    i_f = gates[:, : 2 * hidden].split(batch_sizes)
    i, f = gates[:, :hidden].split(batch_sizes), gates[:, hidden : 2 * hidden].split(batch_sizes)
    g = gates[:, 2 * hidden : 3 * hidden].split(batch_sizes)
    o = gates[:, 3 * hidden :].split(batch_sizes)
    ended_h: list[Tensor] = []
    ended_c: list[Tensor] = []
    for t in range(len(batch_sizes)):
        n = batch_sizes[t]
        if n != h.size(0):
            ended_h.append(h[n:])
            ended_c.append(c[n:])
            h, c = h[:n], c[:n]
        if w_hh is not None:
            of_gates[t].addmm_(h, w_hh)
        elif packed_hh is not None:
            of_gates[t].add_(int8_product(h, packed_hh))
        i_f[t].sigmoid_()
        g[t].tanh_()
        o[t].sigmoid_()
        cell = torch.mul(f[t], c, out=of_cells[t]).addcmul_(i[t], g[t])
        if cell_clip > 0:
            cell.clamp_(-cell_clip, cell_clip)
        y = cell.tanh()
        h = of_outputs[t]
        if w_hr is not None:
            torch.mm(y.to(gates.dtype).mul_(o[t]), w_hr, out=h)
        elif packed_hr is not None:
            h.copy_(int8_product(y.mul_(o[t]), packed_hr))
        else:
            torch.mul(o[t], y, out=h)
        if output_clip > 0:
            h.clamp_(-output_clip, output_clip)
        c = cell
    ended_h.append(h)
    ended_c.append(c)
    ended_h.reverse()
    ended_c.reverse()
    return torch.cat(ended_h), torch.cat(ended_c)


def _back(
    gates: Tensor,
    cells: Tensor,
    outputs: Tensor,
    w_hh: Tensor,
    w_hr: Tensor | None,
    c: Tensor,
    of_outputs: Tensor,
    d_gates: Tensor,
    d_projected: Tensor,
    dh: Tensor,
    dc: Tensor,
    batch_sizes: list[int],
    cell_clip: float,
    output_clip: float,
) -> None:
    """Fill `d_gates` and `d_projected`, the gradients of W_ih x + b and of the clipped outputs.

    of_outputs (n, output_width), dh (n_rows, output_width), dc (n_rows, hidden): gradients of what
        `_steps` put out; the last two become those of the state before the first step
    w_hh (4 * hidden, output_width), w_hr (output_width, hidden): as `lstm.LSTM` has them
    """
    hidden = cells.size(1)
    i, f = gates[:, :hidden].split(batch_sizes), gates[:, hidden : 2 * hidden].split(batch_sizes)
    g = gates[:, 2 * hidden : 3 * hidden].split(batch_sizes)
    o = gates[:, 3 * hidden :].split(batch_sizes)
    d_z = d_gates.split(batch_sizes)
    d_i = d_gates[:, :hidden].split(batch_sizes)
    d_f = d_gates[:, hidden : 2 * hidden].split(batch_sizes)
    d_g = d_gates[:, 2 * hidden : 3 * hidden].split(batch_sizes)
    d_o = d_gates[:, 3 * hidden :].split(batch_sizes)
    of_cells, made = cells.split(batch_sizes), outputs.split(batch_sizes)
    wanted, d_made = of_outputs.split(batch_sizes), d_projected.split(batch_sizes)
    for back in range(len(batch_sizes)):
        t = len(batch_sizes) - 1 - back
        n = batch_sizes[t]
        d_out = torch.add(dh[:n], wanted[t], out=d_made[t])
        if output_clip > 0:
            d_out.mul_(made[t].abs() < output_clip)
        d_y = d_out if w_hr is None else torch.mm(d_out, w_hr)
        cell = of_cells[t]
        before = c if t == 0 else of_cells[t - 1][:n]
        squashed = cell.tanh()
        d_cell = dc[:n]
        d_cell.add_(torch.ops.aten.tanh_backward(d_y * o[t], squashed))
        if cell_clip > 0:
            d_cell.mul_(cell.abs() < cell_clip)
        d_i[t].copy_(torch.ops.aten.sigmoid_backward(d_cell * g[t], i[t]))
        d_f[t].copy_(torch.ops.aten.sigmoid_backward(d_cell * before, f[t]))
        d_g[t].copy_(torch.ops.aten.tanh_backward(d_cell * i[t], g[t]))
        d_o[t].copy_(torch.ops.aten.sigmoid_backward(d_y * squashed, o[t]))
        d_cell.mul_(f[t])
        torch.mm(d_z[t], w_hh, out=dh[:n])


run_steps = _scripted(_steps)
run_back = _scripted(_back)
