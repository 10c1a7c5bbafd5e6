"""The plain equations of a biLM in double precision, with a spelling of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spacy_ctxvec.nn import plain
from spacy_ctxvec.nn.bilm import BiLMConfig


class Oracle:
    """The layers of a sentence from the sizes and the weights of a biLM that reads bytes."""

    def __init__(self, config: BiLMConfig, weights: dict[str, Any]):
        self.config = config
        self.weights: Any = {k: np.asarray(w, dtype=np.float64) for k, w in weights.items()}

    def layers(self, words: Sequence[str]) -> Any:
        """(n_words, n_layers + 1, width), from the zero state."""
        spelled = [self.framed([257]), *map(self.spelled, words), self.framed([258])]
        tokens = plain.tokens(self.config, self.weights, np.array(spelled))
        return plain.bilm_layers(self.config, self.weights, tokens)

    def spelled(self, word: str) -> list[int]:
        data = b"".join(
            character.encode("utf8") for character in word if not 0xD800 <= ord(character) <= 0xDFFF
        )
        return self.framed([byte + 1 for byte in data[: self.config.max_characters - 2]])

    def framed(self, body: list[int]) -> list[int]:
        ids = [259, *body, 260]
        return ids + [261] * (self.config.max_characters - len(ids))
