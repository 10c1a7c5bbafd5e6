"""The token layer of the biLM: a character CNN with highway layers (Kim et al. 2015).

A word's vector here depends on its spelling alone, so callers run it once per distinct word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..text.characters import N_CHARACTERS, WORD_PADDING

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """`g * relu(transform(x)) + (1 - g) * x` with `g = sigmoid(gate(x))` (Srivastava et al. 2015).

    The gate opens the *transform* branch and starts at -2: nearly everything is carried.
    """

    def __init__(self, width: int):
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)
        for linear, bias in ((self.transform, 0.0), (self.gate, -2.0)):
            nn.init.normal_(linear.weight, std=1 / math.sqrt(width))
            nn.init.constant_(linear.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(x))
        return gate * torch.relu(self.transform(x)) + (1 - gate) * x


class CharEncoder(nn.Module):
    """Character ids (n_words, max_characters) -> word vectors (n_words, output_width).

    `filters` lists (characters, features) of each convolution, in the order of the weight files.
    The projection is left out when the features already have the output width.
    """

    def __init__(
        self,
        *,
        char_width: int,
        filters: Sequence[tuple[int, int]],
        activation: str,
        n_highway: int,
        output_width: int,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.embedding = nn.Embedding(N_CHARACTERS, char_width, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(char_width, n, width) for width, n in filters)
        n_features = sum(n for _, n in filters)
        self.highways = nn.ModuleList(Highway(n_features) for _ in range(n_highway))
        self.projection: nn.Linear | None = None
        if n_features != output_width:
            self.projection = nn.Linear(n_features, output_width)
        self._widest = max(width for width, _ in filters)
        self._initialise(activation)

    def _initialise(self, activation: str) -> None:
        nn.init.uniform_(self.embedding.weight, -1, 1)
        nn.init.zeros_(self.embedding.weight[0].data)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            fan_in = convolution.kernel_size[0] * convolution.in_channels
            if activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolution.weight, std=1 / math.sqrt(fan_in))
            nn.init.zeros_(convolution.bias)  # type: ignore[arg-type]
        if self.projection is not None:
            nn.init.normal_(self.projection.weight, std=1 / math.sqrt(self.projection.in_features))
            nn.init.zeros_(self.projection.bias)

    def forward(self, char_ids: Tensor) -> Tensor:
        x = self.embedding(self._trim(char_ids)).transpose(1, 2)
        # The reference takes the maximum over padding as well, and before the activation.
        pooled = [convolution(x).amax(dim=2) for convolution in self.convolutions]
        features = self.activation(torch.cat(pooled, dim=1))
        for highway in self.highways:
            features = highway(features)
        return features if self.projection is None else self.projection(features)

    def _trim(self, char_ids: Tensor) -> Tensor:
        """Drop the columns in which every convolution would see only padding, but for one.

        All windows of pure padding give the same number, so the maximum does not change.
        """
        used = (char_ids != WORD_PADDING).any(dim=0).sum().item() if len(char_ids) else 0
        return char_ids[:, : int(used) + self._widest]
