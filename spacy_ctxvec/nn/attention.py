"""Which words of the source a decoder looks at: global attention in its "general" form (Luong et
al. 2015, section 3.1), as the translation model behind CoVe has it (McCann et al. 2017, section 3).

With H the encoder's outputs of one sentence (a row a word) and h the decoder's top layer,

    a  = softmax(H (W1 h + b1))
    h~ = tanh(W2 [H^T a ; h] + b2)

McCann et al. write the biases, their program has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Memory:
    """Sentences made ready for attention, one a row, padded at their ends.

    keys    (n_sentences, longest, width)  W1^T of each word, since H (W1 h) = (H W1) h
    values  (n_sentences, longest, width)  H itself
    offset  (n_sentences, 1, longest)      H b1, and minus infinity for padding
    """

    keys: Tensor
    values: Tensor
    offset: Tensor

    def first(self, n: int) -> Memory:
        return Memory(self.keys[:n], self.values[:n], self.offset[:n])

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.keys[rows], self.values[rows], self.offset[rows])


class Attention(nn.Module):
    """Decoder's top layer -> the same with what it looks at in the source, of equal width."""

    def __init__(self, width: int, *, bias: bool = False):
        super().__init__()
        self.score = nn.Linear(width, width, bias=bias)
        self.combine = nn.Linear(2 * width, width, bias=bias)

    def memory(self, values: Tensor, mask: Tensor) -> Memory:
        """What does not change from step to step, computed once.

        values (n_sentences, longest, width): the encoder's outputs; what stands in padding must
            be finite, and changes nothing
        mask (n_sentences, longest): True for words; each sentence has one at least
        """
        offset = values.new_zeros(mask.shape)
        if self.score.bias is not None:
            offset = values @ self.score.bias.to(values.dtype)
        offset = offset.masked_fill(~mask, -math.inf)
        keys = values @ self.score.weight.to(values.dtype)
        return Memory(keys, values, offset.unsqueeze(1))

    def forward(
        self, h: Tensor, memory: Memory, combine: Callable[[Tensor], Tensor] | None = None
    ) -> tuple[Tensor, Tensor]:
        """h~ (n_rows, width), and the weights a (n_rows, longest), exactly 0 in padding.

        h (n_rows, width): the same number of rows for each sentence of the memory, sentence after
            sentence
        combine: what computes W2 x + b2 in place of the module's own layer
        """
        weights, context = attend(h, memory)
        combined = (combine or self.combine)(torch.cat([context, h], dim=1))
        return combined.tanh(), weights


def attend(h: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    """Weights a (n_rows, longest) and contexts H^T a (n_rows, width)."""
    n_sentences, longest, width = memory.keys.shape
    queries = h.view(n_sentences, -1, width)
    scores = torch.baddbmm(memory.offset, queries, memory.keys.transpose(1, 2))
    weights = scores.softmax(dim=2)
    return weights.view(-1, longest), torch.bmm(weights, memory.values).view(-1, width)
