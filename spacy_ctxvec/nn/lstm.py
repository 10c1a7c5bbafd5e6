"""One direction of one LSTM layer over a packed batch, with the clips and projection of ELMo.

"Packed" is PyTorch's layout: rows sorted by falling length, time-major, without padding, so
that step t is the block of the `batch_sizes[t]` rows that are still running.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from .kernels import (
    KeptKernels,
    can_lay_out,
    has_int8,
    int8_product,
    laid_out,
    laid_out_lstm,
    packed,
    turned,
)
from .recurrence import Kernels, forward_steps, recurrence

# `recurrence` against `laid_out_lstm`: measured with the shipped model.
RAGGED_COST = 1.15
LSTMState = tuple[Tensor, Tensor]
"""Output (batch, output_width) and cell (batch, hidden_width) after each row's last step."""


class LSTM(nn.Module):
    """Packed (n_steps, input_width) -> packed (n_steps, output_width), and the final state.

    With blocks input, forget, candidate, output, one step is (Peters et al. 2018; Sak et al. 2014)

        z = W_ih x + W_hh h + b
        c' = clip(sigmoid(f) c + sigmoid(i) tanh(g), cell_clip)
        h' = clip(W_hr (sigmoid(o) tanh(c')), output_clip)

    Without projection and clips that is the plain LSTM, for which the library's fused kernels are
    used where they are faster. A clip of 0 means none. `bias_hh` adds a second bias to b, as
    PyTorch's own LSTM has, and `forget_bias` a number to that of every forget gate, as TensorFlow
    does.

    Computes in the precision of its input, whatever that of the weights; where `int8` is set and no
    gradient is recorded, in products of bytes, on a CPU.
    """

    def __init__(
        self,
        *,
        input_width: int,
        hidden_width: int,
        output_width: int,
        cell_clip: float = 0.0,
        output_clip: float = 0.0,
        bias_hh: bool = False,
        forget_bias: float = 0.0,
    ):
        super().__init__()
        self.cell_clip = cell_clip
        self.output_clip = output_clip
        self.forget_bias = forget_bias
        self.weight_ih = nn.Parameter(torch.empty(4 * hidden_width, input_width))
        self.weight_hh = nn.Parameter(torch.empty(4 * hidden_width, output_width))
        self.bias = nn.Parameter(torch.zeros(4 * hidden_width))
        self.bias_hh = nn.Parameter(torch.zeros(4 * hidden_width)) if bias_hh else None
        self.weight_hr: nn.Parameter | None = None
        if output_width != hidden_width:
            self.weight_hr = nn.Parameter(torch.empty(output_width, hidden_width))
            nn.init.xavier_uniform_(self.weight_hr)
        self.int8 = False
        self.kept: KeptKernels | None = None
        # TensorFlow starts from glorot uniform over the joined kernel of both inputs.
        bound = math.sqrt(6 / (input_width + output_width + 4 * hidden_width))
        nn.init.uniform_(self.weight_ih, -bound, bound)
        nn.init.uniform_(self.weight_hh, -bound, bound)
        self.bias.data[hidden_width : 2 * hidden_width] = 1.0 - forget_bias

    @property
    def is_plain(self) -> bool:
        return self.weight_hr is None and not self.cell_clip and not self.output_clip

    def forward(
        self, x: Tensor, batch_sizes: Tensor, state: LSTMState | None = None
    ) -> tuple[Tensor, LSTMState]:
        """`batch_sizes` (longest,) is an int64 tensor on the CPU; `state` is zero by default."""
        h, c = state or self._zero_state(x, int(batch_sizes[0]))
        h, c = h.to(x.dtype), c.to(x.dtype)
        if self._lays_out(x) and len(batch_sizes) * len(h) == len(x):
            return self._laid_out(x, h, c)
        fused = self.is_plain and _fused_is_faster(x)
        return (self._fused if fused else self._stepwise)(x, batch_sizes, h, c)

    def ragged_cost(self, x: Tensor) -> float:
        """What a row of a step takes where some rows are longer than others, in rows of a step
        where none is; infinite where it is much more, 0 where there is no difference."""
        if self.is_plain and _fused_is_faster(x):
            return math.inf
        return RAGGED_COST if self._lays_out(x) else 0.0

    def _lays_out(self, x: Tensor) -> bool:
        """Whether the weights are kept as the library wants them."""
        keeps = self.kept is not None and self.is_plain and not self.int8
        return keeps and not (x.is_cuda or torch.is_grad_enabled()) and can_lay_out(x.dtype)

    def _zero_state(self, x: Tensor, n_rows: int) -> LSTMState:
        hidden_width, output_width = self.weight_ih.shape[0] // 4, self.weight_hh.shape[1]
        return x.new_zeros(n_rows, output_width), x.new_zeros(n_rows, hidden_width)

    def _bias(self) -> Tensor:
        """All of b but `bias_hh`."""
        if not self.forget_bias:
            return self.bias
        added = torch.zeros_like(self.bias)
        hidden_width = len(added) // 4
        added[hidden_width : 2 * hidden_width] = self.forget_bias
        return self.bias + added

    def _biases(self) -> tuple[Tensor, Tensor]:
        """All of b, in two parts."""
        other = torch.zeros_like(self.bias) if self.bias_hh is None else self.bias_hh
        return self._bias(), other

    def _laid_out(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, LSTMState]:
        assert self.kept is not None
        weights = self.kept.get(laid_out, x.dtype, self.weight_ih, self.weight_hh)
        biases = [bias.to(x.dtype) for bias in self._biases()]
        y, h, c = laid_out_lstm(x.view(-1, len(h), x.shape[1]), weights, biases, h[None], c[None])
        return y.view(len(x), -1), (h[0], c[0])

    def _fused(
        self, x: Tensor, batch_sizes: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, LSTMState]:
        weights = [self.weight_ih, self.weight_hh, *self._biases()]
        weights = [weight.to(x.dtype) for weight in weights]
        state = (h.unsqueeze(0), c.unsqueeze(0))
        train = torch.is_grad_enabled()  # cuDNN keeps what a backward pass needs only if told
        settings = (weights, True, 1, 0.0, train, False)
        n_steps, n_rows = len(batch_sizes), len(h)
        if n_steps * n_rows == len(x):  # all rows are equally long
            steps = x.view(n_steps, n_rows, -1)
            y, h, c = torch._VF.lstm(steps, state, *settings, False)  # type: ignore[attr-defined]
            return y.view(len(x), -1), (h[0], c[0])
        y, h, c = torch._VF.lstm(x, batch_sizes, state, *settings)  # type: ignore[attr-defined]
        return y, (h[0], c[0])

    def _stepwise(
        self, x: Tensor, batch_sizes: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, LSTMState]:
        bias = self._bias() if self.bias_hh is None else self._bias() + self.bias_hh
        bias, sizes = bias.to(x.dtype), batch_sizes.tolist()
        clips = (float(self.cell_clip), float(self.output_clip))
        if not torch.is_grad_enabled():
            gates, kernels = self._prepared(x, bias)
            _, _, y, h, c = forward_steps(gates, kernels, h, c, sizes, *clips)
            return y, (h, c)
        w_ih, w_hh = self.weight_ih.to(x.dtype), self.weight_hh.to(x.dtype)
        w_hr = None if self.weight_hr is None else self.weight_hr.to(x.dtype)
        y, h, c = recurrence(x, w_ih, bias, w_hh, w_hr, h, c, sizes, *clips)
        return y, (h, c)

    def _prepared(self, x: Tensor, bias: Tensor) -> tuple[Tensor, Kernels]:
        """W_ih x + b, and the weights of the steps."""
        int8 = self.int8 and has_int8(x.device)
        form = packed if int8 else turned

        def made(w: Tensor) -> Any:
            return self.kept.get(form, x.dtype, w) if self.kept else form(w.to(x.dtype))

        hh = made(self.weight_hh)
        hr = None if self.weight_hr is None else made(self.weight_hr)
        if int8:
            from_input = int8_product(x, made(self.weight_ih)).add_(bias)
            return from_input, Kernels(packed_hh=hh, packed_hr=hr)
        return torch.addmm(bias, x, self.weight_ih.to(x.dtype).t()), Kernels(hh, hr)


def _fused_is_faster(x: Tensor) -> bool:
    """Whether the library's kernel takes less time than `recurrence` even where it lays out the
    weights in each call: in training, on a GPU and in bfloat16."""
    return x.is_cuda or torch.is_grad_enabled() or x.dtype == torch.bfloat16
