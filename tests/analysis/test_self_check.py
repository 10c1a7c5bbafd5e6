"""The fast encoders against their equations, and that a difference would be seen."""

from __future__ import annotations

import pytest
import torch

from spacy_ctxvec.analysis.self_check import self_check
from spacy_ctxvec.formats.native import EncoderModel
from spacy_ctxvec.nn.architectures import new_encoder
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.lstm import LSTM
from spacy_ctxvec.nn.mtlstm import MTLSTMConfig

FILTERS = ((1, 4), (2, 5), (3, 7))
SMALL = {"width": 16, "hidden_width": 12, "char_width": 4, "filters": FILTERS}
CONFIGS = {
    "projected and clipped": BiLMConfig(**SMALL, cell_clip=0.3, output_clip=0.1, n_layers=3),
    "plain": BiLMConfig(**{**SMALL, "hidden_width": 8}, skip=False, n_highway=0),
    "tanh, no projection of features": BiLMConfig(**SMALL, activation="tanh", n_highway=2),
    "forward": BiLMConfig(**SMALL, directions="forward"),
    "backward": BiLMConfig(**SMALL, directions="backward", max_characters=7),
    "words": BiLMConfig(**SMALL, n_words=5),
    "mtlstm": MTLSTMConfig(input_width=6, hidden_width=5, n_layers=3),
}


def random_model(config) -> EncoderModel:
    torch.manual_seed(0)
    module = new_encoder(config)
    if isinstance(module, BiLM) and config.n_words:
        module.word_encoder.set_words(["<S>", "</S>", "<UNK>", "The", "bank"])
    weights = {
        name: torch.randn(tensor.shape) / 2 if tensor.is_floating_point() else tensor
        for name, tensor in module.state_dict().items()
    }
    return EncoderModel(config, weights)


@pytest.mark.parametrize("name", CONFIGS)
def test_both_give_the_same_vectors(name):
    assert self_check(random_model(CONFIGS[name])) < 1e-5


@pytest.mark.parametrize("name", ["projected and clipped", "mtlstm"])
def test_a_difference_is_seen(name, monkeypatch):
    """As if the fast code forgot the forget gate's own bias."""
    whole = LSTM.forward

    def forgetful(self, *arguments):
        with torch.no_grad():
            self.bias[:2] += 0.5
        return whole(self, *arguments)

    monkeypatch.setattr(LSTM, "forward", forgetful)
    assert self_check(random_model(CONFIGS[name])) > 1e-3


def test_no_numbers_are_a_difference():
    model = random_model(CONFIGS["plain"])
    model.weights["backward_lstms.1.bias"][0] = float("nan")
    assert not self_check(model) < 1.0
