"""Maximum over windows: values and gradients against convolutions."""

from __future__ import annotations

import pytest
import torch

from spacy_ctxvec.nn import window_maximum as module
from spacy_ctxvec.nn.window_maximum import window_maximum


def by_convolution(x: torch.Tensor, kernel: torch.Tensor) -> torch.Tensor:
    window = kernel.shape[0] // x.shape[2]
    weight = kernel.view(window, x.shape[2], -1).permute(2, 1, 0)
    return torch.nn.functional.conv1d(x.transpose(1, 2), weight).amax(dim=2)


@pytest.mark.parametrize("n_words", [0, 1, 2, 7])
@pytest.mark.parametrize("block", [1, 30, 2**18])
def test_equals_a_convolution_and_its_gradients(monkeypatch, n_words, block):
    monkeypatch.setattr(module, "BLOCK", block)
    x = torch.randn(n_words, 6, 3, requires_grad=True)
    kernel = torch.randn(2 * 3, 5, requires_grad=True)
    gradient = torch.randn(n_words, 5)
    results = []
    for function in (window_maximum, by_convolution):
        y = function(x, kernel)
        results.append([y, *torch.autograd.grad(y, (x, kernel), gradient)])
    for mine, want in zip(*results):
        assert torch.allclose(mine, want, atol=1e-6)


def test_gradients_by_finite_differences():
    x = torch.randn(4, 7, 2, dtype=torch.double, requires_grad=True)
    kernel = torch.randn(3 * 2, 4, dtype=torch.double, requires_grad=True)
    blocked = torch.zeros(5, 4, dtype=torch.bool)
    blocked[3:, 1] = True
    assert torch.autograd.gradcheck(lambda x, k: window_maximum(x, k, blocked), (x, kernel))


def test_equal_windows_share_the_gradient():
    x = torch.ones(1, 4, 1, requires_grad=True)
    window_maximum(x, torch.ones(1, 1)).sum().backward()
    assert torch.equal(x.grad, torch.full((1, 4, 1), 0.25))


def test_a_feature_does_not_look_at_blocked_windows():
    x = torch.tensor([[[1.0], [5.0], [9.0]]])
    blocked = torch.tensor([[False, False], [False, False], [True, False]])
    assert window_maximum(x, torch.ones(1, 2), blocked).tolist() == [[5.0, 9.0]]
