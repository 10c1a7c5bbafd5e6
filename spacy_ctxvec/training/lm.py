"""Training of a biLM on a tokenised corpus: two language models over one token layer.

The two directions run on threads of their own, forward and backward pass alike; what they share,
the token layer and the softmax rows, is computed before them and receives both gradients after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import srsly
import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from .. import errors
from ..nn.adaptive_softmax import AdaptiveSoftmax, AnySoftmax
from ..nn.bilm import BiLM, CarriedState
from ..nn.candidates import DISTRIBUTIONS
from ..nn.memory import keep_freed_memory
from ..nn.parallel import one_thread, run_all
from ..nn.precision import autocast, compute_dtype
from ..nn.softmax import Sampler
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, UNKNOWN_ID, Corpus
from ..types import IntArray
from .batches import Batch, top_layer
from .checkpoint import load_checkpoint, save_checkpoint
from .interrupting import StopRequests
from .lm_config import LMTrainingConfig
from .objective import AdaptiveObjective, FullObjective, Objective, SampledObjective
from .optimizing import make_optimizer, rate_factor
from .perplexity import DIRECTIONS, mean_perplexity
from .reading import Group, Position, Reader, pieces_within
from .token_layer import TokenLayer
from .workers import Workers

PROGRESS = ("step", "tokens", "seconds", "best", "best_weights", "evaluations_since_best")


class LMTrainer:
    """A biLM, its softmax and their optimizer, over one corpus.

    The training is a function of (corpus, config): `resume` continues to the same weights, unless
    `hours` bounds it.
    """

    def __init__(
        self,
        model: BiLM,
        softmax: AnySoftmax,
        corpus: Corpus,
        config: LMTrainingConfig,
        workers: Workers | None = None,
    ):
        self.workers = workers or Workers()
        self.model = model.to(self.workers.device)
        self.softmax = softmax.to(self.workers.device)
        self.directions = model.config.direction_numbers
        self.corpus = corpus
        self.config = config
        self.dtype = compute_dtype(config.precision, model.device)
        self.total_tokens = config.total_tokens(corpus)
        self.threads = config.threads and model.device.type == "cpu"
        model.dropout = config.dropout
        self.objective = _objective(softmax, word_counts(corpus, softmax.n_words), config)
        self.parameters = [*model.parameters(), *softmax.parameters()]
        self.optimizer = make_optimizer(
            config.optimizer,
            self.parameters,
            learn_rate=config.learn_rate,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
        )
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
        self.position = Position()
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.best = math.inf
        self.best_weights: dict[str, dict[str, Tensor]] | None = None
        self.evaluations_since_best = 0

    def train(
        self,
        *,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
        tick: Callable[[], None] = lambda: None,
    ) -> bool:
        """Train to the end, with a checkpoint now and then and after the last step.

        `report` gets a record every `evaluate_every` steps, with what `evaluate` returned. `tick`
        is called after every step; it has to be quick.
        Returns whether the end was reached: False after SIGINT or SIGTERM, the checkpoint written.
        """
        keep_freed_memory()
        # Each direction has a core; more threads would wait for it.
        with one_thread(), StopRequests() as stop:
            self._train(checkpoint, evaluate, report, tick, stop)
        finished = bool(self.workers.largest([self.is_finished])[0])
        if finished and self.best_weights is not None:
            self.model.load_state_dict(self.best_weights["model"])
            self.softmax.load_state_dict(self.best_weights["softmax"])
        return finished

    @property
    def done(self) -> float:
        """The part of the run that is behind, 0 to 1."""
        parts = [self.tokens / self.total_tokens]
        if self.config.hours:
            parts.append(self.seconds / (3600 * self.config.hours))
        return min(1.0, max(parts))

    @property
    def is_finished(self) -> bool:
        patience = self.config.patience
        return self.done >= 1 or bool(patience and self.evaluations_since_best >= patience)

    def _train(
        self,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
        tick: Callable[[], None],
        stop: StopRequests,
    ) -> None:
        saved = started = time.monotonic()
        seen_before, seconds_before = self.tokens, self.seconds
        losses: list[float] = []
        steps = self.reader.steps(self.position)
        while not self._should_end(stop):
            group, number, after = next(steps)
            try:
                losses.append(self.train_step(group, number, after))
            except errors.CtxvecError:
                self._keep_evidence(checkpoint, group, number)
                raise
            self.seconds = seconds_before + time.monotonic() - started
            tick()
            if self.step % self.config.evaluate_every == 0:
                if self.workers.is_first:
                    speed = (self.tokens - seen_before) / (time.monotonic() - started)
                    found = evaluate()
                    report(self._record(losses, speed) | found)
                    self._note(found)
                losses = []
            if self._is_due(time.monotonic() - saved):
                self.save(checkpoint)
                saved = time.monotonic()
        self.save(checkpoint)

    def _should_end(self, stop: StopRequests) -> bool:
        """The same answer in all processes, and the same time on their clocks."""
        ends = self.is_finished or stop.requested
        ended, self.seconds = self.workers.largest([ends, self.seconds])
        return bool(ended)

    def _is_due(self, seconds: float) -> bool:
        return bool(self.workers.largest([seconds > self.config.checkpoint_seconds])[0])

    def _record(self, losses: list[float], speed: float) -> dict[str, Any]:
        return {
            "step": self.step,
            "tokens": self.tokens,
            "done": round(self.done, 4),
            "seconds": round(self.seconds, 1),
            "sampled_loss" if self.config.softmax == "sampled" else "loss": round(
                sum(losses) / len(losses), 4
            ),
            "learn_rate": self.config.learn_rate * self._rate_factor(),
            "tokens_per_second": round(speed),
        }

    def _note(self, found: dict[str, Any]) -> None:
        perplexity = mean_perplexity(found)
        if perplexity >= self.best:
            self.evaluations_since_best += 1
            return
        self.best, self.evaluations_since_best = perplexity, 0
        if self.config.patience:
            modules = {"model": self.model, "softmax": self.softmax}
            self.best_weights = {
                name: {key: tensor.clone() for key, tensor in module.state_dict().items()}
                for name, module in modules.items()
            }

    def _keep_evidence(self, checkpoint: Path, group: Group, number: int) -> None:
        """Save the weights from before a step that failed, and the words that it was to read."""
        self.save(checkpoint)
        inputs = group.read(number)[0]
        rows = {
            name: [[self.corpus.types[i] for i in row] for row in inputs[direction].T]
            for direction, name in enumerate(DIRECTIONS)
            if direction in self.directions
        }
        evidence = {"step": self.step, "position": asdict(self.position), "rows": rows}
        rank = "" if self.workers.is_first else f"_{self.workers.rank}"  # it read other rows
        srsly.write_json(checkpoint.with_name(f"failed_batch{rank}.json"), evidence)

    def train_step(self, group: Group, number: int, after: Position) -> float:
        """Step `number` of a group; the loss, mean of the directions."""
        if number == 0:
            self.model.state = CarriedState() if group.n_steps > 1 else None
        state_before = self.model.state and self.model.state.copy()
        batch = Batch(self.corpus.types, *group.read(number))
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.config.learn_rate * self._rate_factor()
        self.optimizer.zero_grad(set_to_none=False)
        loss = self._backward(batch)
        norm = self._clip_gradients()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.model.state = state_before
            raise errors.CtxvecError(
                errors.LOSS_NOT_FINITE.format(loss=loss, norm=norm, step=self.step)
            )
        self.optimizer.step()
        self.step += 1
        self.tokens += self.workers.total(batch.n_tokens)
        self.position = after
        return loss

    def _clip_gradients(self) -> float:
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = get_total_norm(gradients)
        if norm > self.config.grad_clip:
            clip_grads_with_norm_(self.parameters, self.config.grad_clip, norm)
        return norm.item()

    def _rate_factor(self) -> float:
        return rate_factor(self.config.schedule, self.config.warmup, self.done)

    def _backward(self, batch: Batch) -> float:
        """Accumulate the gradients of one batch; returns its loss."""
        if self._together is not None:
            loss = self._together(batch)
            loss.backward()
            return self.workers.mean(loss.item()) / self.config.loss_scale
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
        return sum(losses) / self.config.loss_scale

    def _targets(self, batch: Batch) -> list[Tensor]:
        n_words = self.softmax.n_words
        return [batch.targets(d, n_words).to(self.model.device) for d in self.directions]

    def _direction_backward(self, part: int, batch: Batch, leaves: list[Tensor]) -> float:
        """Loss of one of the directions, with its gradients left on the leaves."""
        loss = self._direction_loss(part, batch, leaves)
        loss.backward()
        return loss.item()

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

    def save(self, path: Path) -> None:
        """Write everything that training goes on from; the first process does it for all."""
        carried = self.workers.gathered(self.model.state and self.model.state.state_dict())
        if not self.workers.is_first:
            return
        save_checkpoint(
            path,
            {
                "model": self.model.state_dict(),
                "softmax": self.softmax.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "carried_state": carried,
                "position": asdict(self.position),
                **{name: getattr(self, name) for name in PROGRESS},
            },
        )

    def resume(self, path: Path) -> None:
        """Continue from what `save` wrote, with the same sizes."""
        state = load_checkpoint(path)
        try:
            self.model.load_state_dict(state["model"])
            self.softmax.load_state_dict(state["softmax"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.position = Position(**state["position"])
            self._continue_states(state["carried_state"])
            for name in PROGRESS:
                setattr(self, name, state[name])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            message = errors.BAD_CHECKPOINT.format(path=path, error=error)
            raise errors.MalformedModelError(message) from error

    def _continue_states(self, carried: Sequence[Any]) -> None:
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
