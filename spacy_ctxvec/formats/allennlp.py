"""Archives of AllenNLP that hold a task's model with an ELMo in it: its biLM and its learned mixes.

`weights.th` has all tensors of the model, the encoder's under the name of the layer that holds it:

    ..._elmo_lstm._token_embedder.  characters; the gate of its highways keeps the input, where that
                                    of `nn.char_encoder.Highway` opens the transform: their sum is 1
    ..._elmo_lstm._elmo_lstm.       the LSTMs in PyTorch's layout, with the forget bias
    ...scalar_mix_0.                weights before the softmax, one by one, and gamma
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from .. import errors
from ..nn.bilm import BiLMConfig
from ..text.characters import N_CHARACTERS
from .efml.layout import highways, lstms, opened_highway
from .elmo.options import read_options
from .elmo.shapes import PUBLISHED
from .native import FROM_ELSEWHERE, EncoderModel, no_statistics
from .pickles import StateDict

WEIGHTS = "weights.th"
TOKENS, LSTMS = "_elmo_lstm._token_embedder.", "_elmo_lstm._elmo_lstm."
CHARACTERS = "_char_embedding_weights"
MIX = re.compile(r"(scalar_mix_\d+\.)gamma")


def is_allennlp(folder: Path) -> bool:
    return (folder / WEIGHTS).is_file()


def read_allennlp(folder: Path, options: Path | None = None) -> EncoderModel:
    """The only ELMo of an unpacked archive; `info["mixes"]` are its mixes, as they were learned.

    options: JSON with the sizes, where the archive holds it; without it, what shapes do not tell is
        that of the published models, which `info` has under `assumed`
    """
    file = StateDict.open(folder / WEIGHTS)
    own = _of_elmo(file)
    config = replace(read_options(options), forget_bias=0.0) if options else _config(own)
    weights = dict(_weights(own, config))
    weights |= no_statistics(config)
    info: dict[str, Any] = {"name": folder.name, "family": "allennlp-archive", **FROM_ELSEWHERE}
    info["mixes"] = _mixes(own)
    if options is None:
        info["assumed"] = {key: getattr(config, key) for key in PUBLISHED}
    return EncoderModel(config, weights, info)


def _of_elmo(file: StateDict) -> StateDict:
    """The tensors of the only layer that holds an ELMo, without its name."""
    names = [name for name in file.tensors if isinstance(name, str)]
    end = TOKENS + CHARACTERS
    prefixes = [name.removesuffix(end) for name in names if name.endswith(end)]
    if len(prefixes) != 1:
        raise file.malformed(end, "of one ELMo", f"{len(prefixes)} of them")
    start = prefixes[0]
    return StateDict(
        file.path,
        {name.removeprefix(start): file.tensors[name] for name in names if name.startswith(start)},
    )


def _config(file: StateDict) -> BiLMConfig:
    """Sizes told by the shapes; the rest is `PUBLISHED`."""
    kernels = _numbered(file, TOKENS + "char_conv_{}.weight")
    filters = [file.shape(name) for name in kernels]
    hidden_width, token_width = _matrix(file, LSTMS + "forward_layer_0.input_linearity.weight")
    if any(len(shape) != 3 for shape in filters):
        raise file.malformed(kernels[0], "a kernel (features, width, characters)", filters[0])
    settings = {
        **PUBLISHED,
        "width": 2 * token_width,
        "hidden_width": hidden_width // 4,
        "n_layers": len(_numbered(file, LSTMS + "forward_layer_{}.input_linearity.weight")),
        "char_width": _matrix(file, TOKENS + CHARACTERS)[1],
        "filters": tuple((width, n) for n, _, width in filters),
        "n_highway": len(_numbered(file, TOKENS + "_highways._layers.{}.weight")),
    }
    try:
        return BiLMConfig(**settings)
    except errors.CtxvecError as error:
        raise file.malformed(LSTMS, "shapes of a biLM", error) from error


def _weights(file: StateDict, config: BiLMConfig) -> Iterator[tuple[str, Tensor]]:
    own, width = "char_encoder.", config.char_width
    yield own + "embedding.weight", file.read(TOKENS + CHARACTERS, N_CHARACTERS, width)
    for theirs, ours, shape in highways(config):
        joined = file.read(f"{TOKENS}_{theirs}", 2 * shape[0], *shape[1:])
        yield from opened_highway(joined, ours)
    for i, (length, n) in enumerate(config.filters):
        kernel = file.read(f"{TOKENS}char_conv_{i}.weight", n, width, length)
        yield f"{own}convolutions.{i}.weight", kernel
        yield f"{own}convolutions.{i}.bias", file.read(f"{TOKENS}char_conv_{i}.bias", n)
    n_features = sum(n for _, n in config.filters)
    projection = file.read(f"{TOKENS}_projection.weight", config.token_width, n_features)
    yield own + "projection.weight", projection
    yield own + "projection.bias", file.read(f"{TOKENS}_projection.bias", config.token_width)
    for theirs, ours, shape in lstms(config):
        yield ours, file.read(LSTMS + theirs, *shape)


def _mixes(file: StateDict) -> list[dict[str, Any]]:
    """Of each mix, the weights before the softmax and gamma, as `ScalarMix.v1` takes them."""
    starts = sorted(found[1] for name in file.tensors if (found := MIX.fullmatch(name)))
    return [
        {
            "weights": [
                _number(file, name) for name in _numbered(file, start + "scalar_parameters.{}")
            ],
            "gamma": _number(file, start + "gamma"),
        }
        for start in starts
    ]


def _number(file: StateDict, name: str) -> float:
    return float(file.read(name, 1))


def _numbered(file: StateDict, name: str) -> list[str]:
    """Names that count up from 0."""
    names = [name.format(i) for i in range(len(file.tensors) + 1)]
    return names[: next(i for i, found in enumerate(names) if found not in file.tensors)]


def _matrix(file: StateDict, name: str) -> tuple[int, int]:
    shape = file.shape(name)
    if len(shape) != 2:
        raise file.malformed(name, "a matrix", shape)
    return shape[0], shape[1]
