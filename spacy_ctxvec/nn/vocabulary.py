"""Text that a module reads by, kept among its weights so that it goes wherever these go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

VOCABULARY = "vocabulary"


class WithVocabulary(nn.Module, ABC):
    """A module whose rows stand for something: `vocabulary` is UTF-8 text that says for what.

    It may have any length. A subclass reads it in `_index`.
    """

    vocabulary: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer(VOCABULARY, torch.zeros(0, dtype=torch.uint8))

    @property
    def text(self) -> str:
        return text_of(self.vocabulary)

    def set_text(self, text: Tensor) -> None:
        self.register_buffer(VOCABULARY, text)
        self._index(self.text)

    @abstractmethod
    def _index(self, text: str) -> None:
        """Note which row each entry of the vocabulary is."""

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *arguments: Any
    ) -> None:
        """Of any length: the vocabulary is not known before it comes."""
        text = state_dict.get(prefix + VOCABULARY)
        if text is not None:
            self.set_text(text.to(self.vocabulary.device, torch.uint8))
        super()._load_from_state_dict(dict(state_dict), prefix, *arguments)  # type: ignore


def text_of(vocabulary: Tensor) -> str:
    return bytes(vocabulary.to("cpu", torch.uint8).numpy()).decode("utf8", "replace")


def as_bytes(text: str) -> Tensor:
    """The UTF-8 bytes of a text, (n_bytes,), uint8."""
    return torch.from_numpy(np.frombuffer(text.encode("utf8"), dtype=np.uint8).copy())
