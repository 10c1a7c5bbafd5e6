"""What every encoder has: its layers' statistics, and dropout that threads may share."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from ..checks import bad_setting
from ..types import IntArray
from .kernels import KeptKernels
from .lstm import LSTM
from .placing import placed_on
from .precision import PREDICTED, possible


class Encoder(nn.Module):
    """Words in context, n_outputs layers of one width.

    layer_mean, layer_deviation (n_outputs, width): over the text the encoder was trained on; what
        a mix standardises its layers with
    dropout: in training, the share of numbers that are zeroed before each LSTM
    precision: one of `PREDICTED`, that of the LSTMs' products where no gradient is recorded
    keeps_tensors: whether tensors made in one call are used in later ones
    """

    keeps_tensors = False

    layer_mean: Tensor
    layer_deviation: Tensor

    def __init__(self, n_outputs: int, width: int):
        super().__init__()
        self.register_buffer("layer_mean", torch.zeros(n_outputs, width))
        self.register_buffer("layer_deviation", torch.ones(n_outputs, width))
        self.dropout = 0.0
        self.precision = "float32"

    @property
    def device(self) -> torch.device:
        return self.layer_mean.device

    def set_precision(self, precision: str) -> None:
        """Of prediction; CtxvecError unless it is one of `PREDICTED`."""
        if precision not in PREDICTED:
            raise bad_setting("precision", precision, ", ".join(PREDICTED))
        self.precision = precision
        for lstm in self._lstms():
            lstm.int8 = precision == "int8"

    def keep_kernels(self) -> None:
        """Make what the products of prediction want of the weights once, and not in each call.
        Whoever changes a weight then has to say so: `forget_kernels`."""
        for lstm in self._lstms():
            lstm.kept = KeptKernels()

    def forget_kernels(self) -> None:
        for lstm in self._lstms():
            if lstm.kept is not None:
                lstm.kept.clear()

    def _lstms(self) -> Iterator[LSTM]:
        return (module for module in self.modules() if isinstance(module, LSTM))

    def in_precision(self, vectors: Tensor) -> Tensor:
        """`vectors` in the type that the LSTMs compute in now."""
        if torch.is_grad_enabled() or possible(self.precision, self.device.type) != "bfloat16":
            return vectors
        return vectors.bfloat16()

    @property
    def has_statistics(self) -> bool:
        return bool((self.layer_deviation != 1).any())

    def set_statistics(self, layers: Tensor) -> None:
        """Measure mean and deviation over layers (n_tokens, n_outputs, width)."""
        self.layer_mean.copy_(layers.mean(dim=0))
        self.layer_deviation.copy_(layers.std(dim=0, correction=0))

    @property
    def drops(self) -> bool:
        """Dropout is for where gradients are recorded: unlike the module's mode, that is a setting
        of the thread, so that others can predict meanwhile."""
        return bool(self.dropout) and torch.is_grad_enabled()

    def dropout_seeds(self) -> list[int]:
        """A seed for each direction, drawn before their threads start: two threads would share the
        global generator in a random order."""
        return torch.randint(2**62, (2,)).tolist() if self.drops else [0, 0]

    def dropout_generator(self, seed: int) -> torch.Generator | None:
        """What one thread draws its dropout from; None where there is none."""
        return torch.Generator(self.device).manual_seed(seed) if self.drops else None

    def dropped(self, x: Tensor, random: torch.Generator | None) -> Tensor:
        if random is None:
            return x
        kept = 1 - self.dropout
        return x * torch.empty_like(x).bernoulli_(kept, generator=random).div_(kept)


def rows_of(tensor: Tensor, index: IntArray) -> Tensor:
    return tensor.index_select(0, placed_on(index, tensor.device))
