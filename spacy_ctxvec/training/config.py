"""Reading of pretraining configs, in the format of spaCy's own config files."""

from __future__ import annotations

import typing
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from thinc.api import Config

from .. import errors
from ..nn.bilm import BiLMConfig
from .lm_config import LMTrainingConfig
from .pretrain import PretrainConfig

Settings = TypeVar("Settings")


def read_pretrain_config(path: Path, text_folder: Path) -> PretrainConfig:
    """The [pretrain] block of a config file; unknown or missing settings are named."""
    try:
        block = Config().from_disk(path)["pretrain"]
    except (KeyError, OSError, ValueError) as error:
        raise errors.CtxvecError(
            errors.BAD_PRETRAIN_CONFIG.format(path=path, error=error)
        ) from error
    model = _settings(BiLMConfig, path, "pretrain.model", block.pop("model", {}))
    training = _settings(LMTrainingConfig, path, "pretrain.training", block.pop("training", {}))
    known = {"text_folder": text_folder, "model": model, "training": training}
    return _settings(PretrainConfig, path, "pretrain", {**block, **known})


def _settings(kind: type[Settings], path: Path, block: str, values: dict[str, Any]) -> Settings:
    names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(values.keys() - names)
    if unknown:
        problem = f"[{block}] has no setting {unknown[0]}; it knows {', '.join(sorted(names))}"
        raise errors.CtxvecError(errors.BAD_PRETRAIN_CONFIG.format(path=path, error=problem))
    for name, expected in typing.get_type_hints(kind).items():
        found = values.get(name)
        wrong = expected in (int, float, str) and not isinstance(found, (expected, int))
        if name in values and wrong:
            problem = f"[{block}] {name} should be {expected.__name__}, found {found!r}"
            raise errors.CtxvecError(errors.BAD_PRETRAIN_CONFIG.format(path=path, error=problem))
    try:
        return kind(**values)
    except TypeError as error:
        raise errors.CtxvecError(
            errors.BAD_PRETRAIN_CONFIG.format(path=path, error=error)
        ) from error
