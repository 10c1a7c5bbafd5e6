"""The encoders' equations, one word and one step at a time, in numpy.

Slow, and simple enough to be seen to be right: what the fast code's vectors are checked against
after a conversion. Nothing but the sizes, the weights and the ids of words is shared with it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..types import IntArray
from .bilm import BiLMConfig
from .mtlstm import MTLSTMConfig

Array = NDArray[np.float32]
Weights = Mapping[str, Array]
ACTIVATIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
STACKS = ("forward_lstms", "backward_lstms")


def arrays(weights: Mapping[str, Tensor]) -> dict[str, Array]:
    """Without a copy where they are float32."""
    return {name: tensor.detach().cpu().float().numpy() for name, tensor in weights.items()}


def bilm_layers(config: BiLMConfig, weights: Weights, framed: Array) -> Array:
    """All layers of one sentence, (n_tokens, n_layers + 1, width).

    framed (n_tokens + 2, token_width): the token layer of its words between the sentence marks
    """
    directions = [
        _bilm_direction(config, weights, framed, direction)
        for direction in config.direction_numbers
    ]
    layers = np.concatenate(directions, axis=2)[1:-1]
    return layers @ weights["alignment"].T if config.aligned else layers


def _bilm_direction(config: BiLMConfig, weights: Weights, framed: Array, direction: int) -> Array:
    """(n_tokens + 2, n_layers + 1, token_width)"""
    layers = [framed]
    for layer in range(config.n_layers):
        below = layers[-1]
        state = None
        if config.warm:
            state = (
                weights["start_output"][direction, layer],
                weights["start_cell"][direction, layer],
            )
        above = lstm(
            weights, f"{STACKS[direction]}.{layer}.", below, state, backward=bool(direction),
            cell_clip=config.cell_clip, output_clip=config.output_clip,
            forget_bias=config.forget_bias,
        )  # fmt: skip
        layers.append(above + below if config.skip and layer else above)
    return np.stack(layers, axis=1)


def mtlstm_layers(config: MTLSTMConfig, weights: Weights, vectors: Array) -> Array:
    """All layers of one sentence, (n_tokens, n_layers, width), of its vectors (n_tokens, width)."""
    layers = []
    below = vectors
    for layer in range(config.n_layers):
        parts = [
            lstm(weights, f"{stack}.{layer}.", below, backward=stack == STACKS[1])
            for stack in STACKS
        ]
        below = np.concatenate(parts, axis=1)
        layers.append(below)
    return np.stack(layers, axis=1)


def lstm(
    weights: Weights,
    name: str,
    x: Array,
    state: tuple[Array, Array] | None = None,
    *,
    backward: bool,
    cell_clip: float = 0.0,
    output_clip: float = 0.0,
    forget_bias: float = 0.0,
) -> Array:
    """One layer of one direction: x (n_steps, input_width) -> (n_steps, output_width).

    state: output and cell before the first step, by default zero
    """
    w_ih, w_hh = weights[name + "weight_ih"], weights[name + "weight_hh"]
    bias = weights[name + "bias"]
    if name + "bias_hh" in weights:
        bias = bias + weights[name + "bias_hh"]
    w_hr = weights.get(name + "weight_hr")
    h, c = state or (np.zeros(w_hh.shape[1], x.dtype), np.zeros(len(w_hh) // 4, x.dtype))
    outputs = np.zeros((len(x), len(h)), x.dtype)
    for step in reversed(range(len(x))) if backward else range(len(x)):
        i, f, g, o = np.split(w_ih @ x[step] + w_hh @ h + bias, 4)
        c = _clipped(
            _sigmoid(f + np.float32(forget_bias)) * c + _sigmoid(i) * np.tanh(g), cell_clip
        )
        h = _sigmoid(o) * np.tanh(c)
        h = _clipped(h if w_hr is None else w_hr @ h, output_clip)
        outputs[step] = h
    return outputs


def tokens(config: BiLMConfig, weights: Weights, ids: IntArray) -> Array:
    """The token layer of words, (n_words, token_width), by the ids that the encoder gives them."""
    if config.is_projected:
        return np.stack([_word_char_token(config, weights, row) for row in ids])
    if config.n_words:
        return weights["word_encoder.embedding.weight"][ids]
    return np.stack([_char_token(config, weights, "char_encoder.", row) for row in ids])


def _word_char_token(config: BiLMConfig, weights: Weights, ids: IntArray) -> Array:
    own, parts = "word_char_encoder.", []
    if config.n_words:
        parts.append(weights[own + "words.embedding.weight"][ids[0]])
    if config.n_characters:
        parts.append(_char_token(config, weights, own + "char_encoder.", ids[len(parts) :]))
    return _linear(weights, own + "projection", np.concatenate(parts))


def _char_token(config: BiLMConfig, weights: Weights, own: str, ids: IntArray) -> Array:
    x = weights[own + "embedding.weight"][ids]
    features = []
    for number, (width, _) in enumerate(config.filters):
        kernel = weights[f"{own}convolutions.{number}.weight"]  # (n, char_width, width)
        windows = np.stack([x[k : k + width].T for k in range(len(x) - width + 1)])
        best = np.einsum("kcw,ncw->kn", windows, kernel).max(axis=0)
        features.append(best + weights[f"{own}convolutions.{number}.bias"])
    y = ACTIVATIONS[config.activation](np.concatenate(features))
    for number in range(config.n_highway):
        gate = _sigmoid(_linear(weights, f"{own}highways.{number}.gate", y))
        changed = np.maximum(_linear(weights, f"{own}highways.{number}.transform", y), 0)
        y = gate * changed + (1 - gate) * y
    projects = own + "projection.weight" in weights
    return _linear(weights, own + "projection", y) if projects else y


def _linear(weights: Weights, name: str, x: Array) -> Array:
    return weights[name + ".weight"] @ x + weights[name + ".bias"]


def _sigmoid(x: Array) -> Array:
    return np.float32(0.5) * (1 + np.tanh(x / 2))  # the same, and never overflows


def _clipped(x: Array, clip: float) -> Array:
    return np.clip(x, -clip, clip) if clip else x
