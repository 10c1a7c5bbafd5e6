"""`spacy-ctxvec.BiLM.v1`: the encoder that reads spellings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from .. import errors
from ..nn.bilm import BiLM, BiLMConfig
from ..types import IntArray
from .batching import WordBatch
from .cache import ProcessLock, WordVectorCache
from .encoder import INITS, Encoder, EncoderSettings, new_model
from .fingerprint import token_fingerprint_of
from .shared_cache import shared_cache
from .spelling import BySpelling

# The sentence marks among the words of the cache: no word is likely to have these hashes.
MARK_KEYS = np.array([2**64 - 2, 2**64 - 1], dtype=np.uint64)
WORDS_PER_PART = 1024
TOKEN_ENCODERS = ("char_encoder.", "word_encoder.", "word_char_encoder.")


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
    n_words: int = 0,
    n_characters: int = 0,
    word_width: int = 0,
    forget_bias: float = 0.0,
    aligned: bool = False,
    init: str = "en_sm",
    state: Literal["reset", "warm", "carry"] = "reset",
    window: int = 128,
    max_batch_items: int = 4096,
    cache_size: int = 50_000,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
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
    max_characters (int): UTF-8 bytes of a word that are read, or Unicode characters where there is
        a vocabulary of these; its two marks included.
    directions (str): "both", or only "forward" or "backward", for a one-directional model.
    n_words (int): Rows of a vocabulary of words that is read instead of bytes; 0 for none.
    n_characters (int): Rows of a vocabulary of Unicode characters that is read instead of bytes,
        beside the words if there are any; 0 for none.
    word_width (int): Width of the words' vectors where a projection follows them, as in models of
        ELMoForManyLangs; 0 where they are the token layer themselves.
    forget_bias (float): Added to the biases of the forget gates, as TensorFlow does.
    aligned (bool): A matrix that comes with the weights maps every layer.
    init (str): Weights where no others were loaded: "en_sm" (shipped with the package) or "random".
    state (str): "reset" reads every window from the zero state, so that the same text always has
        the same vectors. So does "warm", from a state that comes with the weights; `spacy ctxvec
        convert --warm-up` makes it. "carry" goes on from the batch before, as the original
        programs do.
    window (int): Longest stretch of words read in one go; a longer doc is cut after sentences.
    max_batch_items (int): Words, padding included, that the encoder reads at a time.
    cache_size (int): Words whose token layer is remembered; of encoders of one process that share
        their token layer, the largest of theirs.
    precision (str): Of the LSTMs' products wherever the encoder does not learn. "int8" and, on
        processors that multiply it, "bfloat16" are faster than float32, and not exact; those of
        "int8" depend on the rest of the batch, by which numbers are scaled.
    RETURNS (Model[List[Doc], List[Floats3d]]): (n_tokens, n_layers + 1, width) for each doc.
    """
    arguments = {**locals(), "warm": state == "warm"}
    config = BiLMConfig(**{field.name: arguments[field.name] for field in fields(BiLMConfig)})
    if init not in INITS:
        raise errors.CtxvecError(errors.UNKNOWN_INIT.format(found=init))
    module = BiLM(config)
    module.carry_state(state)
    module.set_precision(precision)
    settings = EncoderSettings(init, state, window, max_batch_items)
    return new_model("ctxvec_bilm", module, SpelledWords(cache_size), settings)


class SpelledWords(BySpelling):
    """Finds the token layer of each distinct word from its spelling, once while it is remembered.

    Encoders with equal token encoders share one cache. Exact: rows are computed, and a cache is
    joined, under a lock that whoever writes a weight holds too. One that learns has a cache of its
    own from its first step on, since finding others like it would cost a hash of the weights at
    every step; it looks for them again when other weights are loaded.
    """

    def __init__(self, cache_size: int):
        self.cache_size = cache_size
        self._lock = ProcessLock()
        self.forget()
        self._joins = True

    def vectors(self, module: BiLM, batch: WordBatch) -> tuple[Tensor, IntArray]:
        """Token layer of the sentence marks and each distinct word, and the row of each word in it.

        The cache is passed by where gradients are recorded.
        """
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        keys = np.concatenate([MARK_KEYS, distinct])

        def compute(positions: IntArray) -> Tensor:
            n_marks = int((positions < len(MARK_KEYS)).sum())
            marks = module.mark_vectors()[positions[:n_marks]]
            words = [batch.text(key) for key in keys[positions[n_marks:]].tolist()]
            # In parts, since the character CNN needs far more memory than what comes out of it.
            parts = [words[i : i + WORDS_PER_PART] for i in range(0, len(words), WORDS_PER_PART)]
            return torch.cat([marks, *map(module.word_vectors, parts)])

        if torch.is_grad_enabled():
            vectors = compute(np.arange(len(keys)))
        else:
            with self._lock:
                self._join(module)
                vectors = self.cache.vectors(keys, compute)
        return vectors, inverse + len(MARK_KEYS)

    def _join(self, module: BiLM) -> None:
        """Share the cache of the encoders like `module`, if its weights have just come."""
        if self._joins:
            self.cache = shared_cache(token_fingerprint_of(module), self.cache_size)
            self._joins = False

    @contextmanager
    def changing(self, *parameters: str) -> Iterator[None]:
        """Around whatever writes these parameters, or all of them."""
        with self._lock:
            try:
                yield
            finally:
                if not parameters or any(name.startswith(TOKEN_ENCODERS) for name in parameters):
                    self.forget()
                    self._joins = not parameters

    def forget(self) -> None:
        """Know no word any more; the cache is no other encoder's then."""
        with self._lock:
            self.cache = WordVectorCache(self.cache_size)
            self._joins = False

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process or another pipeline looks for a cache itself."""
        return {"cache_size": self.cache_size}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]
