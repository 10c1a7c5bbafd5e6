"""One state for every sequence to start from, in place of zero.

bilm-tf trains with states that go on from batch to batch, so its language models hardly ever saw a
sentence begin from zero. The mean of the states in which some text ends is closer to what they
know, and, unlike a state that goes on, the same for every sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .bilm import START_CELL, START_OUTPUT, BiLM

SENTENCES = 32  # read at once


@torch.no_grad()
def warm_start(encoder: BiLM, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
    """`start_output` and `start_cell`, measured on sentences of one word or more.

    The encoder reads them as the original programs would, a batch after the other, each row going
    on from where it ended; what is returned is the mean over the rows at the end.
    """
    encoder.carry_state("carry")
    for first in range(0, len(sentences), SENTENCES):
        batch = sentences[first : first + SENTENCES]
        words = [word for sentence in batch for word in sentence]
        vectors = torch.cat([encoder.mark_vectors(), encoder.word_vectors(words)])
        encoder(vectors, np.arange(len(words)) + 2, np.array([len(s) for s in batch]))
    states = encoder.state.state_dict() if encoder.state else {}
    encoder.carry_state("reset")
    config = encoder.config
    output = torch.zeros(2, config.n_layers, config.token_width)
    cell = torch.zeros(2, config.n_layers, config.hidden_width)
    for (direction, layer), (h, c) in states.items():
        output[direction, layer], cell[direction, layer] = h.mean(dim=0), c.mean(dim=0)
    return {START_OUTPUT: output, START_CELL: cell}
