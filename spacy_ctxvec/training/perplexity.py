"""Held-out perplexity over the full softmax: what training losses, being sampled, cannot tell.

Perplexities of different vocabularies do not compare: the more words are unknown, the easier the
task. So the share of unknown words belongs to every figure.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..nn.bilm import BiLM, CarriedState
from ..nn.placing import placed_on
from ..text.corpus import UNKNOWN_ID, Corpus
from .batches import Batch, top_layer
from .reading import Group, reading_order
from .token_layer import TokenLayer

BATCH_TOKENS, UNROLL = 4096, 256  # bound the memory of an evaluation, not its result
DIRECTIONS = ("forward", "backward")


class Predictor(Protocol):
    """What gives a probability to each of `n_words` words: any softmax."""

    @property
    def n_words(self) -> int: ...

    def full_losses(self, direction: int, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood over all words of targets (n,), given hidden (n, input_width)."""
        ...


@dataclass(frozen=True)
class Perplexity:
    """Full-softmax perplexity of each direction, sentence marks left out, and of the marks.

    None for a direction that the model does not have.
    """

    forward: float | None
    backward: float | None
    forward_marks: float | None
    backward_marks: float | None
    n_tokens: int
    unknown_rate: float

    def rounded(self) -> dict[str, Any]:
        """As a plain record, with four decimals."""
        return {k: None if v is None else round(v, 4) for k, v in asdict(self).items()}


def mean_perplexity(record: Mapping[str, Any]) -> float:
    """Geometric mean over the directions of a record (`Perplexity.rounded`); inf if it has none."""
    found = [math.log(record[name]) for name in DIRECTIONS if record.get(name)]
    return math.exp(sum(found) / len(found)) if found else math.inf


@torch.no_grad()
def evaluate(
    model: BiLM, softmax: Predictor, corpus: Corpus, max_tokens: int | None = None
) -> Perplexity:
    """Held-out perplexity of both directions over the full softmax, in float32.

    Every piece of `corpus` is read whole, from the zero state. The corpus must be `recoded` over
    the types of the training corpus.
    """
    sums = np.zeros((2, 2))
    counts = np.zeros((2, 2))
    n_unknown = n_tokens = 0
    carried = model.state
    try:
        for batch in _batches(model, corpus, max_tokens):
            vectors = TokenLayer(model, batch.words, torch.float32).vectors
            for direction in model.config.direction_numbers:
                targets = placed_on(batch.targets(direction, softmax.n_words), model.device)
                top = top_layer(model, direction, batch, vectors)
                hidden = batch.predicting(direction, top)
                losses = softmax.full_losses(direction, hidden, targets).double()
                is_mark = targets < UNKNOWN_ID
                for kind, mask in enumerate((~is_mark, is_mark)):
                    sums[direction, kind] += losses[mask].sum().item()
                    counts[direction, kind] += mask.sum().item()
            n_unknown += targets.eq(UNKNOWN_ID).sum().item()
            n_tokens += batch.n_tokens
    finally:
        model.state = carried
    found = [math.exp(total / n) if n else None for total, n in zip(sums.ravel(), counts.ravel())]
    return Perplexity(
        forward=found[0],
        forward_marks=found[1],
        backward=found[2],
        backward_marks=found[3],
        n_tokens=n_tokens,
        unknown_rate=n_unknown / n_tokens,
    )


def _batches(model: BiLM, corpus: Corpus, max_tokens: int | None) -> Iterator[Batch]:
    """Pieces of like length side by side, in steps with the state carried from one to the next."""
    for rows in reading_order(corpus, BATCH_TOKENS, UNROLL, max_tokens):
        group = Group(corpus, rows, UNROLL)
        model.state = CarriedState() if group.n_steps > 1 else None
        for step in range(group.n_steps):
            yield Batch(corpus.types, *group.read(step))
