"""The public weights of CoVe: PyTorch's state dict, translation checkpoints, and a Keras file.

A state dict names PyTorch's own LSTM: `weight_ih_l0`, `bias_hh_l1_reverse` and so on, which a
translation checkpoint of OpenNMT-py keeps under `encoder.rnn.`. Keras stores its kernels
transposed and one bias for PyTorch's two; both order the gates input, forget, candidate, output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import errors
from ..nn.architectures import new_encoder
from ..nn.mtlstm import MTLSTMConfig
from .hdf5 import Datasets, opened
from .native import EncoderModel, check_sizes, no_statistics
from .pickles import load_pickle

FIRST = "weight_ih_l0"
PREFIX = "encoder.rnn."  # where a checkpoint holds the LSTMs of its decoder as well
PARTS = {
    "weight_ih": "weight_ih",
    "weight_hh": "weight_hh",
    "bias": "bias_ih",
    "bias_hh": "bias_hh",
}
STACKS = {"forward_lstms": "", "backward_lstms": "_reverse"}
# The first bytes of a pickle of either layout of torch.save.
PICKLES = (b"PK\x03\x04", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.")
CELLS = {"forward_lstms": "forward", "backward_lstms": "backward"}
KERAS_PARTS = {"weight_ih": "kernel:0", "weight_hh": "recurrent_kernel:0", "bias": "bias:0"}
INFO = {
    "family": "cove",
    "tokenization": "that of the text the model was trained on; the published one read lower-cased "
    "text, tokenised as by Moses",
}


def is_pickle(path: Path) -> bool:
    """Whether a file begins as those of `torch.save` do."""
    try:
        with path.open("rb") as file:
            return file.read(max(map(len, PICKLES))).startswith(PICKLES)
    except OSError:
        return False


def read_pth(path: Path) -> EncoderModel:
    """The MT-LSTM of a file of `torch.save`: a bare state dict or a checkpoint that holds one.

    Nothing but tensors and plain values is unpickled.
    """
    arrays = _lstm_arrays(path, _tensors(load_pickle(path)))
    layers = sorted(
        int(found[1]) for name in arrays if (found := re.fullmatch(r"weight_ih_l(\d+)", name))
    )
    config = _config(path, arrays[FIRST], len(layers))
    named = {
        f"{stack}.{layer}.{ours}": f"{theirs}_l{layer}{suffix}"
        for stack, suffix in STACKS.items()
        for layer in layers
        for ours, theirs in PARTS.items()
    }
    missing = [theirs for theirs in named.values() if theirs not in arrays]
    if missing:
        raise errors.malformed_model(
            path, missing[0], "a tensor of a bidirectional LSTM", "nothing"
        )
    unknown = sorted(arrays.keys() - set(named.values()))
    if unknown:
        raise errors.malformed_model(path, unknown[0], "absent", "a tensor")
    return _model(path, config, {ours: arrays[theirs] for ours, theirs in named.items()})


def pth_arrays(model: EncoderModel) -> dict[str, Tensor]:
    """The state dict of the published file's layout: the opposite of `read_pth`."""
    return {
        f"{theirs}_l{layer}{suffix}": model.weights[f"{stack}.{layer}.{ours}"].float()
        for layer in range(model.config.n_layers)
        for stack, suffix in STACKS.items()
        for ours, theirs in PARTS.items()
    }


def read_keras(path: Path) -> EncoderModel:
    """The MT-LSTM of a Keras file of two bidirectional LSTMs, the first one reading the vectors."""
    with opened(path) as file:
        datasets = Datasets(file, path)
        cells = _keras_cells(datasets)
        weights: dict[str, Tensor] = {}
        for layer, cell in enumerate(cells):
            for name, array in _keras_layer(datasets, cell):
                weights[name.format(layer=layer)] = torch.from_numpy(array.copy())
    config = _config(path, weights["forward_lstms.0.weight_ih"], len(cells))
    return _model(path, config, weights)


def holds_keras_lstms(path: Path) -> bool:
    """Whether an HDF5 file holds bidirectional LSTMs of Keras."""
    with opened(path) as file:
        return bool(_keras_cells(Datasets(file, path)))


def _tensors(value: Any, prefix: str = "") -> dict[str, Tensor]:
    """Every tensor of nested dicts, by the path to it; state dicts join names with dots too."""
    if isinstance(value, Tensor):
        return {prefix: value}
    found: dict[str, Tensor] = {}
    if isinstance(value, Mapping):
        for key, part in value.items():
            found |= _tensors(part, f"{prefix}.{key}" if prefix else str(key))
    return found


def _lstm_arrays(path: Path, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of the one LSTM, or of the encoder's, without what their names begin with."""
    prefixes = [name.removesuffix(FIRST) for name in tensors if name.endswith(FIRST)]
    chosen = [prefix for prefix in prefixes if prefix.endswith(PREFIX)] or prefixes
    if len(chosen) != 1:
        found = ", ".join(prefixes) or "no such tensor"
        raise errors.malformed_model(path, FIRST, f"one LSTM, or one under {PREFIX}", found)
    start = len(chosen[0])
    return {name[start:]: t for name, t in tensors.items() if name.startswith(chosen[0])}


def _config(path: Path, first: Tensor, n_layers: int) -> MTLSTMConfig:
    if first.ndim != 2 or not first.shape[0] or first.shape[0] % 4 or not first.shape[1]:
        expected = "a matrix (4 * hidden width, input width)"
        raise errors.malformed_model(path, FIRST, expected, tuple(first.shape))
    return MTLSTMConfig(first.shape[1], first.shape[0] // 4, n_layers)


def _model(path: Path, config: MTLSTMConfig, weights: dict[str, Tensor]) -> EncoderModel:
    for name, tensor in weights.items():
        if not tensor.is_floating_point() or not bool(torch.isfinite(tensor).all()):
            raise errors.malformed_model(path, name, "finite floating-point numbers", tensor.dtype)
    with torch.device("meta"):
        module = new_encoder(config)
    weights = {**weights, **no_statistics(config)}
    try:
        check_sizes(module, weights)
    except errors.CtxvecError as error:
        expected = "the sizes of a bidirectional LSTM"
        raise errors.malformed_model(path, "content", expected, error) from error
    return EncoderModel(config, weights, {"name": path.stem, **INFO})


def _keras_cells(datasets: Datasets) -> list[dict[str, str]]:
    """Of each layer, the groups of its two directions, in the order of the layers' numbers."""
    ends = "/" + KERAS_PARTS["weight_hh"]
    groups = [name.removesuffix(ends) for name in datasets.names() if name.endswith(ends)]
    layers: dict[str, dict[str, str]] = {}
    for group in groups:
        above, _, own = group.rpartition("/")
        for stack, start in CELLS.items():
            if own.startswith(start):
                layers.setdefault(above, {})[stack] = group
    both = [name for name, cell in layers.items() if len(cell) == len(CELLS)]
    return [layers[name] for name in sorted(both, key=_numbers)]


def _numbers(name: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", name)]


def _keras_layer(
    datasets: Datasets, cell: dict[str, str]
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    for stack, group in cell.items():
        for ours, theirs in KERAS_PARTS.items():
            name = f"{group}/{theirs}"
            array = datasets.read(name, *datasets.shape(name))
            yield f"{stack}.{{layer}}.{ours}", np.ascontiguousarray(array.T)
            if ours == "bias":
                yield f"{stack}.{{layer}}.bias_hh", np.zeros_like(array)
