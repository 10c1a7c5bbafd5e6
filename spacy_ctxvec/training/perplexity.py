"""Held-out perplexity over the full softmax: what training losses, being sampled, cannot tell.

Perplexities of different vocabularies do not compare: the more words are unknown, the easier the
task. So the share of unknown words belongs to every figure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..nn.bilm import BiLM
from ..nn.softmax import WordSoftmax
from ..text.corpus import UNKNOWN_ID, Corpus
from .batches import reading_batches, token_layer, top_layer


@dataclass(frozen=True)
class Perplexity:
    """Full-softmax perplexity of each direction, sentence marks left out, and of the marks."""

    forward: float
    backward: float
    forward_marks: float
    backward_marks: float
    n_tokens: int
    unknown_rate: float


@torch.no_grad()
def evaluate(
    model: BiLM, softmax: WordSoftmax, corpus: Corpus, max_tokens: int | None = None
) -> Perplexity:
    """Held-out perplexity of both directions over the full softmax.

    `corpus` must be `recoded` over the types of the training corpus.
    """
    n_words = len(softmax.bias)
    sums = np.zeros((2, 2))
    counts = np.zeros((2, 2))
    n_unknown = n_tokens = 0
    for batch in reading_batches(corpus, max_tokens):
        vectors = token_layer(model, batch)
        for direction in (0, 1):
            targets = batch.targets(direction, n_words)
            hidden = top_layer(model, direction, batch, vectors)
            losses = softmax.full_losses(direction, hidden, targets)
            is_mark = targets < UNKNOWN_ID
            for kind, mask in enumerate((~is_mark, is_mark)):
                sums[direction, kind] += losses[mask].sum().item()
                counts[direction, kind] += mask.sum().item()
        n_unknown += (targets == UNKNOWN_ID).sum().item()
        n_tokens += batch.n_tokens
    perplexity = np.exp(sums / counts)
    return Perplexity(
        forward=float(perplexity[0, 0]),
        backward=float(perplexity[1, 0]),
        forward_marks=float(perplexity[0, 1]),
        backward_marks=float(perplexity[1, 1]),
        n_tokens=n_tokens,
        unknown_rate=n_unknown / n_tokens,
    )
