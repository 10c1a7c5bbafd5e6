"""The MT-LSTM of CoVe (McCann et al. 2017, section 3): the encoder of a translation model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..checks import check_count
from ..types import IntArray
from .encoder import Encoder, rows_of
from .lstm import LSTM, LSTMState
from .packing import Packing, inverse
from .parallel import can_share, run_all


@dataclass(frozen=True)
class MTLSTMConfig:
    """Sizes of an MT-LSTM: the defaults are those of the published ones.

    input_width: of the static vectors it reads
    hidden_width: of one direction of each layer
    """

    input_width: int = 300
    hidden_width: int = 300
    n_layers: int = 2

    def __post_init__(self) -> None:
        for field in asdict(self):
            check_count(self, field, 1)

    @property
    def width(self) -> int:
        """Of the output of each layer, both directions side by side."""
        return 2 * self.hidden_width

    @property
    def n_outputs(self) -> int:
        return self.n_layers

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Encoded:
    """What an MT-LSTM makes of a batch.

    layers: of each LSTM layer, (n_tokens, width), sequence after sequence
    states: of each LSTM layer, output and cell after the last step, (n_sequences, width) each,
        forward and backward direction side by side
    """

    layers: list[Tensor]
    states: list[LSTMState]


class MTLSTM(Encoder):
    """Static vectors in context, by LSTM layers that each read both directions of the one below.

    Unlike in a biLM the directions mix: layer 1 reads both directions of layer 0. Sentences have
    no marks, and start from the zero state.
    """

    def __init__(self, config: MTLSTMConfig):
        super().__init__(config.n_outputs, config.width)
        self.config = config
        self.forward_lstms = self._stack()
        self.backward_lstms = self._stack()

    def _stack(self) -> nn.ModuleList:
        config = self.config
        return nn.ModuleList(
            LSTM(
                input_width=config.width if layer else config.input_width,
                hidden_width=config.hidden_width,
                output_width=config.hidden_width,
                bias_hh=True,
            )
            for layer in range(config.n_layers)
        )

    def set_trainable(self, first: int) -> None:
        """Let layers `first` and above learn; layer 0 is the lower LSTM."""
        for layer, lstms in enumerate(zip(self.forward_lstms, self.backward_lstms)):
            for lstm in lstms:
                lstm.requires_grad_(layer >= first)

    def ragged_cost(self, vectors: Tensor) -> float:
        """See `packing.cost`."""
        return cast(LSTM, self.forward_lstms[0]).ragged_cost(self.in_precision(vectors))

    def forward(
        self,
        vectors: Tensor,
        index: IntArray,
        lengths: IntArray,
        groups: Sequence[IntArray] | None = None,
    ) -> Tensor:
        """Both layers of every token, (n_tokens, n_layers, width), sequence after sequence.

        vectors (n_distinct, input_width): the static vector of each distinct word of the batch
        index (n_tokens,): the row of each token in `vectors`
        lengths (n_sequences,): tokens of each sequence, 1 or more
        groups: numbers of the sequences that are read together, by default all at once
        """
        sequences = np.arange(len(lengths))
        ragged_cost = self.ragged_cost(vectors)
        packings = [
            Packing.cheapest(lengths, group, ragged_cost) for group in groups or [sequences]
        ]
        layers, _ = self._read(rows_of(self.in_precision(vectors), index), packings)
        return torch.stack(layers, dim=1).to(vectors.dtype)

    def encode(self, x: Tensor, lengths: IntArray) -> Encoded:
        """Layers and final states of sequences read together: what a decoder starts from.

        x (n_tokens, input_width): the vectors, sequence after sequence
        """
        packing = Packing.of(lengths)
        layers, states = self._read(x, [packing])
        rows = inverse(packing.order)
        in_order = [tuple(rows_of(part, rows) for part in state) for state in states]
        return Encoded(layers, [(h, c) for h, c in in_order])

    def _read(self, x: Tensor, packings: Sequence[Packing]) -> tuple[list[Tensor], list[LSTMState]]:
        """Layers in order of the text, and the states of the first packing in its order."""
        random = self.dropout_generator(self.dropout_seeds()[0])
        layers: list[Tensor] = []
        states: list[LSTMState] = []
        for lstms in zip(self.forward_lstms, self.backward_lstms):
            x = self.dropped(x, random)
            outputs = run_all(
                [partial(_direction, d, lstm, x, packings) for d, lstm in enumerate(lstms)],
                threads=x.device.type == "cpu" and can_share(),
            )
            x = torch.cat([y for y, _ in outputs], dim=1)
            layers.append(x)
            h, c = (torch.cat(parts, dim=1) for parts in zip(*(state for _, state in outputs)))
            states.append((h, c))
        return layers, states


def _direction(
    direction: int, lstm: nn.Module, x: Tensor, packings: Sequence[Packing]
) -> tuple[Tensor, LSTMState]:
    """One layer's output of one direction, in order of the text; and its states after the first
    packing."""
    orders = [packing.backward if direction else packing.forward for packing in packings]
    parts = [
        lstm(rows_of(x, order), torch.from_numpy(packing.batch_sizes))
        for order, packing in zip(orders, packings)
    ]
    place = inverse(np.concatenate(orders))
    return rows_of(torch.cat([y for y, _ in parts]), place), parts[0][1]


def cove(
    vectors: Tensor, layers: Tensor, *, layer0: bool = False, layer1: bool = True, inputs: bool
) -> Tensor:
    """The output of the original program, (n_tokens, sum of widths): what is asked for of the
    input vectors, layer 0 and layer 1, in this order.

    vectors (n_tokens, input_width), layers (n_tokens, n_layers, width)
    """
    parts = [vectors] if inputs else []
    chosen = [layer for layer, wanted in enumerate((layer0, layer1)) if wanted]
    return torch.cat([*parts, *(layers[:, layer] for layer in chosen)], dim=1)
