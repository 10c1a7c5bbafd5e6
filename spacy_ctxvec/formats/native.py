"""The project's own model folder: weights that nothing unpickles, sizes as JSON, a card.

config.json              format version, architecture, sizes, language, tokenisation
model.safetensors        the encoder's weights, float32 or float16
vectors.safetensors      optional: the static vectors that an MT-LSTM reads
softmax.safetensors      optional: the softmax it was trained with
vocab.txt                optional: the words of that softmax, one a line, specials first
README.md                the model card, for people
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from .. import errors
from ..nn.adaptive_softmax import AnySoftmax, new_softmax
from ..nn.architectures import CONFIGS, EncoderConfig, architecture_of, new_encoder
from ..nn.bilm import ALIGNMENT, START_CELL, START_OUTPUT
from ..nn.transformer import TransformerConfig
from ..nn.vocabulary import VOCABULARY
from .word_table import WordTable

FORMAT_VERSION = 1
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
VECTORS_FILE = "vectors.safetensors"
SOFTMAX_FILE = "softmax.safetensors"
VOCABULARY_FILE = "vocab.txt"
RESERVED = ("format", "architecture", "sizes", "dtype")
# Of models of others.
FROM_ELSEWHERE = {
    "tokenization": "that of the text the model was trained on; the files do not tell",
    # Mixes of imported weights follow the published formula.
    "standardize": False,
}
DTYPES = {"float32": torch.float32, "float16": torch.float16}


@dataclass(frozen=True)
class EncoderModel:
    """An encoder outside any pipeline: its sizes, its weights, and what is known about it.

    `info` may hold `lang`, `name`, `tokenization` and anything else worth telling a user.
    `vectors` are static vectors that an MT-LSTM reads; without them, it reads the pipeline's.
    """

    config: EncoderConfig
    weights: dict[str, Tensor]
    info: dict[str, Any] = field(default_factory=dict)
    vectors: WordTable | None = None

    @property
    def dtype(self) -> str:
        """The narrowest of `DTYPES` that keeps all weights as they are."""
        halves = all(
            w.dtype == torch.float16 for w in self.weights.values() if w.is_floating_point()
        )
        return "float16" if halves else "float32"

    def build(self) -> Any:
        """The encoder as a float32 module, in evaluation mode."""
        if isinstance(self.config, TransformerConfig):  # has buffers that are no weights
            model: Any = new_encoder(self.config)
        else:
            with torch.device("meta"):  # sizes of a damaged file must not allocate memory
                model = new_encoder(self.config)
            check_sizes(model, self.weights)
            model.to_empty(device="cpu")  # random weights would take longer than the real ones
        load_weights(model, self.weights)
        return model.eval()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy `weights` into `model`, whatever their precision."""
    check_sizes(model, weights)
    model.load_state_dict(
        {n: t.float() if t.is_floating_point() else t for n, t in weights.items()}
    )


