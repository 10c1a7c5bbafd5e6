"""What encoders have in common that read words by their spelling, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from spacy.tokens import Doc

from ..formats.native import WordTable
from .batching import WordBatch
from .fingerprint import digests


class BySpelling:
    """The half of `WordInputs` that has nothing to do: spellings come with the Docs."""

    def batch(self, docs: Sequence[Doc], window: int) -> WordBatch:
        return WordBatch.of(docs, window)

    def digests(self, batch: WordBatch) -> NDArray[np.uint8]:
        """A hash of each word's spelling, (n_words, DIGEST_BYTES)."""
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        return digests(batch.text(key).encode() for key in distinct.tolist())[inverse]

    def settle(self, docs: Sequence[Doc]) -> None:
        """Spellings are all that is needed."""

    def adopt(self, vectors: WordTable | None) -> None:
        """Spellings need no vectors."""

    @property
    def table(self) -> WordTable | None:
        return None
