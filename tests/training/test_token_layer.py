"""The token layer of a step, against the character encoder word by word."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.training.token_layer import TokenLayer

WORDS = ["a", "river", "of", "Ångström", "東京都", "incomprehensibilities", "I", "ran", "-", "bank"]


def gradients(model: BiLM) -> list[torch.Tensor]:
    return [parameter.grad.clone() for parameter in model.char_encoder.parameters()]


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("n_words", [0, 1, 2, 3, len(WORDS)])
def test_it_is_the_character_encoder_word_by_word(either_model, n_words, threads):
    words = WORDS[:n_words]
    each = [either_model.mark_vectors(), *(either_model.word_vectors([word]) for word in words)]
    want = torch.cat(each)
    layer = TokenLayer(either_model, words, torch.float32, threads=threads)
    assert layer.vectors.shape == (2 + n_words, either_model.config.token_width)
    assert torch.allclose(layer.vectors, want, atol=1e-6)


@pytest.mark.parametrize("n_words", [0, 1, 2, 3, len(WORDS)])
def test_its_gradient_is_that_of_one_graph(either_model, n_words):
    words = WORDS[:n_words]
    gradient = torch.randn(2 + n_words, either_model.config.token_width)
    vectors = torch.cat([either_model.mark_vectors(), either_model.word_vectors(words)])
    parameters = list(either_model.char_encoder.parameters())
    want = torch.autograd.grad(vectors, parameters, gradient)
    for threads in (False, True):
        either_model.zero_grad()
        TokenLayer(either_model, words, torch.float32, threads=threads).backward(gradient)
        for mine, other in zip(gradients(either_model), want):
            assert torch.allclose(mine, other, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_threads_change_no_bit(either_model, dtype):
    torch.set_num_threads(1)
    gradient = torch.randn(2 + len(WORDS), either_model.config.token_width)
    found = []
    for threads in [False] + [True] * 8:
        either_model.zero_grad()
        layer = TokenLayer(either_model, WORDS, dtype, threads=threads)
        layer.backward(gradient)
        found.append([layer.vectors, *gradients(either_model)])
    for other in found[1:]:
        assert all(torch.equal(x, y) for x, y in zip(found[0], other))


@given(words=st.lists(st.text(max_size=20), max_size=12, unique=True))
def test_any_words(words):
    torch.manual_seed(1)
    model = BiLM(BiLMConfig(width=4, hidden_width=2, char_width=2, filters=((1, 2), (3, 2))))
    with torch.no_grad():
        found = TokenLayer(model, words, torch.float32).vectors
        want = torch.cat([model.mark_vectors(), *(model.word_vectors([word]) for word in words)])
    assert torch.allclose(found, want, atol=1e-6)


def test_half_precision_is_near_and_handed_on_in_float32(either_model):
    exact = TokenLayer(either_model, WORDS, torch.float32).vectors
    layer = TokenLayer(either_model, WORDS, torch.bfloat16)
    assert layer.vectors.dtype == torch.float32
    assert 0 < (exact - layer.vectors).abs().max() < 0.05 * exact.abs().max()
    layer.backward(torch.ones_like(exact))
    assert all(gradient.dtype == torch.float32 for gradient in gradients(either_model))
