"""The sizes of a biLM told from the shapes of its weights, where no options came with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import errors
from ...nn.bilm import BiLMConfig
from .weights import CELL, FORGET_BIAS, Arrays

# What shapes cannot tell, as in the published models of ELMo.
PUBLISHED: dict[str, Any] = {
    "activation": "relu",
    "skip": True,
    "cell_clip": 3.0,
    "output_clip": 3.0,
    "max_characters": 50,
}


def config_from_shapes(arrays: Arrays, n_words: int = 0) -> BiLMConfig:
    """The rest is `PUBLISHED`. Without LSTMs that read backward, it is a model of one direction.

    n_words: size of the vocabulary of a biLM that reads words; 0 reads characters
    """
    tokens = {"n_words": n_words} if n_words else _character_sizes(arrays)
    settings = {**PUBLISHED, **tokens, **_lstm_sizes(arrays)}
    try:
        return BiLMConfig(**settings)
    except errors.CtxvecError as error:
        raise arrays.malformed("shapes", "those of a biLM", error) from error


def reads_backward(arrays: Arrays) -> bool:
    return any(name.startswith("RNN_1/") for name in arrays.names())


def _lstm_sizes(arrays: Arrays) -> dict[str, Any]:
    projection = CELL.format(direction=0, layer=0, part="W_P_0")
    hidden_width = _shape(arrays, _kernel(0), 2)[1] // 4
    is_projected = projection in arrays.names()
    width = _shape(arrays, projection, 2)[1] if is_projected else hidden_width
    both = reads_backward(arrays)
    sizes = {
        "width": width * (1 + both),
        "directions": "both" if both else "forward",
        "hidden_width": hidden_width,
        "n_layers": _count(arrays, _kernel),
        "forget_bias": FORGET_BIAS,
    }
    return sizes if is_projected else {**sizes, "output_clip": 0.0}


def _character_sizes(arrays: Arrays) -> dict[str, Any]:
    kernels = [f"CNN/W_cnn_{i}" for i in range(_count(arrays, "CNN/W_cnn_{}".format))]
    filters = [_shape(arrays, kernel, 4) for kernel in kernels]
    return {
        "char_width": _shape(arrays, "char_embed", 2)[1],
        "filters": tuple((width, n) for _, width, _, n in filters),
        "n_highway": _count(arrays, "CNN_high_{}/W_carry".format),
    }


def _kernel(layer: int) -> str:
    return CELL.format(direction=0, layer=layer, part="W_0")


def _count(arrays: Arrays, name: Callable[[int], str]) -> int:
    """How many arrays there are whose names count up from 0."""
    names = set(arrays.names())
    return next(i for i in range(len(names) + 1) if name(i) not in names)


def _shape(arrays: Arrays, name: str, n_axes: int) -> tuple[int, ...]:
    shape = arrays.shape(name)
    if len(shape) != n_axes:
        raise arrays.malformed(name, f"an array of {n_axes} axes", shape)
    return shape
