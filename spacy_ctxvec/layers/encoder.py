"""The Thinc layer around any encoder: Docs in, every layer of every token out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from spacy.tokens import Doc
from thinc.api import Model
from thinc.util import torch2xp, xp2torch
from torch import Tensor

from .. import errors
from ..assets import shipped_model
from ..nn.parallel import in_child_process, settle_threads
from ..types import FloatArray, Floats3d, IntArray
from .batching import WordBatch
from .settings import Unsaved
from .shim import AnyEncoder, EncoderShim, WordInputs

logger = logging.getLogger("spacy")

Encoder = Model[list[Doc], list[Floats3d]]
RANDOM = "random"
INITS = ("en_sm", RANDOM)
STATISTICS_TOKENS = 20_000


@dataclass
class EncoderSettings(Unsaved):
    """See `bilm.BiLM_v1`. Layers below `first_trainable` do not learn."""

    init: str
    state: Literal["reset", "warm", "carry"]
    window: int
    max_batch_items: int
    first_trainable: int = 0


def new_model(
    name: str, module: AnyEncoder, inputs: WordInputs, settings: EncoderSettings
) -> Encoder:
    """The Thinc layer around `module`, whose words `inputs` finds the vectors of."""
    return Model(
        name,
        forward,
        init=init_encoder,
        dims={"nO": module.config.width},
        attrs={"settings": settings, "dropout_rate": 0.0},
        shims=[EncoderShim(module, inputs)],
    )


def settings_of(model: Encoder) -> EncoderSettings:
    return model.attrs["settings"]


def shim_of(model: Encoder) -> EncoderShim:
    shim = model.shims[0]
    assert isinstance(shim, EncoderShim)
    return shim


def forward(
    model: Encoder, docs: Sequence[Doc], is_train: bool
) -> tuple[list[Floats3d], Callable[[Sequence[Floats3d]], list[Doc]]]:
    """See `new_model`. The backward pass wants one gradient array a doc, of the output's shape."""
    shim = ensure_weights(model)
    settings = settings_of(model)
    if not any(len(doc) for doc in docs):
        return [_no_rows(model) for _ in docs], partial(_no_backprop, docs)
    carry = settings.state == "carry"
    if carry and in_child_process():
        raise errors.CtxvecError(errors.CARRY_IN_CHILD)
    batch = shim.inputs.batch(docs, max(map(len, docs)) if carry else settings.window)
    if not len(batch.keys):
        return batch.rows(_no_rows(model)), partial(_no_backprop, docs)
    if is_train:
        return _begin_update(model, docs, batch)
    return batch.rows(_layers(model, batch)), partial(_no_backprop, docs)


def predict_in_parts(
    model: Encoder, doc: Doc, max_words: int
) -> Iterator[tuple[IntArray, Floats3d]]:
    """What `predict` says of one long doc, at most `max_words` words at a time: which tokens, and
    their layers (n, n_layers, width). White space is none of them."""
    shim = ensure_weights(model)
    if not len(doc):
        return
    for tokens, part in shim.inputs.batch([doc], settings_of(model).window).parts(max_words):
        yield tokens, _layers(model, part)


