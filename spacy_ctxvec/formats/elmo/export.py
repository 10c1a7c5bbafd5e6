"""Writing of a biLM as an options JSON and an HDF5 file: the opposite of `hdf5_pair`.

AllenNLP, flair and simple_elmo read them. They expect projections behind the characters and behind
every LSTM, and where the encoder has none, an identity is written; they take skip connections and
words of 50 characters for granted. Statistics of layers have no place there.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ... import __version__, errors
from ...nn.bilm import BiLMConfig
from ...nn.vocabulary import VOCABULARY, text_of
from ...text.characters import N_CHARACTERS
from ...types import FloatArray
from ..native import EncoderModel, replace_file
from .vocabulary import read_words
from .weights import CELL, FORGET_BIAS, STACKS

FILES = OPTIONS, WEIGHTS, WORDS = "options.json", "weights.hdf5", "vocab.txt"
MADE_WITH = "made_with"
WORDS_AT_ONCE = 1024
Arrays = Iterator[tuple[str, FloatArray]]


def save_bilm_hdf5(model: EncoderModel, folder: Path) -> None:
    """Write `options.json`, `weights.hdf5` and, of a biLM that reads words, `vocab.txt`.

    CtxvecError for encoders that have no place there: other than biLMs of both directions, and
    those that project words or Unicode characters to their token layer.
    """
    config = _expressible(model.config, folder)
    data = _hdf5(_arrays(config, model.weights), folder)
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / WEIGHTS, data)
    if config.n_words:
        text = text_of(model.weights[f"word_encoder.{VOCABULARY}"])
        replace_file(folder / WORDS, text.encode("utf8"))
    options = json.dumps(_options(config), indent=2)
    replace_file(folder / OPTIONS, options.encode("utf8"))


def save_token_vectors(model: EncoderModel, vocabulary: Path, path: Path) -> None:
    """Write the token layer of the words of a file as bilm-tf's `dump_token_embeddings` does: the
    dataset `embedding` (n_words, token_width) in the order of the lines, `<S>` and `</S>` as marks.
    """
    config = model.config
    if not isinstance(config, BiLMConfig):
        raise errors.CtxvecError(errors.NOT_BILM_HDF5.format(path=path, reason="it is no biLM"))
    words, encoder = read_words(vocabulary), model.build()
    with torch.no_grad():
        parts = [
            encoder.word_vectors(words[i : i + WORDS_AT_ONCE], sentence_marks=True).numpy()
            for i in range(0, len(words), WORDS_AT_ONCE)
        ]
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, _hdf5([("embedding", np.concatenate(parts))], path))


def _hdf5(arrays: Iterable[tuple[str, FloatArray]], path: Path) -> bytes:
    try:
        import h5py
    except ImportError as error:
        message = errors.NEEDS_EXTRA.format(path=path, package="h5py", extra="import")
        raise errors.CtxvecError(message) from error
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        for name, array in arrays:
            file.create_dataset(name, data=np.ascontiguousarray(array))
    return data.getvalue()


def _expressible(config: Any, folder: Path) -> BiLMConfig:
    if not isinstance(config, BiLMConfig):
        reason = "it is no biLM"
    elif config.directions != "both":
        reason = "it lacks a direction"
    elif config.is_projected:
        reason = "it projects words or Unicode characters to its token layer"
    elif config.aligned or config.warm:
        reason = "it has an alignment or a start state"
    elif config.output_clip and config.hidden_width == config.token_width:
        reason = "it clips the output of LSTMs that have no projection"
    elif config.hidden_width < config.token_width:
        reason = "its LSTMs are narrower than its layers"
    else:
        return config
    raise errors.CtxvecError(errors.NOT_BILM_HDF5.format(path=folder, reason=reason))


def _options(config: BiLMConfig) -> dict[str, Any]:
    lstm: dict[str, Any] = {
        "dim": config.hidden_width,
        "projection_dim": config.token_width,
        "n_layers": config.n_layers,
        "cell_clip": config.cell_clip or None,
        "proj_clip": config.output_clip or None,
        "use_skip_connections": config.skip,
    }
    maker = {MADE_WITH: f"spacy-ctxvec {__version__}"}
    if config.n_words:
        return {"lstm": lstm, "n_tokens_vocab": config.n_words, **maker}
    characters = {
        "n_characters": N_CHARACTERS,
        "max_characters_per_token": config.max_characters,
        "embedding": {"dim": config.char_width},
        "filters": [list(pair) for pair in config.filters],
        "activation": config.activation,
        "n_highway": config.n_highway,
    }
    return {"lstm": lstm, "char_cnn": characters, **maker}


def _arrays(config: BiLMConfig, weights: Mapping[str, Tensor]) -> Arrays:
    def read(name: str) -> FloatArray:
        return weights[name].detach().cpu().float().numpy()

    if config.n_words:
        yield "embedding", read("word_encoder.embedding.weight")
    else:
        own = {
            name.removeprefix("char_encoder."): read(name) for name in weights if "char_" in name
        }
        yield from _char_arrays(config, own)
    for direction, stack in enumerate(STACKS):
        for layer in range(config.n_layers):
            start = f"{stack}.{layer}."
            own = {
                name.removeprefix(start): read(name) for name in weights if name.startswith(start)
            }
            for part, array in _cell_arrays(config, own):
                yield CELL.format(direction=direction, layer=layer, part=part), array


def _char_arrays(config: BiLMConfig, weights: Mapping[str, FloatArray]) -> Arrays:
    yield "char_embed", weights["embedding.weight"][1:]  # but the row for "no word here"
    for i in range(len(config.filters)):
        kernel = weights[f"convolutions.{i}.weight"].transpose(2, 1, 0)
        yield f"CNN/W_cnn_{i}", kernel[None]
        yield f"CNN/b_cnn_{i}", weights[f"convolutions.{i}.bias"]
    for k in range(config.n_highway):
        for ours, theirs in (("transform", "transform"), ("gate", "carry")):
            yield f"CNN_high_{k}/W_{theirs}", weights[f"highways.{k}.{ours}.weight"].T
            yield f"CNN_high_{k}/b_{theirs}", weights[f"highways.{k}.{ours}.bias"]
    width = config.token_width
    identity = np.eye(width, dtype=np.float32)
    projects = "projection.weight" in weights
    yield "CNN_proj/W_proj", weights["projection.weight"].T if projects else identity
    yield "CNN_proj/b_proj", weights["projection.bias"] if projects else 0 * identity[0]


def _cell_arrays(config: BiLMConfig, weights: Mapping[str, FloatArray]) -> Arrays:
    kernel = np.concatenate([weights["weight_ih"], weights["weight_hh"]], axis=1)
    yield "W_0", _reordered(kernel)
    bias = weights["bias"].copy()
    if config.forget_bias != FORGET_BIAS:
        forget = slice(config.hidden_width, 2 * config.hidden_width)
        bias[forget] += np.float32(config.forget_bias - FORGET_BIAS)
    yield "B", _reordered(bias)
    identity = np.eye(config.hidden_width, dtype=np.float32)
    yield "W_P_0", weights["weight_hr"].T if "weight_hr" in weights else identity


def _reordered(array: FloatArray) -> FloatArray:
    """Our blocks along the first axis (4 * hidden, ...) -> TensorFlow's, along the last."""
    i, forget, candidate, o = np.split(array, 4)
    return np.concatenate([i, candidate, forget, o]).T
