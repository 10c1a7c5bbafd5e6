"""The token layer: gradients by finite differences, padding, highway."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.func import functional_call

from spacy_ctxvec.nn.char_encoder import CharEncoder, Highway
from spacy_ctxvec.text.characters import encode_words

WORDS = ["", "a", "longest", "längst", "日本"]


def make(activation: str = "relu", output_width: int = 3) -> CharEncoder:
    return CharEncoder(
        char_width=2,
        filters=((1, 2), (3, 3)),
        activation=activation,
        n_highway=1,
        output_width=output_width,
    )


@pytest.mark.parametrize("activation, output_width", [("relu", 3), ("tanh", 5)])
def test_gradients_by_finite_differences(activation, output_width):
    encoder = make(activation, output_width).double()
    for convolution in encoder.convolutions:
        convolution.weight.data.uniform_(-1, 1)
    names, parameters = zip(*encoder.named_parameters())
    ids = torch.from_numpy(encode_words(WORDS, 9))

    def run(*values: torch.Tensor) -> torch.Tensor:
        return functional_call(encoder, dict(zip(names, values)), (ids,))

    assert torch.autograd.gradcheck(run, parameters, atol=1e-6, fast_mode=True)
    encoder.embedding.weight.requires_grad_(False)
    assert torch.autograd.gradcheck(run, parameters, atol=1e-6)


def test_highway_gradients_by_finite_differences():
    highway = Highway(4).double()
    names, parameters = zip(*highway.named_parameters())
    x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)

    def run(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return functional_call(highway, dict(zip(names, values)), (x,))

    assert torch.autograd.gradcheck(run, (x, *parameters), atol=1e-6)


def test_the_gate_opens_the_transform_and_starts_nearly_shut():
    highway = Highway(4)
    x = torch.randn(2, 4)
    assert (highway.gate.bias == -2).all()
    highway.gate.weight.data.zero_()
    highway.gate.bias.data.fill_(-50)
    assert torch.allclose(highway(x), x)
    highway.gate.bias.data.fill_(50)
    assert torch.allclose(highway(x), torch.relu(highway.transform(x)))


def test_dropping_columns_of_padding_changes_nothing():
    encoder = make()
    ids = torch.from_numpy(encode_words(WORDS, 50))
    with torch.no_grad():
        trimmed = encoder(ids)
        encoder._widest = 50
        assert torch.allclose(trimmed, encoder(ids), atol=1e-7)


def test_a_word_does_not_depend_on_the_words_beside_it():
    encoder = make()
    ids = torch.from_numpy(encode_words(WORDS, 50))
    with torch.no_grad():
        together = encoder(ids)
        alone = torch.cat([encoder(row[None]) for row in ids])
    assert torch.allclose(together, alone, atol=1e-6)


def test_words_that_fill_every_column():
    ids = torch.from_numpy(encode_words(["aaaaaaaaaaaaaaaa"], 6))
    assert np.isfinite(make()(ids).detach().numpy()).all()


def test_no_words():
    ids = torch.from_numpy(encode_words([], 50))
    assert make()(ids).shape == (0, 3)
