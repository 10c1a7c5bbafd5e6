"""The public weights of ELMo: an options JSON and an HDF5 file, as bilm-tf and AllenNLP write them.

Both programs read one file layout, and three of its conventions differ from PyTorch's:

    highway   TensorFlow's "carry" gate opens the transform branch, as `nn.char_encoder.Highway`
              does; AllenNLP's own layout negates it, but the file never does
    gates     blocks stand in the order input, candidate, forget, output; here candidate is third
    bias      the forget bias of 1 is added at run time and not stored; here it is stored

The file is data from elsewhere: shapes are checked against the options before a number is read,
and nothing in it may point to another file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import errors
from ..nn.bilm import BiLMConfig
from ..nn.char_encoder import ACTIVATIONS
from ..text.characters import N_CHARACTERS
from ..types import FloatArray
from .hdf5 import Datasets, opened
from .native import EncoderModel, read_json_object

DEFAULT_MAX_CHARACTERS = 50  # AllenNLP does not read the option and takes this for granted
CELL = "RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell/{part}"
STACKS = ("forward_lstms", "backward_lstms")
GROUPS = ("CNN", "RNN_")  # where every dataset has to be wanted
INFO = {
    "family": "elmo",
    "tokenization": "that of the text the model was trained on; the files do not tell",
    # Mixes of imported weights follow the published formula.
    "standardize": False,
}


def read_bilm_hdf5(options: Path, weights: Path) -> EncoderModel:
    """The encoder of an options JSON and its HDF5 file, as float32 weights of `nn.bilm.BiLM`."""
    config = read_options(options)
    with opened(weights) as file:
        tensors = _weights(Datasets(file, weights), config)
    return EncoderModel(config, tensors, {"name": weights.stem, **INFO})


def holds_bilm(path: Path) -> bool:
    """Whether an HDF5 file holds biLM weights, and not, say, embeddings that were made with them.

    A file that cannot be read counts, so that reading it can tell what is wrong with it.
    """
    try:
        with opened(path) as file:
            return file.id.links.exists(b"RNN_0")
    except errors.MalformedModelError:
        return True


def read_options(path: Path) -> BiLMConfig:
    """Sizes of a biLM from its options JSON; the keys that only training needs are ignored."""
    options = _Options(path, read_json_object(path))
    if "char_cnn" not in options.values:
        raise errors.CtxvecError(errors.WORD_INPUT_BILM.format(path=path))
    lstm, cnn = options.block("lstm"), options.block("char_cnn")
    options_rows = cnn.count("n_characters", N_CHARACTERS)
    if options_rows not in (N_CHARACTERS - 1, N_CHARACTERS):
        raise cnn.malformed("n_characters", f"{N_CHARACTERS - 1} or {N_CHARACTERS}", options_rows)
    hidden_width = lstm.count("dim")
    width = lstm.count("projection_dim", hidden_width)
    if width > hidden_width:
        expected = f"at most dim = {hidden_width}, so that all layers have one width"
        raise lstm.malformed("projection_dim", expected, width)
    settings = {
        "width": 2 * width,
        "hidden_width": hidden_width,
        "n_layers": lstm.count("n_layers", 1),
        "skip": lstm.flag("use_skip_connections"),
        "cell_clip": lstm.clip("cell_clip"),
        # TensorFlow clips what it projects, and nothing else.
        "output_clip": lstm.clip("proj_clip") if width < hidden_width else 0.0,
        "char_width": cnn.block("embedding").count("dim"),
        "filters": cnn.filters(),
        "activation": cnn.choice("activation", tuple(ACTIVATIONS)),
        "n_highway": cnn.count("n_highway", 0),
        "max_characters": cnn.count("max_characters_per_token", DEFAULT_MAX_CHARACTERS),
    }
    try:
        return BiLMConfig(**settings)
    except errors.CtxvecError as error:
        raise options.malformed("content", "the sizes of a biLM", error) from error


@dataclass(frozen=True)
class _Options:
    """One object of the options file, and where it stands for the messages."""

    path: Path
    values: dict[str, Any]
    name: str = ""

    def malformed(self, key: str, expected: str, found: Any) -> errors.MalformedModelError:
        return errors.malformed_model(self.path, f"{self.name}{key}", expected, found)

    def block(self, key: str) -> _Options:
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.malformed(key, "an object", value)
        return _Options(self.path, value, f"{self.name}{key}.")

    def count(self, key: str, default: int | None = None) -> int:
        """A whole number; an absent or null one is `default`, where there is one."""
        found = self.values.get(key)
        value = default if found is None else found
        if value is None or not _is_count(value):
            raise self.malformed(key, "a whole number", value)
        return value

    def clip(self, key: str) -> float:
        """A clip; absent, null and 0 mean none."""
        value = self.values.get(key) or 0.0
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise self.malformed(key, "a number above 0, or null", value)
        return float(value)

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.malformed(key, "true or false", value)
        return value

    def choice(self, key: str, choices: tuple[str, ...]) -> str:
        value = self.values.get(key)
        if value not in choices:
            raise self.malformed(key, " or ".join(choices), value)
        return value

    def filters(self) -> tuple[tuple[int, int], ...]:
        value = self.values.get("filters")
        pairs = value if isinstance(value, list) else []
        if not pairs or not all(_is_pair(pair) for pair in pairs):
            raise self.malformed("filters", "a list of pairs [characters, features]", value)
        return tuple((width, n) for width, n in pairs)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_count, value))


def _weights(datasets: Datasets, config: BiLMConfig) -> dict[str, Tensor]:
    arrays = dict(_char_encoder(datasets, config))
    for direction, stack in enumerate(STACKS):
        for layer in range(config.n_layers):
            cell = _lstm(datasets, config, direction, layer)
            arrays.update({f"{stack}.{layer}.{name}": array for name, array in cell})
    datasets.check_rest(GROUPS)
    arrays["layer_mean"] = np.zeros((config.n_outputs, config.width), dtype=np.float32)
    arrays["layer_deviation"] = np.ones((config.n_outputs, config.width), dtype=np.float32)
    return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}


def _char_encoder(datasets: Datasets, config: BiLMConfig) -> Iterator[tuple[str, FloatArray]]:
    yield "char_encoder.embedding.weight", _characters(datasets, config.char_width)
    for i, (width, n) in enumerate(config.filters):
        kernel = datasets.read(f"CNN/W_cnn_{i}", 1, width, config.char_width, n)
        yield f"char_encoder.convolutions.{i}.weight", kernel[0].transpose(2, 1, 0)
        yield f"char_encoder.convolutions.{i}.bias", datasets.read(f"CNN/b_cnn_{i}", n)
    n_features = sum(n for _, n in config.filters)
    for k in range(config.n_highway):
        for ours, theirs in (("transform", "transform"), ("gate", "carry")):
            weight = datasets.read(f"CNN_high_{k}/W_{theirs}", n_features, n_features)
            yield f"char_encoder.highways.{k}.{ours}.weight", weight.T
            bias = datasets.read(f"CNN_high_{k}/b_{theirs}", n_features)
            yield f"char_encoder.highways.{k}.{ours}.bias", bias
    if n_features != config.token_width:
        weight = datasets.read("CNN_proj/W_proj", n_features, config.token_width)
        yield "char_encoder.projection.weight", weight.T
        yield "char_encoder.projection.bias", datasets.read("CNN_proj/b_proj", config.token_width)


def _characters(datasets: Datasets, width: int) -> FloatArray:
    """The character table (262, width); files leave out row 0, the one for "no word here"."""
    n_rows = 0 if not (shape := datasets.shape("char_embed")) else shape[0]
    if n_rows == N_CHARACTERS:
        return datasets.read("char_embed", N_CHARACTERS, width)
    return np.pad(datasets.read("char_embed", N_CHARACTERS - 1, width), ((1, 0), (0, 0)))


def _lstm(
    datasets: Datasets, config: BiLMConfig, direction: int, layer: int
) -> Iterator[tuple[str, FloatArray]]:
    hidden, width = config.hidden_width, config.token_width

    def read(part: str, *shape: int) -> FloatArray:
        name = CELL.format(direction=direction, layer=layer, part=part)
        return datasets.read(name, *shape)

    kernel = _reordered(read("W_0", 2 * width, 4 * hidden))
    yield "weight_ih", kernel[:, :width]
    yield "weight_hh", kernel[:, width:]
    bias = _reordered(read("B", 4 * hidden))
    bias[hidden : 2 * hidden] += 1.0
    yield "bias", bias
    if width != hidden:
        yield "weight_hr", read("W_P_0", hidden, width).T


def _reordered(array: FloatArray) -> FloatArray:
    """TensorFlow's blocks along the last axis (..., 4 * hidden) -> ours, along the first."""
    i, candidate, forget, o = np.split(array.T, 4)
    return np.concatenate([i, forget, candidate, o])
