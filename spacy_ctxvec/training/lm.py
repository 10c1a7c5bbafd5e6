"""Training of a biLM on a tokenised corpus: two language models over one token layer.

The two directions run on threads of their own, forward and backward pass alike; what they share,
the token layer and the softmax rows, is computed before them and receives both gradients after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ..nn.adaptive_softmax import AdaptiveSoftmax, AnySoftmax
from ..nn.bilm import BiLM, CarriedState
from ..nn.candidates import DISTRIBUTIONS
from ..nn.parallel import run_all
from ..nn.placing import placed_on
from ..nn.precision import autocast, compute_dtype
from ..nn.softmax import Sampler
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, UNKNOWN_ID, Corpus
from ..types import IntArray
from .batches import Batch, top_layer
from .lm_config import LMTrainingConfig
from .objective import AdaptiveObjective, FullObjective, Objective, SampledObjective
from .perplexity import DIRECTIONS, mean_perplexity
from .position import Position
from .reading import Group, Reader, pieces_within
from .token_layer import TokenLayer
from .trainer import Trainer
from .workers import Workers

Portion = tuple[Group, int]
"""A group, and the number of the step in it."""


class LMTrainer(Trainer[Portion, LMTrainingConfig]):
    """A biLM, its softmax and their optimizer, over one corpus."""

    measures = DIRECTIONS

    def __init__(
        self,
        model: BiLM,
        softmax: AnySoftmax,
        corpus: Corpus,
        config: LMTrainingConfig,
        workers: Workers | None = None,
    ):
        modules = {"model": model, "softmax": softmax}
        super().__init__(modules, config, config.total_tokens(corpus), workers or Workers())
        self.model = model
        self.softmax = softmax
        self.directions = model.config.direction_numbers
        self.corpus = corpus
        self.dtype = compute_dtype(config.precision, model.device)
        self.threads = config.threads and model.device.type == "cpu"
        self.loss_name = "sampled_loss" if config.softmax == "sampled" else "loss"
        model.dropout = config.dropout
        self.objective = _objective(softmax, word_counts(corpus, softmax.n_words), config)
        self.reader = Reader(
            corpus,
            batch_tokens=config.batch_tokens,
            unroll=config.unroll,
            carry=config.carry,
            seed=config.seed,
            rank=self.workers.rank,
            n_ranks=self.workers.size,
        )
        for direction in {0, 1} - set(self.directions):
            softmax.projections[direction].requires_grad_(False)
        self._together: torch.nn.Module | None = None
        if self.workers.size > 1:
            self._together = DistributedDataParallel(_WholeLoss(self))
        self._state_before: CarriedState | None = None

    @property
    def n_steps(self) -> int:
        return math.ceil(self.total_tokens / self.config.batch_tokens)

    def portions(self, start: Position) -> Iterator[tuple[Portion, Position]]:
        for group, number, after in self.reader.steps(start):
            yield (group, number), after

    def words(self, portion: Portion) -> dict[str, Any]:
        group, number = portion
        inputs = group.read(number)[0]
        rows = {
            name: [[self.corpus.types[i] for i in row] for row in inputs[direction].T]
            for direction, name in enumerate(DIRECTIONS)
            if direction in self.directions
        }
        return {"rows": rows}

    def error_of(self, record: Mapping[str, Any]) -> float:
        return mean_perplexity(record)

    def scores_of(self, record: Mapping[str, Any]) -> dict[str, float | None]:
        names = (*DIRECTIONS, *(f"{name}_marks" for name in DIRECTIONS))
        scores = {f"perplexity/{name}": record.get(name) for name in names}
        return {**scores, "unknown_rate": record.get("unknown_rate")}

    def backward(self, portion: Portion) -> tuple[float, int]:
        """Step `number` of a group; the loss is the mean of the directions."""
        group, number = portion
        if number == 0:
            self.model.state = CarriedState() if group.n_steps > 1 else None
        self._state_before = self.model.state and self.model.state.copy()
        batch = Batch(self.corpus.types, *group.read(number))
        backward = self._backward if self._together is None else self._backward_together
        return backward(batch), batch.n_tokens

    def undo(self) -> None:
        self.model.state = self._state_before

    def _backward_together(self, batch: Batch) -> float:
        """The same as `_backward`, with the gradients averaged over all processes."""
        assert self._together is not None
        loss = self._together(batch)
        loss.backward()
        return self.workers.mean(loss.item()) / self.config.loss_scale

    def _backward(self, batch: Batch) -> float:
        """Accumulate the gradients of one batch; returns its loss."""
        tokens = TokenLayer(self.model, batch.words, self.dtype, threads=self.threads)
        vectors = tokens.vectors.detach()
        shared = self.objective.shared(self.step, self._targets(batch))
        # Each direction gets leaves of its own, so that its backward pass ends there.
        leaves = [[_leaf(tensor) for tensor in (vectors, *shared)] for _ in self.directions]
        losses = run_all(
            [
                partial(self._direction_backward, part, batch, own)
                for part, own in enumerate(leaves)
            ],
            threads=self.threads,
        )
        of_vectors, *of_shared = [_sum_of_gradients(pair) for pair in zip(*leaves)]
        self.objective.backward(of_shared)
        tokens.backward(of_vectors)
        # Read last, since a GPU is waited for here: all of the step has been handed to it.
        return sum(loss.item() for loss in losses) / self.config.loss_scale

    def _targets(self, batch: Batch) -> list[Tensor]:
        n_words = self.softmax.n_words
        device = self.model.device
        return [placed_on(batch.targets(d, n_words), device) for d in self.directions]

    def _direction_backward(self, part: int, batch: Batch, leaves: list[Tensor]) -> Tensor:
        """Loss of one of the directions, with its gradients left on the leaves."""
        loss = self._direction_loss(part, batch, leaves)
        loss.backward()
        return loss.detach()

    def _direction_loss(self, part: int, batch: Batch, tensors: Sequence[Tensor]) -> Tensor:
        """Share of one of the directions in the loss, from the token layer and the tensors that
        the objective shares."""
        direction = self.directions[part]
        vectors, *shared = tensors
        seeds = (self.config.seed * 1_000_003 + self.step) * self.workers.size
        random = self.model.dropout_generator(2 * (seeds + self.workers.rank) + direction)
        hidden = top_layer(self.model, direction, batch, vectors, self.dtype, random)
        with autocast(hidden.device, self.dtype):
            x = self.softmax.project(direction, self.model.dropped(hidden, random))
        losses = self.objective.losses(part, batch.predicting(direction, x), shared)
        # Gradients are averaged over the processes: each divides by its share of all predictions.
        n = self.workers.total(len(losses)) / self.workers.size
        return losses.sum() * (self.config.loss_scale / len(self.directions) / n)

    @torch.no_grad()
    def measure_layers(self, corpus: Corpus, max_tokens: int) -> None:
        """Store mean and deviation of every number of every layer over held-out text."""
        n_pieces = pieces_within(corpus, max_tokens)
        self.model.state = None
        parts = [
            self._layers([corpus.piece(i) for i in range(start, min(start + 32, n_pieces))], corpus)
            for start in range(0, n_pieces, 32)
        ]
        self.model.set_statistics(torch.cat(parts))

    def _layers(self, pieces: list[Any], corpus: Corpus) -> Tensor:
        found, index = np.unique(np.concatenate(pieces), return_inverse=True)
        words = [corpus.types[i] for i in found.tolist()]
        vectors = TokenLayer(self.model, words, torch.float32).vectors
        return self.model(vectors, index + 2, np.array([len(piece) for piece in pieces]))

    def carried(self) -> Any:
        return self.model.state and self.model.state.state_dict()

    def continue_from(self, carried: Sequence[Any]) -> None:
        """Take up the LSTM states of this process; another number of processes has other rows,
        which begin with the next group."""
        if len(carried) == self.workers.size:
            own = carried[self.workers.rank]
            self.model.state = None if own is None else CarriedState(own)
        elif self.position.step:
            self.position = Position(self.position.epoch, self.position.group + 1)


class _WholeLoss(torch.nn.Module):
    """The loss of a batch as one graph, which DistributedDataParallel wants to see being built."""

    def __init__(self, trainer: LMTrainer):
        super().__init__()
        self.model = trainer.model
        self.softmax = trainer.softmax
        self._trainer = [trainer]  # in a list: it is no part of this module

    def forward(self, batch: Batch) -> Tensor:
        trainer = self._trainer[0]
        vectors = TokenLayer(self.model, batch.words, trainer.dtype).vectors
        shared = trainer.objective.shared(trainer.step, trainer._targets(batch))
        tensors = [vectors, *shared]
        parts = range(len(trainer.directions))
        return torch.stack([trainer._direction_loss(p, batch, tensors) for p in parts]).sum()


def word_counts(corpus: Corpus, n_words: int) -> IntArray:
    """How often each word of the softmax is a target, marks and unknown word among them."""
    counts = corpus.counts[:n_words].copy()
    counts[UNKNOWN_ID] = corpus.counts[n_words:].sum()
    counts[[SENTENCE_START_ID, SENTENCE_END_ID]] = len(corpus.lengths)
    return counts


def _objective(softmax: AnySoftmax, counts: IntArray, config: LMTrainingConfig) -> Objective:
    if isinstance(softmax, AdaptiveSoftmax):
        return AdaptiveObjective(softmax)
    if config.softmax == "full":
        return FullObjective(softmax)
    probabilities = DISTRIBUTIONS[config.sampler](counts)
    return SampledObjective(softmax, Sampler(probabilities, config.n_samples, config.seed))


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _sum_of_gradients(leaves: tuple[Tensor, ...]) -> Tensor:
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    if not gradients:  # rows that no target of this step needed
        return torch.zeros_like(leaves[0])
    return gradients[0] if len(gradients) == 1 else gradients[0] + gradients[1]
