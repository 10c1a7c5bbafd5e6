"""The token layer of ELMoForManyLangs (Che et al. 2018): what a word is, and how it is spelled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from ..types import IntArray
from .alphabet import MARKS as CHARACTER_MARKS
from .alphabet import PADDING, Alphabet
from .char_encoder import CharEncoder
from .word_encoder import WordEncoder

MARKS = {"<bos>": 0, "<eos>": 1}
"""Number of each sentence mark by the spelling that the original program reads as one."""


class WordCharEncoder(nn.Module):
    """Ids (n, 1 + max_characters) -> word vectors (n, output_width).

        token = W [embedding of the word ; highway(CNN(embeddings of its characters))] + b

    Either part may be absent, and then its ids are too. Words are cut to `max_characters - 2`
    characters before they are looked up.
    """

    def __init__(
        self,
        *,
        n_words: int,
        word_width: int,
        n_characters: int,
        max_characters: int,
        char_width: int,
        filters: Sequence[tuple[int, int]],
        activation: str,
        n_highway: int,
        output_width: int,
    ):
        super().__init__()
        self.max_characters = max_characters
        n_features = sum(n for _, n in filters) if n_characters else 0
        self.words = WordEncoder(n_words, word_width) if n_words else None
        self.alphabet = Alphabet(n_characters) if n_characters else None
        self.char_encoder: CharEncoder | None = None
        if n_characters:
            self.char_encoder = CharEncoder(
                n_characters=n_characters,
                padding=PADDING,
                char_width=char_width,
                filters=filters,
                activation=activation,
                n_highway=n_highway,
                output_width=n_features,
            )
        self.projection = nn.Linear(word_width + n_features, output_width)

    def ids(self, words: Sequence[str], *, sentence_marks: bool = False) -> IntArray:
        """sentence_marks: read the words `<bos>` and `<eos>` as the sentence marks."""
        cut = [word[: self.max_characters - 2] for word in words]
        marks = {i: MARKS[w] for i, w in enumerate(words) if w in MARKS} if sentence_marks else {}
        columns: list[IntArray] = []
        if self.words is not None:
            columns.append(self._word_ids(self.words, cut, marks))
        if self.alphabet is not None:
            spellings = [self.alphabet.spell(word) for word in cut]
            for i, mark in marks.items():
                spellings[i] = [CHARACTER_MARKS[mark]]
            columns.append(self.alphabet.frame(spellings, self.max_characters))
        return np.concatenate(columns, axis=1)

    def mark_ids(self) -> IntArray:
        return self.ids(list(MARKS), sentence_marks=True)

    def forward(self, ids: Tensor) -> Tensor:
        parts: list[Tensor] = []
        if self.words is not None:
            parts.append(self.words(ids[:, 0]))
        if self.char_encoder is not None:
            parts.append(self.char_encoder(ids[:, len(parts) :]))
        return self.projection(torch.cat(parts, dim=1))

    @staticmethod
    def _word_ids(table: WordEncoder, words: Sequence[str], marks: Mapping[int, int]) -> IntArray:
        ids = table.ids(words)
        for i, mark in marks.items():
            ids[i] = table.mark_ids()[mark]
        return ids[:, None]
