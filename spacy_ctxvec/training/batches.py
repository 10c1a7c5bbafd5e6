"""One training step's worth of a corpus, in the layout that the two language models read."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..nn.bilm import BiLM
from ..nn.encoder import rows_of
from ..nn.placing import placed_on
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, UNKNOWN_ID
from ..types import IntArray
from .reading import NO_TARGET


class Batch:
    """A rectangle of tokens for each direction, with the distinct words of both.

    inputs, targets: (n_columns, n_rows) of each direction, as `Group.read` gives them; where a row
        has ended, there is no target, and the input does not matter.
    """

    def __init__(self, types: list[str], inputs: list[IntArray], targets: list[IntArray]):
        marks = np.array([SENTENCE_START_ID, SENTENCE_END_ID])
        found, rows = np.unique(
            np.concatenate([marks, *(ids.ravel() for ids in inputs)]), return_inverse=True
        )
        self.words = [types[i] for i in found[2:].tolist()]
        shapes = [ids.shape for ids in inputs]
        split = np.split(rows[2:], np.cumsum([ids.size for ids in inputs])[:-1])
        self.rows: list[IntArray] = [part.reshape(shape) for part, shape in zip(split, shapes)]
        self._targets = [ids.ravel() for ids in targets]
        self._has_target = [ids != NO_TARGET for ids in self._targets]
        self.n_tokens = int((self._targets[0] > SENTENCE_END_ID).sum())

    def inputs(self, direction: int) -> Tensor:
        """Row of each position among the mark vectors and the vectors of `words`, column by
        column."""
        return torch.from_numpy(self.rows[direction].ravel())

    def targets(self, direction: int, n_words: int) -> Tensor:
        """The word after each position that has one; ids beyond `n_words` are unknown."""
        ids = self._targets[direction][self._has_target[direction]]
        return torch.from_numpy(np.where(ids < n_words, ids, UNKNOWN_ID))

    def predicting(self, direction: int, positions: Tensor) -> Tensor:
        """Of rows for all positions, those that have a next word, in the order of `targets`."""
        return rows_of(positions, np.flatnonzero(self._has_target[direction]))


def top_layer(
    model: BiLM,
    direction: int,
    batch: Batch,
    vectors: Tensor,
    dtype: torch.dtype | None = None,
    random: torch.Generator | None = None,
) -> Tensor:
    """Top layer of one direction, (n_columns * n_rows, token_width), column by column.

    dtype: the precision of the LSTMs, by default that of `vectors`
    random: what dropout is drawn from
    """
    n_rows = batch.rows[direction].shape[1]
    x = vectors.index_select(0, placed_on(batch.inputs(direction), vectors.device))
    x = x.to(dtype or vectors.dtype)
    sizes = np.full(len(batch.rows[direction]), n_rows)
    return model.run_stack(direction, x, sizes, np.arange(n_rows), random)[-1]
