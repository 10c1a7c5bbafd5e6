"""The token layer of a biLM that reads words of a fixed vocabulary, not characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, SPECIALS, UNKNOWN_ID
from ..types import IntArray

VOCABULARY = "vocabulary"


class WordEncoder(nn.Module):
    """Ids (n,) -> a row each of a table (n_words, output_width).

    The words stand for themselves in the weights, so that they go wherever these go: `vocabulary`
    is their UTF-8 text, one a line, the two sentence marks and the unknown word first.
    """

    vocabulary: Tensor

    def __init__(self, n_words: int, output_width: int):
        super().__init__()
        self.embedding = nn.Embedding(n_words, output_width)
        nn.init.uniform_(self.embedding.weight, -0.05, 0.05)
        self.register_buffer(VOCABULARY, torch.zeros(0, dtype=torch.uint8))
        self._row_of: dict[str, int] = {}

    @property
    def words(self) -> list[str]:
        text = bytes(self.vocabulary.to("cpu", torch.uint8).numpy())
        return text.decode("utf8", "replace").split("\n")[:-1]

    def set_words(self, words: Sequence[str]) -> None:
        """Say which words the rows are; words (n_words,) begin with `SPECIALS`."""
        if list(words[: len(SPECIALS)]) != list(SPECIALS) or len(words) != len(
            self.embedding.weight
        ):
            raise ValueError(f"expected {len(self.embedding.weight)} words, {SPECIALS} first")
        text = "".join(f"{word}\n" for word in words).encode("utf8")
        self._set_text(torch.from_numpy(np.frombuffer(text, dtype=np.uint8).copy()))

    def ids(self, words: Sequence[str]) -> IntArray:
        """The row of each word, that of the unknown word where there is none."""
        return np.array([self._row_of.get(w, UNKNOWN_ID) for w in words], dtype=np.int64)

    def mark_ids(self) -> IntArray:
        return np.array([SENTENCE_START_ID, SENTENCE_END_ID])

    def forward(self, ids: Tensor) -> Tensor:
        return self.embedding(ids)

    def _set_text(self, text: Tensor) -> None:
        self.register_buffer(VOCABULARY, text)
        n_special = len(SPECIALS)  # a text may hold a word spelled like them, which is none
        words = self.words[n_special : len(self.embedding.weight)]
        self._row_of = {word: i for i, word in enumerate(words, n_special)}

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any
    ) -> None:
        """Of any length: the vocabulary is not known before it comes."""
        text = state_dict.get(prefix + VOCABULARY)
        if text is not None:
            self._set_text(text.to(self.embedding.weight.device, torch.uint8))
        super()._load_from_state_dict(dict(state_dict), prefix, *arguments)  # type: ignore
