"""The token layer of a training step: each distinct word of the batch is encoded once."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from ..nn.bilm import BiLM
from ..nn.parallel import run_all
from ..nn.placing import placed_on
from ..nn.precision import autocast
from ..nn.window_maximum import EVEN_WORDS
from ..types import IntArray

WORD_GROUPS = 4  # words of like length are encoded together: most need few of the columns


class TokenLayer:
    """Vectors of the sentence marks and of `words`, (2 + n_words, token_width), in float32.

    Two graphs, which hold about half of the work each, so that two threads can go both ways.
    """

    def __init__(self, model: BiLM, words: list[str], dtype: torch.dtype, *, threads: bool = False):
        self.threads = threads
        order = np.argsort([len(word) for word in words], kind="stable")
        groups = np.array_split(order, WORD_GROUPS)
        shares = (groups[::3], groups[1:3])  # the longest words with the shortest ones
        encode = partial(_encode, model, words, dtype)
        self._halves = run_all(
            [partial(encode, shares[0], with_marks=True), partial(encode, shares[1])],
            threads=threads,
        )
        written = np.concatenate([[-2, -1], *shares[0], *shares[1]]) + 2
        self._place = placed_on(np.argsort(written), model.device)

    @property
    def vectors(self) -> Tensor:
        return torch.cat(self._halves).index_select(0, self._place)

    def backward(self, gradient: Tensor) -> None:
        """Hand the gradient of `vectors` on to the weights of the token encoder."""
        first, second = self._halves
        in_order = torch.empty_like(gradient)
        in_order[self._place] = gradient
        of_first, of_second = in_order.split([len(first), len(second)])
        parts = [([first], [of_first])] + [([second], [of_second])] * bool(len(second))
        run_all([partial(torch.autograd.backward, *part) for part in parts], threads=self.threads)


def _encode(
    model: BiLM,
    words: list[str],
    dtype: torch.dtype,
    groups: list[IntArray],
    *,
    with_marks: bool = False,
) -> Tensor:
    ids = [model.word_ids([words[i] for i in group]) for group in groups]
    if with_marks:
        ids.insert(0, model.mark_ids())
    with autocast(model.device, dtype):
        parts = [_encode_evenly(model, part).float() for part in ids if len(part)]
    if not parts:
        return torch.empty(0, model.config.token_width, device=model.device)
    return torch.cat(parts)


def _encode_evenly(model: BiLM, ids: IntArray) -> Tensor:
    """Ids through the token encoder; the last word some more times, for sizes that recur."""
    missing = -len(ids) % EVEN_WORDS
    padded = np.concatenate([ids, np.repeat(ids[-1:], missing, axis=0)])
    return model.token_encoder(torch.from_numpy(padded))[: len(ids)]
