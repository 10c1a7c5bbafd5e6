"""One LSTM layer: both ways to run it, gradients by finite differences, ragged batches."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from spacy_ctxvec.nn.kernels import KeptKernels, can_lay_out
from spacy_ctxvec.nn.lstm import LSTM

KINDS = {
    "plain": {},
    "projected": {"output_width": 2},
    "cell clip": {"cell_clip": 0.3},
    "both clips, projected": {"output_width": 2, "cell_clip": 0.3, "output_clip": 0.1},
}
BATCH_SIZES = torch.tensor([3, 3, 2, 1, 1])


def make(kind: str) -> LSTM:
    sizes = {"input_width": 3, "hidden_width": 4, "output_width": 4}
    return LSTM(**{**sizes, **KINDS[kind]})


def states(lstm: LSTM, n_rows: int) -> tuple[Tensor, Tensor]:
    h = 0.2 * torch.randn(n_rows, lstm.weight_hh.shape[1])
    return h, 0.2 * torch.randn(n_rows, lstm.weight_ih.shape[0] // 4)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_finite_differences(kind):
    lstm = make(kind).double()
    names, parameters = zip(*lstm.named_parameters())
    x = torch.randn(10, 3, dtype=torch.double, requires_grad=True)
    state = [part.double().requires_grad_() for part in states(lstm, 3)]

    def run(x: Tensor, h: Tensor, c: Tensor, *values: Tensor) -> tuple[Tensor, ...]:
        replaced = dict(zip(names, values))
        y, (h, c) = functional_call(lstm, replaced, (x, BATCH_SIZES, (h, c)))
        return y, h, c

    assert torch.autograd.gradcheck(run, (x, *state, *parameters), atol=1e-6)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("batch_sizes", [BATCH_SIZES, torch.tensor([2] * 5)])
@pytest.mark.parametrize("state", [False, True])
@pytest.mark.parametrize("biases", [{}, {"bias_hh": True, "forget_bias": 1.0}])
def test_the_fused_kernels_equal_the_steps(keeps, batch_sizes, state, biases):
    """Where weights are kept, the library's own form of them is used for rectangles."""
    lstm = LSTM(input_width=3, hidden_width=4, output_width=4, **biases)
    lstm.kept = KeptKernels() if keeps else None
    x = torch.randn(10, 3)
    before = states(lstm, int(batch_sizes[0])) if state else None
    with torch.no_grad():
        assert bool(lstm.ragged_cost(x)) == (keeps and can_lay_out(x.dtype))
        fused, fused_state = lstm(x, batch_sizes, before)
        lstm.cell_clip = 1e9  # a clip that never bites: the steps of our own
        assert not lstm.is_plain and not lstm.ragged_cost(x)
        steps, steps_state = lstm(x, batch_sizes, before)
    for got, want in zip((fused, *fused_state), (steps, *steps_state)):
        assert torch.allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_depend_on_their_neighbours(kind):
    lstm = make(kind)
    h, c = states(lstm, 3)
    rows = [torch.randn(n, 3) for n in (5, 3, 2)]
    packed = torch.nn.utils.rnn.pack_sequence(rows)
    with torch.no_grad():
        y, (h_after, c_after) = lstm(packed.data, packed.batch_sizes, (h, c))
        unpacked = torch.nn.utils.rnn.PackedSequence(y, packed.batch_sizes)
        together = torch.nn.utils.rnn.unpack_sequence(unpacked)
        for i, row in enumerate(rows):
            steps = torch.ones(len(row), dtype=torch.long)
            alone, (h_alone, c_alone) = lstm(row, steps, (h[i : i + 1], c[i : i + 1]))
            assert torch.allclose(alone, together[i], atol=1e-6)
            assert torch.allclose(h_alone[0], h_after[i], atol=1e-6)
            assert torch.allclose(c_alone[0], c_after[i], atol=1e-6)


def test_clips_bound_what_they_clip():
    lstm = make("both clips, projected")
    with torch.no_grad():
        y, (h, c) = lstm(10 * torch.randn(10, 3), BATCH_SIZES)
    assert y.abs().max() == torch.tensor(0.1) and c.abs().max() == torch.tensor(0.3)
    assert h.abs().max() <= torch.tensor(0.1)


def test_the_stored_bias_holds_the_forget_bias():
    assert make("plain").bias.tolist() == [0.0] * 4 + [1.0] * 4 + [0.0] * 8


@pytest.mark.parametrize("kind", ["plain", "both clips, projected"])
@pytest.mark.parametrize("change", ["in place", "another weight", "another precision"])
def test_a_weight_that_has_changed_is_prepared_anew(kind, change):
    lstm = make(kind)
    lstm.kept = KeptKernels()
    x, sizes = torch.randn(10, 3), torch.tensor([2] * 5)
    with torch.no_grad():
        before, _ = lstm(x, sizes)
        assert torch.equal(lstm(x, sizes)[0], before)
        if change == "in place":
            lstm.weight_hh.add_(0.1)
        elif change == "another weight":
            lstm.weight_hh = torch.nn.Parameter(lstm.weight_hh + 0.1)
        else:
            lstm, x = lstm.double(), x.double()
        after, _ = lstm(x, sizes)
    recorded, _ = lstm(x, sizes)
    assert not torch.equal(after.float(), before) or change == "another precision"
    assert torch.allclose(after, recorded, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_follow_the_optimizers_of_pytorch(kind):
    """Fused ones write behind the versions by which PyTorch tells that a tensor has changed."""
    lstm, x = make(kind), torch.randn(10, 3)
    optimizer = torch.optim.AdamW(lstm.parameters(), lr=0.1, fused=True)
    with torch.no_grad():
        lstm(x, BATCH_SIZES)
    lstm(x, BATCH_SIZES)[0].sum().backward()
    optimizer.step()
    with torch.no_grad():
        got, _ = lstm(x, BATCH_SIZES)
    assert torch.allclose(got, lstm(x, BATCH_SIZES)[0], atol=1e-6)
