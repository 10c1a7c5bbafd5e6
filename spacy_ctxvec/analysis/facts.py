"""What is worth telling of an encoder, a pipeline and the machine, as plain data for reports."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from spacy.language import Language
from thinc.api import Model
from torch import Tensor

from .. import __version__
from ..formats.native import EncoderModel, n_parameters
from ..formats.remote import sha256_of
from ..layers import scalar_mix
from ..layers.encoder import ensure_weights, settings_of
from ..layers.listener import is_listener
from ..layers.listener import settings_of as listener_settings_of
from ..pipe.component import Ctxvec, encoders_of
from ..pipe.linking import nodes

TOK2VEC, MIX = "ctxvec_tok2vec", "ctxvec_mix"
PACKAGES = ("spacy", "thinc", "torch", "numpy")


def model_facts(model: EncoderModel) -> dict[str, Any]:
    """Sizes, number of parameters, and whatever the model says of itself."""
    return _facts(model.config.to_dict(), model.weights, model.info)


def encoder_facts(component: Ctxvec) -> dict[str, Any]:
    """The same of the encoder inside a component, and where its weights came from."""
    shim = ensure_weights(component.model, component.name)
    facts = _facts(shim.module.config.to_dict(), shim.module.state_dict(), shim.info)
    return {**facts, "source": shim.source}


def _facts(
    sizes: dict[str, Any], weights: Mapping[str, Tensor], info: dict[str, Any]
) -> dict[str, Any]:
    return {**info, "n_parameters": n_parameters(weights), "sizes": sizes}


def pipeline_facts(nlp: Language) -> dict[str, Any]:
    """The encoders of a pipeline, their settings, and the mix of every component behind them."""
    encoders = encoders_of(nlp)
    own = {
        name: [_mix_facts(node) for node in nodes(pipe) if node.name == TOK2VEC]
        for name, pipe in nlp.pipeline
    }
    return {
        "lang": nlp.lang,
        "components": nlp.pipe_names,
        "encoders": {name: _component_facts(pipe) for name, pipe in encoders.items()},
        "own_encoders": {name: mixes[0] for name, mixes in own.items() if mixes},
    }


def _component_facts(component: Ctxvec) -> dict[str, Any]:
    settings = ("frozen", "learn_rate_factor", "output", "store", "store_dtype", "read_ahead")
    return {
        "model": encoder_facts(component),
        "settings": {name: getattr(component, name) for name in settings},
        "state": settings_of(component.model).state,
        "window": settings_of(component.model).window,
        "listeners": {
            name: _mix_facts(listeners[0]) for name, listeners in component.listener_map.items()
        },
    }


def _mix_facts(node: Model[Any, Any]) -> dict[str, Any]:
    """The learned layer weights of a listener or of an encoder of a component's own."""
    mix = next(layer for layer in node.layers if layer.name == MIX)
    learned = scalar_mix.describe(mix) if scalar_mix.is_settled(mix) else {"weights": "not trained"}
    if not is_listener(node):
        return learned
    settings = listener_settings_of(node)
    return {"upstream": settings.upstream, "grad_factor": settings.grad_factor, **learned}


def file_facts(path: Path) -> dict[str, Any]:
    """Name, size and checksum of a file of weights."""
    return {"file": path.name, "bytes": path.stat().st_size, "sha256": sha256_of(path)}


def machine_facts() -> dict[str, Any]:
    """Versions, threads, and whether a GPU could be used."""
    return {
        "spacy-ctxvec": __version__,
        **{name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "gpu": gpu_in_words(),
    }


def gpu_in_words() -> str:
    """A GPU serves only where both libraries can use it: PyTorch the encoder, CuPy the rest."""
    has_cupy = find_spec("cupy") is not None
    if not torch.cuda.is_available():
        return "none that PyTorch can use; the encoder runs on the CPU"
    name = torch.cuda.get_device_name()
    if not has_cupy:
        return f"{name}, but CuPy is not installed: pip install 'spacy-ctxvec[cuda12]' (or cuda13)"
    return f"{name}, with CuPy: spacy.prefer_gpu() before loading, or spacy train --gpu-id 0"
