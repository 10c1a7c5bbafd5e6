"""Writing of an encoder as a model folder of ELMoForManyLangs: see `layout`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import __version__, errors
from ...nn.alphabet import N_MARKS
from ...nn.bilm import BiLMConfig
from ...nn.vocabulary import VOCABULARY, text_of
from ...nn.word_encoder import words_in
from ...text.corpus import SPECIALS
from ..elmo.export import MADE_WITH
from ..native import EncoderModel, replace_file
from . import layout, reading
from .dictionaries import written
from .sizes import CONFIG, described

SIZES = "sizes.json"
FILES = (SIZES, *reading.FILES)


def save_efml(model: EncoderModel, folder: Path) -> None:
    """Write a model folder, the opposite of `read_efml`; CtxvecError where the model is of another
    shape. Statistics of its layers have no place there."""
    config = _expressible(model.config, folder)
    weights = {name.removeprefix(layout.OWN): tensor for name, tensor in model.weights.items()}
    words, characters = _words_in(weights, config), _characters_in(weights, config)
    dictionaries = {layout.WORDS: words, layout.CHARACTERS: characters}
    files = {name: written(found, folder / name) for name, found in dictionaries.items() if found}
    tokens = dict(_token_tensors(weights, config, len(words), len(characters)))
    lstms = {theirs: weights[ours] for theirs, ours, _ in layout.lstms(config)}
    files |= {layout.TOKENS: _pickled(tokens), layout.ENCODER: _pickled(lstms)}
    files |= {
        CONFIG: _json({"config_path": SIZES, MADE_WITH: f"spacy-ctxvec {__version__}"}),
        SIZES: _json(described(config)),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        replace_file(folder / name, data)


def _expressible(config: Any, folder: Path) -> BiLMConfig:
    """The sizes of a model that the format has a place for."""
    if not isinstance(config, BiLMConfig) or not config.is_projected:
        reason = "it does not read a vocabulary of characters, nor words through a projection"
    elif config.directions != "both" or not (config.skip or config.n_layers == 1):
        reason = "it lacks a direction, or the skip connections"
    elif config.aligned or config.warm or config.forget_bias:
        reason = "it has an alignment, a start state, or a forget bias of its own"
    elif config.hidden_width == config.token_width:
        reason = "its LSTMs have no projection"
    else:
        return config
    raise errors.CtxvecError(errors.NOT_EFML.format(path=folder, reason=reason))


def _words_in(weights: Mapping[str, Tensor], config: BiLMConfig) -> list[str]:
    """The words by row; rows that no word stands for are not written."""
    if not config.n_words:
        return []
    words = words_in(text_of(weights[f"words.{VOCABULARY}"]))[: config.n_words]
    return [*layout.WORD_MARKS, *words[len(SPECIALS) :]]


def _characters_in(weights: Mapping[str, Tensor], config: BiLMConfig) -> list[str]:
    if not config.n_characters:
        return []
    characters = text_of(weights[f"alphabet.{VOCABULARY}"])
    return [*layout.CHARACTER_MARKS, *characters[: config.n_characters - N_MARKS]]


def _token_tensors(
    weights: Mapping[str, Tensor], config: BiLMConfig, n_words: int, n_characters: int
) -> Iterator[tuple[str, Tensor]]:
    """The opposite of `_token_layer`."""
    if n_words:
        yield layout.WORD_TABLE, weights["words.embedding.weight"][:n_words]
    if n_characters:
        table = weights["char_encoder.embedding.weight"][:n_characters]
        yield layout.CHARACTER_TABLE, table
        for theirs, ours, _ in layout.highways(config):
            transform, gate = (weights[ours.format(part)] for part in ("transform", "gate"))
            yield theirs, torch.cat([transform, -gate])
    for theirs, ours, _ in layout.convolutions_and_projection(config):
        yield theirs, weights[ours]


def _pickled(tensors: Mapping[str, Tensor]) -> bytes:
    data = io.BytesIO()
    own = {name: t.detach().to("cpu", torch.float32).clone() for name, t in tensors.items()}
    torch.save(own, data)
    return data.getvalue()


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=1).encode("utf8")
