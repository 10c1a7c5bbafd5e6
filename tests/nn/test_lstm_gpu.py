"""LSTMs on a GPU: the same numbers and gradients as on the CPU, in every way to run them."""

from __future__ import annotations

import copy

import pytest
import torch

from spacy_ctxvec.nn.kernels import KeptKernels
from spacy_ctxvec.nn.lstm import LSTM

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
BATCH_SIZES = torch.tensor([3, 3, 2, 1, 1])


@pytest.mark.parametrize("sizes", [{}, {"output_width": 2, "cell_clip": 0.3, "output_clip": 0.1}])
def test_outputs_and_gradients_are_those_of_the_cpu(sizes):
    lstm = LSTM(**{"input_width": 3, "hidden_width": 4, "output_width": 4, **sizes})
    other, x = copy.deepcopy(lstm).cuda(), torch.randn(10, 3)
    found = []
    for module, inputs in ((lstm, x), (other, x.cuda())):
        y, (h, c) = module(inputs, BATCH_SIZES)
        (y.sum() + h.sum() + c.sum()).backward()
        found.append([y, h, c, *(p.grad for p in module.parameters())])
    for mine, want in zip(found[1], found[0], strict=True):
        assert torch.allclose(mine.cpu(), want, atol=1e-5)


@pytest.mark.parametrize("int8", [False, True])
def test_prediction_with_kept_kernels(int8):
    """Products of bytes are for the CPU: on a GPU the setting changes nothing."""
    lstm = LSTM(input_width=3, hidden_width=4, output_width=2, cell_clip=0.3)
    x = torch.randn(10, 3)
    with torch.no_grad():
        want, _ = lstm(x, BATCH_SIZES)
        lstm.int8, lstm.kept = int8, KeptKernels()
        lstm.cuda()
        for _ in range(2):
            got, _ = lstm(x.cuda(), BATCH_SIZES)
            assert torch.allclose(got.cpu(), want, atol=1e-5)
