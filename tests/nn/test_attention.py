"""Global attention against loops over words, by finite differences, and over padding."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call

from spacy_ctxvec.nn.attention import Attention

WIDTH, LENGTHS = 5, [3, 1, 4]
MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture(params=[False, True], ids=["plain", "biases"])
def attention(request) -> Attention:
    return Attention(WIDTH, bias=request.param)


def slow(attention: Attention, words: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """h~ and a of one sentence (n_words, width), as the equations have it."""
    weights = {name: value.numpy() for name, value in attention.state_dict().items()}
    query = weights["score.weight"] @ h + weights.get("score.bias", 0)
    exponentials = np.exp([word @ query for word in words])
    a = exponentials / exponentials.sum()
    context = sum(share * word for share, word in zip(a, words))
    combined = weights["combine.weight"] @ np.concatenate([context, h])
    return np.tanh(combined + weights.get("combine.bias", 0)), a


@pytest.mark.parametrize("n_each", [1, 3])
def test_equals_the_equations(attention, n_each):
    values, h = torch.randn(3, 4, WIDTH), torch.randn(3 * n_each, WIDTH)
    with torch.no_grad():
        got, weights = attention(h, attention.memory(values, MASK))
    for row in range(3 * n_each):
        n = LENGTHS[row // n_each]
        want, a = slow(attention, values[row // n_each, :n].numpy(), h[row].numpy())
        assert np.allclose(got[row], want, atol=1e-5)
        assert np.allclose(weights[row, :n], a, atol=1e-5)


def test_padding_has_no_weight_and_no_effect(attention):
    values, h = torch.randn(3, 4, WIDTH), torch.randn(3, WIDTH)
    with torch.no_grad():
        got, weights = attention(h, attention.memory(values, MASK))
        values[~MASK] = 1e4
        other, _ = attention(h, attention.memory(values, MASK))
    assert not weights[~MASK].any() and bool((weights[MASK] > 0).all())
    assert torch.equal(got, other)


def test_one_word_gets_all(attention):
    memory = attention.memory(torch.randn(3, 4, WIDTH), MASK)
    assert attention(torch.randn(3, WIDTH), memory)[1][1].tolist() == [1, 0, 0, 0]


def test_memory_in_another_order(attention):
    h, memory = torch.randn(3, WIDTH), attention.memory(torch.randn(3, 4, WIDTH), MASK)
    got, _ = attention(h, memory)
    order = torch.tensor([2, 0])
    assert torch.allclose(attention(h[order], memory.select(order))[0], got[order], atol=1e-6)
    assert torch.allclose(attention(h[:2], memory.first(2))[0], got[:2], atol=1e-6)


def test_gradients_by_finite_differences(attention):
    attention.double()
    names, parameters = zip(*attention.named_parameters())
    values = torch.randn(3, 4, WIDTH, dtype=torch.float64, requires_grad=True)
    h = torch.randn(6, WIDTH, dtype=torch.float64, requires_grad=True)

    class Whole(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = attention

        def forward(self, values: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return self.attention(h, self.attention.memory(values, MASK))

    def both(values: torch.Tensor, h: torch.Tensor, *weights: torch.Tensor):
        named = {f"attention.{name}": weight for name, weight in zip(names, weights)}
        return functional_call(Whole(), named, (values, h))

    assert torch.autograd.gradcheck(both, (values, h, *parameters))
