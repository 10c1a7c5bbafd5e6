"""The same weights in another form: the forget bias elsewhere, layers aligned, another start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from .. import errors
from ..nn.architectures import EncoderConfig
from ..nn.bilm import ALIGNMENT, START_CELL, START_OUTPUT, BiLMConfig
from ..nn.transformer import TransformerConfig
from ..nn.warm_start import warm_start
from .native import EncoderModel, no_statistics

# What decides a biLM's layers beside its weights, and no shape tells.
UNSEEN = (
    "directions", "skip", "cell_clip", "output_clip", "activation", "max_characters", "aligned",
)  # fmt: skip


def fitted(model: EncoderModel, config: EncoderConfig) -> EncoderModel:
    """The model in the form that an encoder of these settings computes with.

    CtxvecError for a setting that differs, and that would silently give other layers.
    """
    if isinstance(model.config, TransformerConfig) and isinstance(config, TransformerConfig):
        theirs, ours = model.config.settings, config.settings
        for name in sorted(theirs.keys() | ours.keys()):
            _check_setting(f"settings.{name}", theirs.get(name), ours.get(name))
    if not isinstance(model.config, BiLMConfig) or not isinstance(config, BiLMConfig):
        return model
    for name in UNSEEN:
        _check_setting(name, getattr(model.config, name), getattr(config, name))
    if config.warm and not model.config.warm:
        raise errors.CtxvecError(errors.NO_START_STATE)
    model = model if config.warm else cold(model)
    return with_forget_bias(model, config.forget_bias)


def _check_setting(name: str, found: object, expected: object) -> None:
    if found != expected:
        values = {"found": json.dumps(found), "expected": json.dumps(expected)}
        raise errors.CtxvecError(errors.OTHER_SETTING.format(name=name, **values))


def with_forget_bias(model: EncoderModel, forget_bias: float) -> EncoderModel:
    """A biLM whose forget gates add `forget_bias` to their biases, and these are as much less."""
    config = _bilm(model)
    moved = config.forget_bias - forget_bias
    if not moved:
        return model
    weights = dict(model.weights)
    forget = slice(config.hidden_width, 2 * config.hidden_width)
    for name in weights:
        if "_lstms." in name and name.endswith(".bias"):
            bias = weights[name].float().clone()
            bias[forget] += moved
            weights[name] = bias
    return replace(model, config=replace(config, forget_bias=forget_bias), weights=weights)


def cold(model: EncoderModel) -> EncoderModel:
    """A biLM that starts from zero."""
    config = _bilm(model)
    kept = {k: w for k, w in model.weights.items() if k not in (START_OUTPUT, START_CELL)}
    return replace(model, config=replace(config, warm=False), weights=kept)


def warmed(model: EncoderModel, sentences: Sequence[Sequence[str]]) -> EncoderModel:
    """A biLM that starts from the state it is in after these sentences; see `nn.warm_start`."""
    model = cold(model)
    weights = {**model.weights, **warm_start(model.build(), sentences)}
    return _without_statistics(model, weights, warm=True)


def aligned(model: EncoderModel, matrix: Tensor) -> EncoderModel:
    """A biLM with every layer mapped by `matrix` (width, width), after any mapping it has.

    A mix is linear, so that mapping each layer is mapping the mix, as cross-lingual models do.
    """
    config, matrix = _bilm(model), matrix.float()
    expected = (config.width, config.width)
    if tuple(matrix.shape) != expected or not bool(torch.isfinite(matrix).all()):
        found = f"shape {tuple(matrix.shape)}, or numbers that are none"
        raise errors.CtxvecError(errors.BAD_ALIGNMENT.format(expected=expected, found=found))
    before = model.weights.get(ALIGNMENT)
    whole = matrix if before is None else matrix @ before.float()
    return _without_statistics(model, {**model.weights, ALIGNMENT: whole}, aligned=True)


def _without_statistics(
    model: EncoderModel, weights: dict[str, Tensor], **changes: Any
) -> EncoderModel:
    """With other weights and settings: the mean and deviation of the layers are others too."""
    config = replace(_bilm(model), **changes)
    return replace(model, config=config, weights={**weights, **no_statistics(config)})


def _bilm(model: EncoderModel) -> BiLMConfig:
    if not isinstance(model.config, BiLMConfig):
        raise errors.CtxvecError(errors.FOR_BILMS)
    return model.config
