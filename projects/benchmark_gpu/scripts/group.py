"""Systems that do the same work and are compared, and the plain LSTMs among them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from spacy_ctxvec.analysis.benchmark import LIBRARY_LSTM, Pass, precisions
from spacy_ctxvec.analysis.products import LSTMEncoder, library_pass
from spacy_ctxvec.types import IntArray

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Group:
    """passes: of each system, the first being what the others are compared with; each goes once
    over `n_words` words, `batch_size` docs at a time"""

    passes: dict[str, Pass]
    n_words: int
    batch_size: int


def dtypes_on(device: torch.device) -> dict[str, torch.dtype]:
    """The precisions to measure, by name."""
    return {name: dtype for name, dtype in DTYPES.items() if name in precisions(device)}


def lstm_passes(
    module: LSTMEncoder, lengths: IntArray, batch_size: int, *, backward: bool
) -> dict[str, Pass]:
    """`torch.nn.LSTM` of the sizes of `module` in every precision, over random vectors.

    lengths (n_docs,): words of each doc
    backward: there and back, to the gradients of weights and inputs
    """
    way = "there and back" if backward else "there"
    return {
        f"{LIBRARY_LSTM} {way}, {name}": library_pass(
            module, lengths, batch_size, backward=backward, dtype=dtype
        )
        for name, dtype in dtypes_on(module.device).items()
    }
