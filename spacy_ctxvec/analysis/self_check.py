"""Whether the fast encoder and its plain equations give the same vectors from the same weights."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..formats.native import EncoderModel
from ..nn import plain
from ..nn.bilm import BiLM, BiLMConfig
from ..nn.mtlstm import MTLSTM, MTLSTMConfig
from ..nn.transformer import Transformer, TransformerConfig

Array = NDArray[np.float32]
# Of several lengths and scripts; a word longer than any limit, words that are spelled like marks.
SENTENCES = [
    ["The", "bank", "of", "the", "river", "was", "steep", "."],
    ["Zürich", "москва", "東京", "\U0001f30d", "x" * 120],
    ["</S>", "<UNK>"],
    ["one"],
]


@torch.no_grad()
def self_check(model: EncoderModel) -> float:
    """The largest difference between any numbers of the two, over some sentences: in parts of the
    largest number, where that is above 1. It is no number where one of theirs is none."""
    encoder = model.build()
    if isinstance(model.config, TransformerConfig):
        found, expected = _of_transformer(encoder)
    elif isinstance(model.config, MTLSTMConfig):
        found, expected = _of_mtlstm(encoder, model.config, plain.arrays(model.weights))
    else:
        weights = plain.arrays(model.weights)
        found, expected = _of_bilm(encoder, model.config, weights)
    ours, theirs = np.concatenate(found), np.concatenate(expected)
    return float(np.abs(ours - theirs).max() / max(1.0, np.abs(theirs).max()))


def _of_bilm(
    encoder: BiLM, config: BiLMConfig, weights: plain.Weights
) -> tuple[list[Array], list[Array]]:
    words = [word for sentence in SENTENCES for word in sentence]
    vectors = torch.cat([encoder.mark_vectors(), encoder.word_vectors(words)])
    layers = encoder(vectors, np.arange(len(words)) + 2, _lengths())
    start, end = plain.tokens(config, weights, encoder.mark_ids())
    tokens = _parted(plain.tokens(config, weights, encoder.word_ids(words)))
    framed = [np.concatenate([[start], part, [end]]) for part in tokens]
    return _parted(layers.numpy()), [plain.bilm_layers(config, weights, part) for part in framed]


def _of_mtlstm(
    encoder: MTLSTM, config: MTLSTMConfig, weights: plain.Weights
) -> tuple[list[Array], list[Array]]:
    """The words have random vectors."""
    n_words = int(_lengths().sum())
    vectors = np.random.default_rng(0).standard_normal((n_words, config.input_width), np.float32)
    layers = encoder(torch.from_numpy(vectors), np.arange(n_words), _lengths())
    parts = _parted(vectors)
    return _parted(layers.numpy()), [plain.mtlstm_layers(config, weights, part) for part in parts]


def _of_transformer(encoder: Transformer) -> tuple[list[Array], list[Array]]:
    """The plain way is the library's, a sentence at a time, and the mean of each word's pieces."""
    words = [encoder.pieces.ids(sentence) for sentence in SENTENCES]
    table = encoder.pieces.table([word for sentence in SENTENCES for word in sentence])
    layers = encoder(torch.from_numpy(table), np.arange(len(table)), _lengths())
    expected = []
    for sentence in words:
        framed = [encoder.pieces.before, *sentence, encoder.pieces.after]
        ids = [id_ for pieces in framed for id_ in pieces]
        hidden = encoder.model(torch.tensor([ids]), output_hidden_states=True).hidden_states
        rows = torch.stack(hidden, dim=2)[0, len(encoder.pieces.before) :]
        sizes = [*map(len, sentence), len(rows) - sum(map(len, sentence))]
        means = [part.mean(dim=0) for part in rows.split(sizes)[: len(sentence)]]
        expected.append(torch.stack(means).numpy())
    return _parted(layers.numpy()), expected


def _lengths() -> Any:
    return np.array([len(sentence) for sentence in SENTENCES])


def _parted(rows: Any) -> list[Array]:
    """The rows of each sentence."""
    return np.split(rows, list(accumulate(_lengths()))[:-1])
