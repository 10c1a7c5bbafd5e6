"""Reading of the configs of trainings, in the format of spaCy's own config files."""

from __future__ import annotations

import typing
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from thinc.api import Config

from .. import errors
from ..nn.bilm import BiLMConfig
from .lm_config import LMTrainingConfig
from .nmt_config import NMTTrainingConfig
from .pretrain import PretrainConfig
from .train_nmt import NMTRunConfig

Settings = TypeVar("Settings")


def read_pretrain_config(path: Path, text_folder: Path) -> PretrainConfig:
    """The [pretrain] block of a config file; unknown or missing settings are named."""
    block = _block(path, "pretrain")
    model = _settings(BiLMConfig, path, "pretrain.model", block.pop("model", {}))
    training = _settings(LMTrainingConfig, path, "pretrain.training", block.pop("training", {}))
    known = {"text_folder": text_folder, "model": model, "training": training}
    return _settings(PretrainConfig, path, "pretrain", {**block, **known})


def read_nmt_config(path: Path, text_folder: Path) -> NMTRunConfig:
    """The [train_nmt] block of a config file; unknown or missing settings are named."""
    block = _block(path, "train_nmt")
    training = _settings(NMTTrainingConfig, path, "train_nmt.training", block.pop("training", {}))
    known = {"text_folder": text_folder, "training": training}
    return _settings(NMTRunConfig, path, "train_nmt", {**block, **known})


def _block(path: Path, name: str) -> dict[str, Any]:
    try:
        return dict(Config().from_disk(path)[name])
    except (KeyError, OSError, ValueError) as error:
        raise _bad(path, name, error) from error


def _is_of(found: Any, expected: Any) -> bool:
    """Whether a value can be that of a setting, as far as its type tells."""
    if expected in (int, float, str):
        return isinstance(found, (expected, int))
    return typing.get_origin(expected) is not list or isinstance(found, list)


def _settings(kind: type[Settings], path: Path, block: str, values: dict[str, Any]) -> Settings:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - names)
    if unknown:
        problem = f"[{block}] has no setting {unknown[0]}; it knows {', '.join(sorted(names))}"
        raise _bad(path, block, problem)
    for name, expected in typing.get_type_hints(kind).items():
        if name in values and not _is_of(values[name], expected):
            kind_of = "a list" if typing.get_origin(expected) is list else expected.__name__
            problem = f"[{block}] {name} should be {kind_of}, found {values[name]!r}"
            raise _bad(path, block, problem)
    try:
        return kind(**values)
    except TypeError as error:
        raise _bad(path, block, error) from error


def _bad(path: Path, block: str, problem: object) -> errors.CtxvecError:
    message = errors.BAD_TRAINING_CONFIG.format(path=path, block=block, error=problem)
    return errors.CtxvecError(message)
