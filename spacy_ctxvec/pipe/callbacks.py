"""Functions that training configs name: loaders and callbacks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from spacy.language import Language

from .. import errors
from ..formats.native import EncoderModel
from ..layers.encoder import settings_of, shim_of
from .component import encoders_of


def load_model_v1(path: Path) -> Callable[[], EncoderModel]:
    """`spacy-ctxvec.load_model.v1`, for [initialize.components.NAME.loader].

    path (Path): A model folder, or any public format that the package reads.
    RETURNS (Callable[[], EncoderModel]): Reads the model when the component calls it: spaCy
        resolves [initialize] also where nothing is to be initialised.
    """
    return partial(_load, path)


def _load(path: Path) -> EncoderModel:
    from ..formats.detect import load_model

    return load_model(path)


def gradual_unfreezing_v1(
    components: dict[str, int], layer_steps: int = 0
) -> Callable[[Language, dict[str, Any]], None]:
    """`spacy-ctxvec.gradual_unfreezing.v1`, for [training.before_update].

    components (Dict[str, int]): The step at which each `ctxvec` component starts to learn, by
        component name; "*" stands for all that are not named.
    layer_steps (int): From then on, steps between one layer and the next one below it, from the
        top down; 0 lets all layers learn at once.
    """
    return partial(_unfreeze, components, layer_steps)


def _unfreeze(
    components: dict[str, int], layer_steps: int, nlp: Language, info: dict[str, Any]
) -> None:
    encoders = encoders_of(nlp)
    unknown = components.keys() - encoders.keys() - {"*"}
    if unknown:
        found = ", ".join(encoders) or "none"
        message = errors.UNFREEZES_UNKNOWN.format(name=min(unknown), found=found)
        raise errors.CtxvecError(message)
    for name, pipe in encoders.items():
        start = components.get(name, components.get("*"))
        if start is None:
            continue
        since = info["step"] - start
        pipe.frozen = since < 0
        top = shim_of(pipe.model).module.config.n_outputs - 1
        lowest = max(0, top - since // layer_steps) if layer_steps else 0
        settings_of(pipe.model).first_trainable = lowest
