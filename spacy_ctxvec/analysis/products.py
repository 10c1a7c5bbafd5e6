"""The LSTM layers of an encoder alone, their matrix products alone, and the library's LSTM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from ..nn.bilm import BiLM
from ..nn.kernels import turned
from ..nn.lstm import LSTM
from ..nn.mtlstm import MTLSTM
from ..nn.packing import Packing
from ..nn.parallel import can_share, run_all
from ..types import IntArray

LSTMEncoder: TypeAlias = BiLM | MTLSTM


def n_operations(module: LSTMEncoder, lengths: IntArray) -> int:
    """Multiplications and additions of the LSTMs' products over sequences of these lengths."""
    n_positions = int(_positions(module, lengths).sum())
    weights = [w for lstm in _lstms(module) for w in (lstm.weight_ih, lstm.weight_hh)]
    weights += [lstm.weight_hr for lstm in _lstms(module) if lstm.weight_hr is not None]
    return 2 * n_positions * sum(w.numel() for w in weights)


def lstm_pass(module: LSTMEncoder, lengths: IntArray, batch_size: int) -> Callable[[], None]:
    """All layers above the word vectors, which are random."""
    width = _input_width(module)
    batches = [
        (
            torch.randn(int(part.sum()) + 2, width, device=module.device),
            np.arange(int(part.sum())) + 2,
            part,
        )
        for part in _batches(lengths, batch_size)
    ]

    def run() -> None:
        for vectors, index, part in batches:
            module(vectors, index, part)

    return run


def products_pass(module: LSTMEncoder, lengths: IntArray, batch_size: int) -> Callable[[], None]:
    """The products of the same steps and nothing else, the directions at the same time."""
    directions = [_lstms(module.forward_lstms), _lstms(module.backward_lstms)]
    parts = list(_batches(lengths, batch_size))
    sizes = [Packing.of(_positions(module, part)).batch_sizes.tolist() for part in parts]
    prepared = [[_Products(lstm, sizes) for lstm in lstms] for lstms in directions if lstms]

    def run() -> None:
        for batch in range(len(sizes)):
            run_all(
                [partial(_run_layers, products, batch) for products in prepared],
                threads=can_share(),
            )

    return run


def library_pass(
    module: LSTMEncoder,
    lengths: IntArray,
    batch_size: int,
    *,
    backward: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Callable[[], None]:
    """`torch.nn.LSTM` of the same sizes, packed: no clips, no skip connections, no characters.

    backward: there and back, to the gradients of weights and inputs
    """
    first = _lstms(module)[0]
    hidden, output = first.weight_ih.shape[0] // 4, first.weight_hh.shape[1]
    layers = len(module.forward_lstms)
    projection = output if output != hidden else 0
    # The directions of a biLM never mix; an MT-LSTM is one LSTM of both.
    is_bilm = isinstance(module, BiLM)
    n_stacks = len(module.config.direction_numbers) if isinstance(module, BiLM) else 1
    place: dict[str, Any] = {"device": module.device, "dtype": dtype}
    settings = {"proj_size": projection, "bidirectional": not is_bilm, **place}
    width = _input_width(module)
    stacks = [nn.LSTM(width, hidden, layers, **settings) for _ in range(n_stacks)]
    packed: list[PackedSequence] = [
        pack_sequence(
            [torch.randn(int(n), width, **place) for n in _positions(module, part)],
            enforce_sorted=False,
        )
        for part in _batches(lengths, batch_size)
    ]

    weights = [weight for stack in stacks for weight in stack.parameters()]
    for batch in packed:
        batch.data.requires_grad_(backward)

    def run() -> None:
        with torch.set_grad_enabled(backward):
            for batch in packed:
                outputs = [stack(batch)[0].data for stack in stacks]
                if backward:
                    torch.autograd.grad([y.sum() for y in outputs], [batch.data, *weights])

    return run


class _Products:
    """The products of one LSTM over the steps of some batches, into memory that is there."""

    def __init__(self, lstm: LSTM, sizes: Sequence[Sequence[int]]):
        self.sizes = sizes
        self.w_ih = lstm.weight_ih.detach()
        self.w_hh = turned(lstm.weight_hh.detach())
        self.w_hr = None if lstm.weight_hr is None else turned(lstm.weight_hr.detach())
        longest = max(map(sum, sizes))
        rows = max(of_batch[0] for of_batch in sizes)
        hidden, output = len(self.w_ih) // 4, len(self.w_hh)
        made = self.w_ih.new_zeros
        self.x = made(longest, self.w_ih.shape[1]).normal_()
        self.bias = made(4 * hidden)
        self.gates = made(longest, 4 * hidden)
        self.h, self.y = made(rows, output).normal_(), made(rows, hidden).normal_()
        self.out = made(rows, output)

    def run(self, batch: int) -> None:
        sizes, start = self.sizes[batch], 0
        n = sum(sizes)
        torch.addmm(self.bias, self.x[:n], self.w_ih.t(), out=self.gates[:n])
        for n in sizes:
            self.gates[start : start + n].addmm_(self.h[:n], self.w_hh)
            if self.w_hr is not None:
                torch.mm(self.y[:n], self.w_hr, out=self.out[:n])
            start += n


def _run_layers(products: Sequence[_Products], batch: int) -> None:
    for layer in products:
        layer.run(batch)


def _lstms(module: nn.Module) -> list[LSTM]:
    return [m for m in module.modules() if isinstance(m, LSTM)]


def _input_width(module: LSTMEncoder) -> int:
    weight: Tensor = _lstms(module)[0].weight_ih
    return weight.shape[1]


def _positions(module: LSTMEncoder, lengths: IntArray) -> IntArray:
    """Steps of each sequence: a biLM reads the two sentence marks as well."""
    return lengths + 2 if isinstance(module, BiLM) else lengths


def _batches(lengths: IntArray, batch_size: int) -> list[IntArray]:
    return [lengths[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
