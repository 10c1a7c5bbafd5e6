"""The hand-made gradient of the LSTM's steps, against finite differences and autograd."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from spacy_ctxvec.nn import steps
from spacy_ctxvec.nn.recurrence import recurrence

BATCH_SIZES = [3, 3, 2, 1]
N, ROWS, WIDTH, HIDDEN = sum(BATCH_SIZES), 3, 2, 4


def inputs(output_width: int, dtype: torch.dtype) -> list[Tensor | None]:
    shapes = [(N, WIDTH), (4 * HIDDEN, WIDTH), (4 * HIDDEN,)]
    shapes += [(4 * HIDDEN, output_width), (output_width, HIDDEN)]
    shapes += [(ROWS, output_width), (ROWS, HIDDEN)]
    tensors: list[Tensor | None] = [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]
    if output_width == HIDDEN:
        tensors[4] = None
    return tensors


def by_autograd(x, w_ih, bias, w_hh, w_hr, h, c, batch_sizes, cell_clip, output_clip):
    outputs, ended = [], []
    for z in (x @ w_ih.t() + bias).split(batch_sizes):
        ended += [(h[n], c[n]) for n in range(len(h) - 1, len(z) - 1, -1)]
        z = z + h[: len(z)] @ w_hh.t()
        i, f, g, o = z.chunk(4, dim=1)
        c = f.sigmoid() * c[: len(z)] + i.sigmoid() * g.tanh()
        c = c.clamp(-cell_clip, cell_clip) if cell_clip else c
        h = o.sigmoid() * c.tanh()
        h = h if w_hr is None else h @ w_hr.t()
        h = h.clamp(-output_clip, output_clip) if output_clip else h
        outputs.append(h)
    ended += [(h[n], c[n]) for n in range(len(h) - 1, -1, -1)]
    last = [torch.stack(parts[::-1]) for parts in zip(*ended)]
    return torch.cat(outputs), last[0], last[1]


def test_the_steps_are_scripted():
    """Otherwise they hold Python's lock, and the directions wait for each other."""
    script = torch.jit.script(steps._steps)
    assert isinstance(script, torch.jit.ScriptFunction)
    assert steps.run_steps is not steps._steps and steps.run_back is not steps._back


def test_without_torchscript_the_functions_run_as_they_stand(monkeypatch):
    def missing(*args):
        raise RuntimeError("not supported")

    monkeypatch.setattr(torch.jit, "script", missing)
    assert steps._scripted(steps._steps) is steps._steps
    tensors = inputs(3, torch.float32)
    want = recurrence(*tensors, BATCH_SIZES, 0.4, 0.2)
    wanted = torch.autograd.grad(want[0].sum(), tensors)
    monkeypatch.setattr("spacy_ctxvec.nn.recurrence.run_steps", steps._steps)
    monkeypatch.setattr("spacy_ctxvec.nn.recurrence.run_back", steps._back)
    got = recurrence(*tensors, BATCH_SIZES, 0.4, 0.2)
    found = torch.autograd.grad(got[0].sum(), tensors)
    for mine, theirs in zip([*got, *found], [*want, *wanted]):
        assert torch.allclose(mine, theirs, atol=1e-6)


@pytest.mark.parametrize("output_width", [HIDDEN, 3])
@pytest.mark.parametrize("clips", [(0.0, 0.0), (0.4, 0.2)], ids=["no clips", "clips"])
def test_equals_autograd_and_finite_differences(output_width, clips):
    tensors = inputs(output_width, torch.double)
    given = [t for t in tensors if t is not None]
    results = []
    for function in (recurrence, by_autograd):
        y = function(*tensors, BATCH_SIZES, *clips)
        loss = sum((part * torch.arange(part.numel()).view_as(part)).sum() for part in y)
        results.append([*y, *torch.autograd.grad(loss, given)])
    for mine, want in zip(*results):
        assert torch.allclose(mine, want, atol=1e-9)

    def run(*values: Tensor):
        values = iter(values)
        return recurrence(*(t if t is None else next(values) for t in tensors), BATCH_SIZES, *clips)

    assert torch.autograd.gradcheck(run, given)


def test_cells_are_summed_up_in_float32():
    single = inputs(3, torch.float32)
    half = [t.detach().bfloat16() for t in single]
    y, _, c = recurrence(*half, BATCH_SIZES, 3.0, 3.0)
    want = recurrence(*single, BATCH_SIZES, 3.0, 3.0)
    assert y.dtype == torch.bfloat16 and c.dtype == torch.float32
    assert torch.allclose(y.float(), want[0], atol=0.05)
