"""The weights of a biLM as TensorFlow arranges them, whatever kind of file they come from.

Names are those of the published HDF5 files. Three conventions differ from PyTorch's:

    highway   TensorFlow's "carry" gate opens the transform branch, as `nn.char_encoder.Highway`
              does; AllenNLP's own layout negates it, but no file ever does
    gates     blocks stand in the order input, candidate, forget, output; here candidate is third
    bias      the forget bias of 1 is added at run time and not stored; so `FORGET_BIAS` is among
              the sizes, and arrays come back to the bit
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ... import errors
from ...nn.bilm import BiLMConfig
from ...nn.vocabulary import VOCABULARY, as_bytes
from ...nn.word_encoder import lines_of
from ...text.characters import N_CHARACTERS
from ...types import FloatArray
from ..native import FROM_ELSEWHERE, EncoderModel, no_statistics
from .vocabulary import Vocabulary

CELL = "RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{part}"
STACKS = ("forward_lstms", "backward_lstms")
FORGET_BIAS = 1.0
PROJECTION, PROJECTION_BIAS = "CNN_proj/W_proj", "CNN_proj/b_proj"
GROUPS = ("CNN", "RNN_")  # where every array has to be wanted


class Arrays(Protocol):
    """The arrays of a file by the names of the HDF5 files, each checked before it is read."""

    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str, *shape: int) -> FloatArray:
        """Finite numbers, float32; `shape` is what is asked for."""
        ...

    def check_rest(self, groups: tuple[str, ...]) -> None:
        """Refuse arrays of `groups` that nothing has read: the file is of another kind."""
        ...

    def malformed(self, name: str, expected: str, found: Any) -> errors.MalformedModelError: ...


def read_model(
    arrays: Arrays, config: BiLMConfig, vocabulary: Vocabulary, info: dict[str, Any]
) -> EncoderModel:
    """The whole encoder; the vocabulary is that of a biLM that reads words, else empty."""
    weights = read_parameters(arrays, config, vocabulary)
    if config.n_words:
        weights[f"word_encoder.{VOCABULARY}"] = as_bytes(lines_of(vocabulary.words))
    weights |= no_statistics(config)
    return EncoderModel(config, weights, {**info, **FROM_ELSEWHERE})


def read_parameters(
    arrays: Arrays, config: BiLMConfig, vocabulary: Vocabulary
) -> dict[str, Tensor]:
    """What is learned, by the names of `nn.bilm.BiLM`."""
    found = {
        name: torch.from_numpy(np.ascontiguousarray(array))  # one at a time, to need less memory
        for name, array in _parameters(arrays, config, vocabulary)
    }
    arrays.check_rest(GROUPS)
    return found


def _parameters(
    arrays: Arrays, config: BiLMConfig, vocabulary: Vocabulary
) -> Iterator[tuple[str, FloatArray]]:
    if config.n_words:
        shape = (config.n_words, config.token_width)
        table = vocabulary.in_order(arrays.read("embedding", *shape))
        # No row for "no word here": the program puts one in front at run time.
        yield "word_encoder.embedding.weight", table
    else:
        yield from _char_encoder(arrays, config)
    for direction in config.direction_numbers:
        for layer in range(config.n_layers):
            for name, array in _lstm(arrays, config, direction, layer):
                yield f"{STACKS[direction]}.{layer}.{name}", array


def _char_encoder(arrays: Arrays, config: BiLMConfig) -> Iterator[tuple[str, FloatArray]]:
    yield "char_encoder.embedding.weight", _characters(arrays, config.char_width)
    for i, (width, n) in enumerate(config.filters):
        kernel = arrays.read(f"CNN/W_cnn_{i}", 1, width, config.char_width, n)
        yield f"char_encoder.convolutions.{i}.weight", kernel[0].transpose(2, 1, 0)
        yield f"char_encoder.convolutions.{i}.bias", arrays.read(f"CNN/b_cnn_{i}", n)
    n_features = sum(n for _, n in config.filters)
    for k in range(config.n_highway):
        for ours, theirs in (("transform", "transform"), ("gate", "carry")):
            weight = arrays.read(f"CNN_high_{k}/W_{theirs}", n_features, n_features)
            yield f"char_encoder.highways.{k}.{ours}.weight", weight.T
            bias = arrays.read(f"CNN_high_{k}/b_{theirs}", n_features)
            yield f"char_encoder.highways.{k}.{ours}.bias", bias
    width = config.token_width
    if n_features != width:
        yield "char_encoder.projection.weight", arrays.read(PROJECTION, n_features, width).T
        yield "char_encoder.projection.bias", arrays.read(PROJECTION_BIAS, width)
    elif PROJECTION in arrays.names():
        _check_identity(arrays, PROJECTION, width)
        if arrays.read(PROJECTION_BIAS, width).any():
            raise arrays.malformed(PROJECTION_BIAS, "zeros, as of no projection", "others")


def _characters(arrays: Arrays, width: int) -> FloatArray:
    """The character table (262, width); files leave out row 0, the one for "no word here"."""
    n_rows = 0 if not (shape := arrays.shape("char_embed")) else shape[0]
    if n_rows == N_CHARACTERS:
        return arrays.read("char_embed", N_CHARACTERS, width)
    return np.pad(arrays.read("char_embed", N_CHARACTERS - 1, width), ((1, 0), (0, 0)))


def _lstm(
    arrays: Arrays, config: BiLMConfig, direction: int, layer: int
) -> Iterator[tuple[str, FloatArray]]:
    hidden, width = config.hidden_width, config.token_width

    def read(part: str, *shape: int) -> FloatArray:
        name = CELL.format(direction=direction, layer=layer, part=part)
        return arrays.read(name, *shape)

    kernel = _reordered(read("W_0", 2 * width, 4 * hidden))
    yield "weight_ih", kernel[:, :width]
    yield "weight_hh", kernel[:, width:]
    yield "bias", _reordered(read("B", 4 * hidden))
    if width != hidden:
        yield "weight_hr", read("W_P_0", hidden, width).T
        return
    name = CELL.format(direction=direction, layer=layer, part="W_P_0")
    if name in arrays.names():
        _check_identity(arrays, name, width)


def _check_identity(arrays: Arrays, name: str, width: int) -> None:
    """Between equal widths there is no projection here, and bilm-tf has none either."""
    if not np.array_equal(arrays.read(name, width, width), np.eye(width)):
        raise arrays.malformed(name, "an identity, since it is between equal widths", "another")


def _reordered(array: FloatArray) -> FloatArray:
    """TensorFlow's blocks along the last axis (..., 4 * hidden) -> ours, along the first."""
    i, candidate, forget, o = np.split(array.T, 4)
    return np.concatenate([i, forget, candidate, o])