def _layers(model: Encoder, batch: WordBatch) -> Floats3d:
    """Of all words of a batch, (n_words, n_layers, width), without a gradient. Where the memory
    of a GPU is too small for what is read at a time, it is less from then on."""
    shim, settings = shim_of(model), settings_of(model)
    with torch.no_grad():
        vectors, index = shim.inputs.vectors(shim.module, batch)
    # Cheaper still, but its tensors are of no use to training; so vectors that are kept, and
    # states that are carried on, are none of them.
    keeps = settings.state == "carry" or shim.module.keeps_tensors
    with torch.inference_mode(not keeps), torch.no_grad():
        while True:
            try:
                flat = shim.module(vectors, index, batch.lengths, _groups(model, batch, vectors))
                return torch2xp(flat)  # type: ignore[return-value]
            except torch.OutOfMemoryError:
                longest = int(batch.lengths.max())
                if settings.state == "carry" or settings.max_batch_items <= longest:
                    raise
            settings.max_batch_items = max(longest, settings.max_batch_items // 2)
            logger.warning(errors.OUT_OF_MEMORY.format(items=settings.max_batch_items))
            torch.cuda.empty_cache()


def _begin_update(
    model: Encoder, docs: Sequence[Doc], batch: WordBatch
) -> tuple[list[Floats3d], Callable[[Sequence[Floats3d]], list[Doc]]]:
    shim = shim_of(model)
    first_trainable = settings_of(model).first_trainable
    shim.module.set_trainable(first_trainable)
    shim.module.dropout = model.attrs["dropout_rate"]
    with torch.set_grad_enabled(first_trainable == 0):
        vectors, index = shim.inputs.vectors(shim.module, batch)
    output = shim.module(vectors, index, batch.lengths, _groups(model, batch, vectors))

    def backprop(d_layers: Sequence[Floats3d]) -> list[Doc]:
        words = [xp2torch(array, device=shim.device) for array in batch.words(d_layers)]
        torch.autograd.backward(output, torch.cat(words))
        return list(docs)

    return batch.rows(torch2xp(output.detach())), backprop


def _groups(model: Encoder, batch: WordBatch, vectors: Tensor) -> list[IntArray] | None:
    """The windows that are read together; all of them where the state is carried on."""
    settings = settings_of(model)
    if settings.state == "carry":
        return None
    ragged_cost = shim_of(model).module.ragged_cost(vectors)
    return batch.groups(settings.max_batch_items, ragged_cost=ragged_cost)


def ensure_weights(model: Encoder, name: str = "ctxvec") -> EncoderShim:
    """Give the encoder the weights of its `init` setting, unless it has some already."""
    settle_threads()
    shim = shim_of(model)
    if not shim.source:
        with shim.loading:
            if not shim.source:
                _load_init(shim, settings_of(model).init, name)
    return shim


def _load_init(shim: EncoderShim, init: str, name: str) -> None:
    if init == RANDOM:
        raise errors.CtxvecError(errors.NO_WEIGHTS.format(name=name))
    try:
        shim.adopt(init, shipped_model(init))
        logger.info(errors.WEIGHTS_FROM.format(name=name, source=init))
    except errors.CtxvecError as error:
        message = errors.SHIPPED_SIZES.format(init=init, name=name, problem=error)
        raise errors.CtxvecError(message) from error


def init_encoder(model: Encoder, X: Any = None, Y: Any = None) -> Encoder:
    """Settle the weights: keep what was loaded, else those of the `init` setting. X are docs."""
    shim = shim_of(model)
    shim.inputs.settle(X or ())
    if not shim.source and settings_of(model).init == RANDOM:
        shim.adopt(RANDOM, None)
    ensure_weights(model)
    return model


def layer_statistics(model: Encoder, docs: Sequence[Doc]) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of every number of every layer, two arrays (n_layers + 1, width).

    They come with a model that was trained here; for one that has none they are measured on
    `docs` and kept with it, since what a mix is standardised by must not change.
    """
    module = ensure_weights(model).module
    if not module.has_statistics:
        sample = _sample_of_layers(model, docs)
        if len(sample):
            module.set_statistics(sample)
    statistics = (module.layer_mean, module.layer_deviation)
    mean, deviation = (tensor.cpu().numpy().copy() for tensor in statistics)
    return mean, deviation


def _sample_of_layers(model: Encoder, docs: Sequence[Doc]) -> Tensor:
    """Layers of the words of the first docs, (n_words, n_layers + 1, width)."""
    rows: list[Tensor] = [xp2torch(_no_rows(model))]
    for doc in docs:
        is_word = np.array([not token.is_space for token in doc], dtype=bool)
        rows.append(xp2torch(model.predict([doc])[0])[torch.from_numpy(is_word)])
        if sum(map(len, rows)) > STATISTICS_TOKENS:
            break
    return torch.cat(rows)


def _no_rows(model: Encoder) -> Floats3d:
    config = shim_of(model).module.config
    return model.ops.alloc3f(0, config.n_outputs, config.width)


def _no_backprop(docs: Sequence[Doc], d_layers: Any) -> list[Doc]:
    return list(docs)
