"""Training of a biLM on a tokenised corpus: two language models over one token layer.

Every piece of text starts from the zero state, which is how the encoder will read documents.
The two directions run on threads of their own, forward and backward pass alike; what they share,
the token layer and the softmax rows, is computed before them and receives both gradients after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import errors
from ..nn.bilm import BiLM
from ..nn.parallel import run_both
from ..nn.softmax import Sampler, WordSoftmax, sampled_loss
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, UNKNOWN_ID, Corpus
from ..types import IntArray
from .batches import (
    Batch,
    all_batches,
    reading_batches,
    token_layer,
    top_layer,
)
from .checkpoint import load_checkpoint, save_checkpoint


@dataclass(frozen=True)
class LMTrainingConfig:
    """How long and how fast. `tokens` counts each token once, though both directions read it.

    With `threads`, the two directions run at the same time, each on one core.
    """

    tokens: int = 10_000_000
    batch_tokens: int = 1024
    n_samples: int = 2048
    learn_rate: float = 3e-3
    warmup: float = 0.03
    beta2: float = 0.99
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    seed: int = 0
    threads: bool = True
    evaluate_every: int = 1000
    checkpoint_seconds: float = 120.0
    eval_tokens: int = 20_000


class LMTrainer:
    """A biLM, its softmax and their optimizer, over one corpus.

    The training is a function of (corpus, config): `resume` continues to the same weights.
    """

    def __init__(self, model: BiLM, softmax: WordSoftmax, corpus: Corpus, config: LMTrainingConfig):
        self.model = model
        self.softmax = softmax
        self.corpus = corpus
        self.config = config
        n_words = len(softmax.bias)
        counts = corpus.counts[:n_words].copy()
        counts[UNKNOWN_ID] = corpus.counts[n_words:].sum()
        counts[[SENTENCE_START_ID, SENTENCE_END_ID]] = len(corpus.offsets) - 1
        softmax.start_from_counts(counts)
        self.sampler = Sampler(counts, config.n_samples, config.seed)
        self.parameters = [*model.parameters(), *softmax.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.parameters,
            lr=config.learn_rate,
            betas=(0.9, config.beta2),
            weight_decay=config.weight_decay,
            fused=True,
        )
        self.step = 0
        self.tokens = 0

    def train(
        self,
        *,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        """Train to the end, with a checkpoint now and then and after the last step.

        `report` gets a record every `evaluate_every` steps, with what `evaluate` returned.
        """
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # each direction has a core; more threads would wait for it
        try:
            self._train(checkpoint, evaluate, report)
        finally:
            torch.set_num_threads(n_threads)

    def _train(
        self,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
    ) -> None:
        saved = started = time.monotonic()
        seen_before = self.tokens
        batches = all_batches(self.corpus, self.config.batch_tokens, self.config.seed)
        for _ in range(self.step):
            next(batches)
        losses: list[float] = []
        while self.tokens < self.config.tokens:
            losses.append(self.train_step(next(batches)))
            if self.step % self.config.evaluate_every == 0:
                speed = (self.tokens - seen_before) / (time.monotonic() - started)
                report(self._record(losses, speed) | evaluate())
                losses = []
            if time.monotonic() - saved > self.config.checkpoint_seconds:
                self.save(checkpoint)
                saved = time.monotonic()
        self.save(checkpoint)

    def _record(self, losses: list[float], speed: float) -> dict[str, Any]:
        return {
            "step": self.step,
            "tokens": self.tokens,
            "sampled_loss": round(sum(losses) / len(losses), 4),
            "tokens_per_second": round(speed),
        }

    def train_step(self, numbers: IntArray) -> float:
        """One step on the pieces `numbers`; the sampled loss, mean of both directions."""
        batch = Batch(self.corpus, numbers)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.learn_rate * self._schedule()
        self.optimizer.zero_grad()
        loss = self._backward(batch)
        if not math.isfinite(loss):
            raise errors.CtxvecError(errors.LOSS_NOT_FINITE.format(loss=loss, step=self.step))
        torch.nn.utils.clip_grad_norm_(self.parameters, self.config.grad_clip)
        self.optimizer.step()
        self.step += 1
        self.tokens += batch.n_tokens
        return loss

    def _schedule(self) -> float:
        """Linear warm-up, then half a cosine to zero, by tokens seen."""
        done = self.tokens / self.config.tokens
        if done < self.config.warmup:
            return (done + 1e-3) / (self.config.warmup + 1e-3)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def _backward(self, batch: Batch) -> float:
        """Accumulate the gradients of one batch; returns its loss."""
        vectors = token_layer(self.model, batch)
        candidates = self.sampler.draw(self.step)
        targets = [batch.targets(direction, len(self.softmax.bias)) for direction in (0, 1)]
        rows = self.softmax.rows(torch.cat([candidates, *targets]))
        # Each direction gets leaves of its own, so that its backward pass ends there.
        leaves = [(_leaf(vectors), _leaf(rows)) for _ in (0, 1)]
        losses = run_both(
            partial(self._direction_loss, 0, batch, leaves[0], candidates, targets),
            partial(self._direction_loss, 1, batch, leaves[1], candidates, targets),
            threads=self.config.threads,
        )
        gradients = [_sum_of_gradients(pair) for pair in zip(*leaves)]
        torch.autograd.backward([vectors, rows], gradients)
        return sum(losses)

    def _direction_loss(
        self,
        direction: int,
        batch: Batch,
        leaves: tuple[Tensor, Tensor],
        candidates: Tensor,
        targets: list[Tensor],
    ) -> float:
        vectors, rows = leaves
        hidden = top_layer(self.model, direction, batch, vectors)
        candidate_rows, *target_rows = rows.split([len(candidates), *map(len, targets)])
        loss = 0.5 * sampled_loss(
            self.softmax.project(direction, hidden),
            targets[direction],
            target_rows[direction],
            candidates,
            candidate_rows,
            self.sampler.log_expected,
        )
        loss.backward()
        return loss.item()

    @torch.no_grad()
    def measure_layers(self, corpus: Corpus, max_tokens: int) -> None:
        """Store mean and deviation of every number of every layer over held-out text."""
        layers = torch.cat(
            [
                self.model(token_layer(self.model, batch), batch.index, batch.lengths)
                for batch in reading_batches(corpus, max_tokens)
            ]
        )
        self.model.set_statistics(layers)

    def save(self, path: Path) -> None:
        save_checkpoint(
            path,
            {
                "model": self.model.state_dict(),
                "softmax": self.softmax.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "tokens": self.tokens,
            },
        )

    def resume(self, path: Path) -> None:
        """Continue from what `save` wrote, with the same sizes."""
        state = load_checkpoint(path)
        try:
            self.model.load_state_dict(state["model"])
            self.softmax.load_state_dict(state["softmax"])
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
            self.tokens = state["tokens"]
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            message = errors.BAD_CHECKPOINT.format(path=path, error=error)
            raise errors.MalformedModelError(message) from error


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _sum_of_gradients(leaves: tuple[Tensor, ...]) -> Tensor:
    first, second = (leaf.grad for leaf in leaves)
    assert first is not None and second is not None
    return first + second
