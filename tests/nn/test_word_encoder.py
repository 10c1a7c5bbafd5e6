"""Token layers of a vocabulary: unknown words, odd words, and that the words travel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.word_encoder import WordEncoder
from spacy_ctxvec.text.corpus import SPECIALS

WORDS = [*SPECIALS, "river", "東京", "<S>", "a\u2028b", "e\u0301"]


@pytest.fixture
def sizes(tiny_config: BiLMConfig) -> BiLMConfig:
    return replace(tiny_config, n_words=len(WORDS))


@pytest.fixture
def model(sizes: BiLMConfig) -> BiLM:
    made = BiLM(sizes).eval()
    made.word_encoder.set_words(WORDS)
    return made


def test_rows_of_words():
    encoder = WordEncoder(len(WORDS), 3)
    encoder.set_words(WORDS)
    assert encoder.words == WORDS
    # A word spelled like a mark is the word, or unknown, never the mark.
    assert encoder.ids(["river", "bank", "<S>", "</S>", "東京", ""]).tolist() == [3, 2, 5, 2, 4, 2]
    assert encoder.mark_ids().tolist() == [0, 1]
    assert encoder(torch.from_numpy(encoder.ids([]))).shape == (0, 3)


def test_before_there_are_words_all_are_unknown():
    assert WordEncoder(5, 3).ids(["a", "b"]).tolist() == [2, 2]


@pytest.mark.parametrize("words", [WORDS[:-1], [*WORDS[1:], "x"]])
def test_words_that_are_not_the_rows(words):
    with pytest.raises(ValueError, match="words"):
        WordEncoder(len(WORDS), 3).set_words(words)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_words_travel_with_the_weights(model, sizes, tmp_path, embed, dtype):
    save_native(EncoderModel(sizes, model.state_dict()), tmp_path / "native", dtype=dtype)
    again = load_native(tmp_path / "native").build()
    assert again.word_encoder.words == WORDS
    sentences = [["river", "東京"], ["never", "seen", "river"]]
    for got, want in zip(embed(again, sentences), embed(model, sentences)):
        np.testing.assert_allclose(got, want, atol=1e-6 if dtype == "float32" else 2e-3)


def test_only_known_words_are_told_apart(model):
    vectors = model.word_vectors(["bank", "shore", "river"])
    assert torch.equal(vectors[0], vectors[1]) and not torch.equal(vectors[0], vectors[2])


@pytest.mark.parametrize("n_words", [1, 2, -3, "5"])
def test_vocabularies_that_are_too_small(tiny_config, n_words):
    with pytest.raises(CtxvecError, match="n_words"):
        replace(tiny_config, n_words=n_words)


def test_gradients_reach_the_rows_that_were_read(model):
    vectors = torch.cat([model.mark_vectors(), model.word_vectors(["river"])])
    model(vectors, np.array([2, 2]), np.array([2])).sum().backward()
    gradient = model.word_encoder.embedding.weight.grad
    assert gradient is not None
    assert [bool(row.any()) for row in gradient] == [True, True, False, True] + [False] * 4
