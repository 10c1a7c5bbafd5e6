"""The translation model on a GPU: losses, gradients and translations are those of the CPU."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from test_nmt import LENGTHS, TARGETS, padded, seeded_model, vectors

from spacy_ctxvec.nn.beam import SearchSettings, translate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_loss_and_gradients():
    on_cpu = seeded_model()
    on_gpu = copy.deepcopy(on_cpu).cuda()
    losses = [
        model.loss(vectors().to(model.encoder.device), LENGTHS, padded(TARGETS)).total
        for model in (on_cpu, on_gpu)
    ]
    torch.testing.assert_close(losses[1].cpu(), losses[0], atol=1e-4, rtol=1e-4)
    for loss in losses:
        loss.backward()
    for (name, expected), found in zip(on_cpu.named_parameters(), on_gpu.parameters()):
        assert expected.grad is not None and found.grad is not None, name
        torch.testing.assert_close(found.grad.cpu(), expected.grad, atol=1e-4, rtol=1e-3)


def test_translations():
    on_cpu = seeded_model()
    on_gpu = copy.deepcopy(on_cpu).cuda()
    settings = SearchSettings(beam=3, max_length=8)
    found = [
        translate(model, vectors().to(model.encoder.device), LENGTHS, settings)
        for model in (on_cpu, on_gpu)
    ]
    for ours, theirs in zip(*found):
        assert ours[0].words == theirs[0].words
        np.testing.assert_allclose(theirs[0].attention, ours[0].attention, atol=1e-4)
