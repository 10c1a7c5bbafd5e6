"""The token layer of the biLM: a character CNN with highway layers (Kim et al. 2015).

A word's vector here depends on its spelling alone, so callers run it once per distinct word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ..text.characters import N_CHARACTERS, WORD_PADDING
from .placing import placed_on
from .window_maximum import window_maximum

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
    The projection is left out when the features already have the output width. `padding` is the id
    that fills a word up; the row of id 0 does not learn. Ids are best left in the memory of the
    processor, which looks at them first.
    """

    def __init__(
        self,
        *,
        n_characters: int = N_CHARACTERS,
        padding: int = WORD_PADDING,
        char_width: int,
        filters: Sequence[tuple[int, int]],
        activation: str,
        n_highway: int,
        output_width: int,
    ):
        super().__init__()
        self.activation = ACTIVATIONS[activation]
        self.padding = padding
        self.embedding = nn.Embedding(n_characters, char_width, padding_idx=0)
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
        features = self.activation(self._pooled(char_ids) + self._bias())
        for highway in self.highways:
            features = highway(features)
        return features if self.projection is None else self.projection(features)

    def _pooled(self, char_ids: Tensor) -> Tensor:
        """Convolutions, and the maximum of each feature over all positions.

        The reference takes the maximum over padding as well, and before the activation.
        """
        char_ids, has_padding = self._trim(char_ids)
        x = self.embedding(placed_on(char_ids, self.embedding.weight.device))
        kernel = self._kernel()
        if torch.is_autocast_enabled(x.device.type):
            dtype = torch.get_autocast_dtype(x.device.type)
            x, kernel = x.to(dtype), kernel.to(dtype)
        if has_padding:
            return window_maximum(x, kernel)
        # Narrow filters go on where the widest one has come to the end.
        blocked = torch.cat([_beyond_end(c, char_ids.shape[1]) for c in self._convolutions()], 1)
        x = pad(x, (0, 0, 0, self._widest - 1))
        return window_maximum(x, kernel, placed_on(blocked, x.device))

    def _convolutions(self) -> Iterator[nn.Conv1d]:
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            yield convolution

    def _kernel(self) -> Tensor:
        """All filters side by side, (widest * char_width, n_features); zero beyond their width."""
        weights = [convolution.weight for convolution in self._convolutions()]
        padded = [pad(weight, (0, self._widest - weight.shape[2])) for weight in weights]
        return torch.cat(padded).permute(2, 1, 0).flatten(0, 1)

    def _bias(self) -> Tensor:
        return torch.cat([c.bias for c in self._convolutions()])  # type: ignore[misc]

    def _trim(self, char_ids: Tensor) -> tuple[Tensor, bool]:
        """Drop the columns in which every convolution would see only padding, but for one.

        All windows of pure padding give the same number, so the maximum does not change. Returned
        as well: whether there is such a column.
        """
        used = (char_ids != self.padding).any(dim=0).sum().item() if len(char_ids) else 0
        kept = int(used) + self._widest
        return char_ids[:, :kept], kept <= char_ids.shape[1]


def _beyond_end(convolution: nn.Conv1d, n_columns: int) -> Tensor:
    """Of each position and feature, whether the filter would reach over the end of the word."""
    features, _, width = convolution.weight.shape
    return (torch.arange(n_columns) > n_columns - width)[:, None].expand(-1, features)
