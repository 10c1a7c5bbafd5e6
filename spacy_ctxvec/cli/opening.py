"""Opening what a user names on the command line: nothing, a model, or a saved pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import spacy
from spacy.cli._util import parse_config_overrides
from spacy.language import Language
from spacy.util import is_package, load_config, load_model_from_config

from .. import errors
from ..formats.detect import load_model
from ..formats.native import EncoderModel
from ..layers.encoder import shim_of
from ..pipe.component import Ctxvec, encoders_of
from ..pipe.encoder_config import encoder_block
from ..training.pretrain import model_folder


def is_pipeline(name: str) -> bool:
    """Whether `name` is the folder of a saved pipeline, or an installed pipeline package."""
    folder = Path(name)
    if folder.is_dir():
        return (folder / "config.cfg").is_file() and (folder / "meta.json").is_file()
    return not folder.exists() and is_package(name)


def open_pipeline(name: str | None) -> Language:
    """A pipeline with a `ctxvec`: the one named, or a blank one around a model.

    name (Optional[str]): Pipeline, model folder or file, or working folder of a training that has
        ended; by default the shipped model.
    """
    if name is None:
        nlp = spacy.blank("en")
        nlp.add_pipe("ctxvec")
        return nlp
    if not is_pipeline(name):
        return pipeline_around(load_model(model_folder(Path(name))))
    nlp = load_pipeline(name)
    if not encoders_of(nlp):
        found = ", ".join(nlp.pipe_names) or "none"
        raise errors.CtxvecError(errors.PIPELINE_WITHOUT_CTXVEC.format(path=name, found=found))
    return nlp


def open_config(path: Path) -> Language:
    """The pipeline of a training config, with encoders as the training starts with them."""
    try:
        config = load_config(path, overrides=parse_config_overrides([]), interpolate=False)
        nlp = load_model_from_config(config, auto_fill=True)
    except errors.CtxvecError:
        raise
    except (ImportError, KeyError, OSError, SystemExit, ValueError) as error:
        message = errors.UNUSABLE_CONFIG.format(path=path, error=error)
        raise errors.CtxvecError(message) from error
    encoders = list(encoders_of(nlp))
    if not encoders:
        found = ", ".join(nlp.pipe_names) or "none"
        raise errors.CtxvecError(errors.PIPELINE_WITHOUT_CTXVEC.format(path=path, found=found))
    with nlp.select_pipes(enable=encoders):
        nlp.initialize()
    nlp._link_components()  # which has seen the encoders alone
    return nlp


def load_pipeline(name: str) -> Language:
    """`spacy.load`, with a plain message where it fails."""
    try:
        return spacy.load(name)
    except errors.CtxvecError:
        raise
    except (ImportError, KeyError, OSError, ValueError) as error:
        message = errors.UNREADABLE_PIPELINE.format(path=name, error=error)
        raise errors.CtxvecError(message) from error


def first_encoder(nlp: Language) -> Ctxvec:
    """The component whose vectors are the Doc's own."""
    return next(iter(encoders_of(nlp).values()))


def model_block(model: EncoderModel) -> dict[str, Any]:
    """The block [components.NAME.model] that makes the layer of this model."""
    return encoder_block(
        model.config,
        has_vectors=model.vectors is not None,
        lower=model.info.get("lower", True),
    )


def pipeline_around(model: EncoderModel) -> Language:
    """A blank pipeline of the model's language: English where it names none, else multi-language
    where spaCy does not know it."""
    try:
        nlp = spacy.blank(model.info.get("lang", "en"))
    except ImportError:
        nlp = spacy.blank("xx")
    pipe = nlp.add_pipe("ctxvec", config={"model": model_block(model)})
    assert isinstance(pipe, Ctxvec)
    shim_of(pipe.model).adopt(model.info.get("name", "a loaded model"), model)
    return nlp
