"""`spacy-ctxvec.BiLM.v1`: Docs in, every layer of every token out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
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
from ..nn.bilm import BiLM, BiLMConfig
from ..nn.parallel import in_child_process, settle_threads
from ..types import FloatArray, Floats3d, IntArray
from .batching import WordBatch
from .settings import Unsaved
from .shim import EncoderShim

logger = logging.getLogger("spacy")

Encoder = Model[list[Doc], list[Floats3d]]
RANDOM = "random"
INITS = ("en_sm", RANDOM)
# The sentence marks among the words of the cache: no word is likely to have these hashes.
MARK_KEYS = np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64)
WORDS_PER_PART = 1024
STATISTICS_TOKENS = 20_000


@dataclass
class EncoderSettings(Unsaved):
    """See `BiLM_v1`. Layers below `first_trainable` do not learn; layer 0 is the token layer."""

    init: str
    state: Literal["reset", "carry"]
    window: int
    max_batch_items: int
    first_trainable: int = 0


def BiLM_v1(
    width: int,
    hidden_width: int,
    n_layers: int,
    skip: bool,
    cell_clip: float,
    output_clip: float,
    char_width: int,
    filters: list[list[int]],
    activation: Literal["relu", "tanh"],
    n_highway: int,
    max_characters: int = 50,
    directions: Literal["both", "forward", "backward"] = "both",
    init: str = "en_sm",
    state: Literal["reset", "carry"] = "reset",
    window: int = 128,
    max_batch_items: int = 4096,
    cache_size: int = 50_000,
) -> Encoder:
    """A bidirectional language model over characters (ELMo; Peters et al. 2018).

    width (int): Width of every layer, all directions together.
    hidden_width (int): Cells of each LSTM; other than the width of one direction, the LSTMs are
        projected.
    n_layers (int): LSTM layers of each direction. The output has one layer more: the token layer.
    skip (bool): Add the input of every LSTM but the first to its output.
    cell_clip, output_clip (float): Bounds of the LSTM's cell and output; 0 for none.
    char_width (int): Width of the character embeddings.
    filters (List[List[int]]): Characters and features of each convolution.
    activation (str): Of the convolutions, "relu" or "tanh".
    n_highway (int): Highway layers after the convolutions.
    max_characters (int): UTF-8 bytes of a word that are read, its two marks included.
    directions (str): "both", or only "forward" or "backward", for a one-directional model.
    init (str): Weights where no others were loaded: "en_sm" (shipped with the package) or "random".
    state (str): "reset" reads every window from the zero state, so that the same text always has
        the same vectors. "carry" goes on from the batch before, as the original programs do.
    window (int): Longest stretch of words read in one go; a longer doc is cut after sentences.
    max_batch_items (int): Padded size, in words, of the batches that the encoder runs.
    cache_size (int): Words whose token layer is remembered.
    RETURNS (Model[List[Doc], List[Floats3d]]): (n_tokens, n_layers + 1, width) for each doc.
    """
    arguments = locals()
    config = BiLMConfig(**{field.name: arguments[field.name] for field in fields(BiLMConfig)})
    if init not in INITS:
        raise errors.CtxvecError(errors.UNKNOWN_INIT.format(found=init))
    module = BiLM(config)
    module.carry_state(state)
    settings = EncoderSettings(init, state, window, max_batch_items)
    return Model(
        "ctxvec_bilm",
        forward,
        init=init_encoder,
        dims={"nO": width},
        attrs={"settings": settings, "dropout_rate": 0.0},
        shims=[EncoderShim(module, cache_size=cache_size)],
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
    """See `BiLM_v1`. The backward pass wants one gradient array a doc, of the output's shape."""
    shim = ensure_weights(model)
    settings = settings_of(model)
    if not any(len(doc) for doc in docs):
        return [_no_rows(model) for _ in docs], partial(_no_backprop, docs)
    carry = settings.state == "carry"
    if carry and in_child_process():
        raise errors.CtxvecError(errors.CARRY_IN_CHILD)
    batch = WordBatch.of(docs, max(map(len, docs)) if carry else settings.window)
    if not len(batch.keys):
        return batch.rows(_no_rows(model)), partial(_no_backprop, docs)
    groups = None if carry else batch.groups(settings.max_batch_items)
    if is_train:
        return _begin_update(model, docs, batch, groups)
    with torch.no_grad():
        vectors, index = _word_vectors(shim, batch)
        flat = shim.module(vectors, index, batch.lengths, groups)
    return batch.rows(torch2xp(flat)), partial(_no_backprop, docs)


def _begin_update(
    model: Encoder, docs: Sequence[Doc], batch: WordBatch, groups: list[IntArray] | None
) -> tuple[list[Floats3d], Callable[[Sequence[Floats3d]], list[Doc]]]:
    shim = shim_of(model)
    first_trainable = settings_of(model).first_trainable
    set_trainable(shim.module, first_trainable)
    shim.module.dropout = model.attrs["dropout_rate"]
    with torch.set_grad_enabled(first_trainable == 0):
        vectors, index = _word_vectors(shim, batch)
    output = shim.module(vectors, index, batch.lengths, groups)

    def backprop(d_layers: Sequence[Floats3d]) -> list[Doc]:
        words = [xp2torch(array, device=shim.device) for array in batch.words(d_layers)]
        torch.autograd.backward(output, torch.cat(words))
        return list(docs)

    return batch.rows(torch2xp(output.detach())), backprop


def _word_vectors(shim: EncoderShim, batch: WordBatch) -> tuple[Tensor, IntArray]:
    """Token layer of the sentence marks and each distinct word, and the row of each word in it.

    The cache is passed by where gradients are recorded.
    """
    distinct, inverse = np.unique(batch.keys, return_inverse=True)
    keys = np.concatenate([MARK_KEYS, distinct])

    def compute(positions: IntArray) -> Tensor:
        n_marks = int((positions < len(MARK_KEYS)).sum())
        marks = shim.module.mark_vectors()[positions[:n_marks]]
        words = [batch.text(key) for key in keys[positions[n_marks:]].tolist()]
        # In parts, since the character CNN needs far more memory than what comes out of it.
        parts = [words[i : i + WORDS_PER_PART] for i in range(0, len(words), WORDS_PER_PART)]
        return torch.cat([marks, *map(shim.module.word_vectors, parts)])

    if torch.is_grad_enabled():
        vectors = compute(np.arange(len(keys)))
    else:
        vectors = shim.cache.vectors(keys, compute)
    return vectors, inverse + len(MARK_KEYS)


def set_trainable(module: BiLM, first: int) -> None:
    """Let layers `first` and above learn; layer 0 is the token layer."""
    module.char_encoder.requires_grad_(first == 0)
    for layer, lstms in enumerate(zip(module.forward_lstms, module.backward_lstms), start=1):
        for lstm in lstms:
            lstm.requires_grad_(layer >= first)


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
    """Settle the weights: keep what was loaded, else those of the `init` setting."""
    shim = shim_of(model)
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
    if not module.has_statistics and any(len(doc) for doc in docs):
        module.set_statistics(_sample_of_layers(model, docs))
    statistics = (module.layer_mean, module.layer_deviation)
    mean, deviation = (tensor.cpu().numpy().copy() for tensor in statistics)
    return mean, deviation


def _sample_of_layers(model: Encoder, docs: Sequence[Doc]) -> Tensor:
    """Layers of the words of the first docs, (n_words, n_layers + 1, width)."""
    rows: list[Tensor] = []
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