def check_sizes(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Say in words which of the weights does not fit."""
    expected, found = _shapes(model.state_dict()), _shapes(weights)
    if expected != found:
        names = sorted(expected.keys() | found.keys())
        name = next(n for n in names if expected.get(n) != found.get(n))
        raise errors.CtxvecError(
            errors.WRONG_SIZES.format(
                name=name,
                found=found.get(name, "no such weight"),
                expected=expected.get(name, "no such weight"),
            )
        )


def no_statistics(config: EncoderConfig) -> dict[str, Tensor]:
    """What an encoder holds in place of its layers' mean and deviation before they are measured."""
    shape = (config.n_outputs, config.width)
    return {"layer_mean": torch.zeros(shape), "layer_deviation": torch.ones(shape)}


def n_parameters(weights: Mapping[str, Tensor]) -> int:
    """How many numbers of an encoder were learned; not statistics, vocabulary, start, alignment."""
    apart = ("layer_mean", "layer_deviation", VOCABULARY, START_OUTPUT, START_CELL, ALIGNMENT)
    return sum(w.numel() for name, w in weights.items() if not name.endswith(apart))


def _shapes(weights: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """A vocabulary may have any length."""
    return {n: () if n.endswith(VOCABULARY) else tuple(t.shape) for n, t in weights.items()}


def _narrowed(tensor: Tensor, dtype: str) -> Tensor:
    """On the CPU; numbers in the given precision, bytes of text as they are."""
    precision = DTYPES[dtype] if tensor.is_floating_point() else tensor.dtype
    return tensor.detach().to("cpu", precision).contiguous()


def save_native(
    model: EncoderModel, folder: Path, *, dtype: str = "float32", card: str | None = None
) -> None:
    """Write a model folder, each file whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: _narrowed(tensor, dtype) for name, tensor in model.weights.items()}
    write_safetensors(folder / WEIGHTS_FILE, weights)
    if model.vectors is not None:
        replace_file(folder / VECTORS_FILE, model.vectors.to_bytes())
    description = {
        "format": FORMAT_VERSION,
        "architecture": architecture_of(model.config),
        "sizes": model.config.to_dict(),
        "dtype": dtype,
        **{key: value for key, value in model.info.items() if key not in RESERVED},
    }
    text = json.dumps(description, indent=2, ensure_ascii=False)
    replace_file(folder / CONFIG_FILE, text.encode("utf8"))
    if card is not None:
        replace_file(folder / "README.md", card.encode("utf8"))


def load_native(folder: Path) -> EncoderModel:
    """Read a model folder."""
    path = folder / CONFIG_FILE
    description = read_json_object(path)
    version, architecture = description.get("format"), description.get("architecture")
    if version != FORMAT_VERSION:
        raise errors.malformed_model(path, "format", str(FORMAT_VERSION), version)
    if architecture not in CONFIGS:
        raise errors.malformed_model(path, "architecture", " or ".join(CONFIGS), architecture)
    info = {key: value for key, value in description.items() if key not in RESERVED}
    config = _config(path, architecture, description.get("sizes"))
    weights = read_safetensors(folder / WEIGHTS_FILE)
    return EncoderModel(config, weights, info, _vectors(folder / VECTORS_FILE))


def _vectors(path: Path) -> WordTable | None:
    if not path.exists():
        return None
    try:
        return WordTable.from_bytes(path.read_bytes())
    except (OSError, ValueError) as error:
        expected = "keys, rows and vectors that belong together"
        raise errors.malformed_model(path, "vectors", expected, error) from error


def save_softmax(
    softmax: AnySoftmax, words: Sequence[str], folder: Path, *, dtype: str = "float32"
) -> None:
    """Write the softmax of a language model and its words beside the encoder in `folder`."""
    weights = {
        name: tensor.detach().to("cpu", DTYPES[dtype]).contiguous()
        for name, tensor in softmax.state_dict().items()
    }
    replace_file(folder / VOCABULARY_FILE, "".join(f"{word}\n" for word in words).encode("utf8"))
    write_safetensors(folder / SOFTMAX_FILE, weights)


def load_softmax(folder: Path) -> tuple[AnySoftmax, list[str]]:
    """The softmax that `save_softmax` wrote, in float32, and its words."""
    path = folder / SOFTMAX_FILE
    if not path.exists():
        raise errors.CtxvecError(errors.NO_SOFTMAX.format(folder=folder, name=SOFTMAX_FILE))
    weights = read_safetensors(path)
    try:
        words = (folder / VOCABULARY_FILE).read_text("utf8").split("\n")[:-1]
        width, input_width = weights["projections.0.weight"].shape
    except (OSError, UnicodeDecodeError, KeyError, ValueError, IndexError) as error:
        raise errors.malformed_model(path, "softmax", "weights and words", error) from error
    kind = "adaptive" if any(name.startswith("clusters.") for name in weights) else "full"
    softmax = new_softmax(kind, input_width=input_width, width=width, n_words=len(words))
    try:
        softmax.load_state_dict({name: tensor.float() for name, tensor in weights.items()})
    except RuntimeError as error:
        expected = f"weights for the {len(words)} words of {VOCABULARY_FILE}"
        raise errors.malformed_model(path, "softmax", expected, error) from error
    return softmax, words


def _config(path: Path, architecture: str, sizes: Any) -> EncoderConfig:
    expected = f"the sizes of an encoder of architecture {architecture}"
    if not isinstance(sizes, dict):
        raise errors.malformed_model(path, "sizes", expected, sizes)
    try:
        return CONFIGS[architecture](**sizes)
    except (TypeError, ValueError) as error:
        raise errors.malformed_model(path, "sizes", expected, error) from error


def read_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise errors.malformed_model(path, "weights", "a safetensors file", error) from error


def read_json_object(path: Path) -> dict[str, Any]:
    try:
        # The standard library's reader: it keeps every digit of a float.
        value = json.loads(path.read_text("utf8"))
    except (OSError, ValueError) as error:
        raise errors.malformed_model(path, "content", "a JSON object", error) from error
    if not isinstance(value, dict):
        raise errors.malformed_model(path, "content", "a JSON object", type(value).__name__)
    return value


def write_safetensors(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a file whole or not at all, without a copy of it in memory."""
    beside = path.with_name(path.name + ".new")
    safetensors.torch.save_file(dict(weights), beside)
    os.replace(beside, path)


def replace_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(data)
    os.replace(beside, path)
