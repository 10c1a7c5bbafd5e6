"""The training losses of a biLM: sampled, full or adaptive softmax over the next word.

An objective names the tensors that both directions need (`shared`), so that a trainer can give
each direction's thread leaves of its own, and computes the losses of one direction from them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.func import functional_call

from ..nn.adaptive_softmax import AdaptiveSoftmax
from ..nn.placing import placed_on
from ..nn.precision import autocast
from ..nn.softmax import Sampler, WordSoftmax, full_losses, sampled_losses


class Objective(Protocol):
    def shared(self, step: int, targets: Sequence[Tensor]) -> list[Tensor]:
        """The tensors that gradients of both directions flow into, for one step."""
        ...

    def losses(self, part: int, x: Tensor, shared: Sequence[Tensor]) -> Tensor:
        """Negative log-likelihoods (n,) of targets[part], from projected vectors x (n, width)."""
        ...

    def backward(self, gradients: Sequence[Tensor]) -> None:
        """Hand the gradients of the tensors of `shared` on to the softmax."""
        ...


class FullObjective:
    """The full softmax: exact, at a cost that grows with the vocabulary."""

    def __init__(self, softmax: WordSoftmax):
        self.softmax = softmax
        self.targets: Sequence[Tensor] = ()

    def shared(self, step: int, targets: Sequence[Tensor]) -> list[Tensor]:
        self.targets = targets
        return [self.softmax.weight, self.softmax.bias]

    def losses(self, part: int, x: Tensor, shared: Sequence[Tensor]) -> Tensor:
        weight, bias = shared
        return full_losses(x, self.targets[part], weight, bias)

    def backward(self, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip((self.softmax.weight, self.softmax.bias), gradients):
            parameter.grad = gradient


class AdaptiveObjective:
    """The adaptive softmax (`nn.adaptive_softmax`): exact as well, and much cheaper."""

    def __init__(self, softmax: AdaptiveSoftmax):
        self.clusters = softmax.clusters
        # Two threads at a time borrow a module for weights of their own.
        self.shells = [copy.deepcopy(self.clusters).to("meta") for _ in range(2)]
        self.names = [name for name, _ in self.clusters.named_parameters()]
        self.targets: Sequence[Tensor] = ()

    def shared(self, step: int, targets: Sequence[Tensor]) -> list[Tensor]:
        self.targets = targets
        return list(self.clusters.parameters())

    def losses(self, part: int, x: Tensor, shared: Sequence[Tensor]) -> Tensor:
        weights = dict(zip(self.names, shared))
        with autocast(x.device, x.dtype):
            result = functional_call(self.shells[part], weights, (x, self.targets[part]))
        return -result.output.float()

    def backward(self, gradients: Sequence[Tensor]) -> None:
        for parameter, gradient in zip(self.clusters.parameters(), gradients):
            parameter.grad = gradient


class SampledObjective:
    """The softmax over each target and the candidates of the step (`nn.softmax`)."""

    def __init__(self, softmax: WordSoftmax, sampler: Sampler):
        self.softmax = softmax
        self.sampler = sampler
        self.log_expected = sampler.log_expected.to(softmax.weight.device)
        self.targets: Sequence[Tensor] = ()
        self.candidates = self.ids = torch.empty(0, dtype=torch.int64)

    def shared(self, step: int, targets: Sequence[Tensor]) -> list[Tensor]:
        self.targets = targets
        self.candidates = placed_on(self.sampler.draw(step), self.softmax.weight.device)
        self.ids = torch.cat([self.candidates, *targets])
        return list(self.softmax.rows(self.ids))

    def losses(self, part: int, x: Tensor, shared: Sequence[Tensor]) -> Tensor:
        sizes = [len(self.candidates), *map(len, self.targets)]
        weights, biases = (tensor.split(sizes) for tensor in shared)
        return sampled_losses(
            x,
            self.targets[part],
            (weights[part + 1], biases[part + 1]),
            self.candidates,
            (weights[0], biases[0]),
            self.log_expected,
        )

    def backward(self, gradients: Sequence[Tensor]) -> None:
        # Autograd would make a new matrix of zeros each step; most of the rows stay zero.
        for parameter, gradient in zip((self.softmax.weight, self.softmax.bias), gradients):
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.index_add_(0, self.ids, gradient)
