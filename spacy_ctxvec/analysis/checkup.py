"""What is likely to be wrong with a pipeline around encoders, each with the line to change.

All of it loads and trains: these are mistakes that show in scores and times alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from spacy.language import Language
from spacy.tokens import Doc

from ..layers import scalar_mix
from ..layers.encoder import shim_of
from ..layers.listener import is_listener, settings_of
from ..nn.bilm import BiLM
from ..nn.pieces import MAX_PIECES
from ..nn.precision import possible
from ..nn.transformer import Transformer
from ..pipe.component import Ctxvec, encoders_of
from ..pipe.linking import nodes


@dataclass(frozen=True)
class Finding:
    """What is wrong, of which component, and what to change in the config or outside of it."""

    component: str
    problem: str
    change: str


def check_up(nlp: Language) -> list[Finding]:
    """Everything that can be seen without a text."""
    found = [*_machine()]
    for name, pipe in encoders_of(nlp).items():
        found += [*_encoder(name, pipe), *_training(name, nlp), *_order(name, nlp)]
    return found


def cut_words(pipe: Ctxvec, docs: Sequence[Doc]) -> dict[str, Any] | None:
    """How many words are longer than the encoder reads, and some of them; None where none can be,
    since it reads whole words."""
    words = [token.text for doc in docs for token in doc if not token.is_space]
    module = shim_of(pipe.model).module
    if isinstance(module, Transformer):
        limit, unit, sizes = MAX_PIECES, "pieces", module.pieces.counts(words)
    elif isinstance(module, BiLM) and module.config.reads_spellings:
        limit = module.config.max_characters - 2  # its marks
        unit = "characters" if module.config.n_characters else "bytes"
        sizes = [len(w if unit == "characters" else w.encode("utf8", "ignore")) for w in words]
    else:
        return None
    long = [word for word, size in zip(words, sizes) if size > limit]
    read = {"longest_read": limit, "unit": unit}
    return {"words": len(words), "cut": len(long), **read, "examples": long[:3]}


def _machine() -> Iterator[Finding]:
    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    if threads == 1 and cores > 1:
        yield Finding(
            "this machine",
            f"PyTorch has one thread, and there are {cores} cores",
            "unset OMP_NUM_THREADS, or set it to 2: the two directions share two threads",
        )
    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if threads > 1 and busy > cores - 0.5:
        yield Finding(
            "this machine",
            f"it is busy (load {busy:.1f} on {cores} cores): threads would wait for each other",
            "OMP_NUM_THREADS=1 beside other work",
        )


def _encoder(name: str, pipe: Ctxvec) -> Iterator[Finding]:
    block = f"[components.{name}]"
    shim = shim_of(pipe.model)
    listeners = [node for of_one in pipe.listener_map.values() for node in of_one]
    if not listeners and pipe.store == "none":
        yield Finding(
            name, "nothing reads it: no component listens, and nothing is stored", f"{block} store"
        )
    if not pipe.frozen and listeners and not any(settings_of(n).grad_factor for n in listeners):
        yield Finding(
            name,
            "it is to learn, and no listener sends it a gradient",
            "grad_factor of a Listener.v1, or frozen = true",
        )
    if not pipe.frozen and pipe.feature_cache.max_mb:
        yield Finding(
            name, "an encoder that learns has no use for a feature cache", f"{block} frozen = true"
        )
    precision = shim.module.precision
    if possible(precision, shim.device.type) != precision:
        yield Finding(
            name,
            f"precision = {precision} is not faster here, and float32 is used",
            f"[components.{name}.model] precision",
        )
    for component, of_one in pipe.listener_map.items():
        for node in of_one:
            yield from _mix(component, node)


def _mix(component: str, listener: Any) -> Iterator[Finding]:
    mix = listener.layers[0]
    learns = scalar_mix.settings_of(mix).mode == "learned"
    if learns and scalar_mix.is_settled(mix):
        weights = scalar_mix.layer_weights(mix)
        if np.ptp(weights) == 0 and scalar_mix.gamma(mix) == 1:
            yield Finding(
                component,
                "its mix is as it began: it has not been trained",
                "nothing before training; after it, see [training] frozen_components",
            )


def _training(name: str, nlp: Language) -> Iterator[Finding]:
    training = nlp.config.get("training", {})
    frozen = training.get("frozen_components") or []
    annotating = training.get("annotating_components") or []
    if name in frozen and name not in annotating:
        yield Finding(
            name,
            "it is among [training] frozen_components, so that listeners would get no vectors",
            f'[training] annotating_components = ["{name}"], or frozen = true in '
            f"[components.{name}] alone",
        )


def _order(name: str, nlp: Language) -> Iterator[Finding]:
    """Components that would listen, but stand before the encoder."""
    for component in nlp.pipe_names[: nlp.pipe_names.index(name)]:
        upstreams = [
            settings_of(n).upstream for n in nodes(nlp.get_pipe(component)) if is_listener(n)
        ]
        if name in upstreams or ("*" in upstreams and not _encoder_before(component, nlp)):
            yield Finding(
                component,
                f"it listens to '{name}', which comes after it: it would read zeros",
                f'[nlp] pipeline: put "{name}" before "{component}"',
            )


def _encoder_before(component: str, nlp: Language) -> bool:
    before = nlp.pipe_names[: nlp.pipe_names.index(component)]
    return any(isinstance(nlp.get_pipe(name), Ctxvec) for name in before)
