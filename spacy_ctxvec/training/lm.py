"""Training of a biLM on a tokenised corpus: two language models over one token layer.

Every piece of text starts from the zero state, which is how the encoder will read documents.
The two directions run on threads of their own, forward and backward pass alike; what they share,
the token layer and the softmax rows, is computed before them and receives both gradients after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import errors
from ..nn.bilm import BiLM
from ..nn.packing import Packing, framed_index, token_positions
from ..nn.parallel import run_both
from ..nn.softmax import Sampler, WordSoftmax, sampled_loss
from ..text.characters import encode_words
from ..text.corpus import SENTENCE_END_ID, SENTENCE_START_ID, SPECIALS, UNKNOWN_ID, Corpus
from ..types import IntArray
from .checkpoint import load_checkpoint, save_checkpoint

PIECES_PER_POOL = 4096  # pieces sorted by length together: little padding, still a random order


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


@dataclass(frozen=True)
class Perplexity:
    """Full-softmax perplexity of each direction, sentence marks left out, and of the marks."""

    forward: float
    backward: float
    forward_marks: float
    backward_marks: float
    n_tokens: int
    unknown_rate: float


class Batch:
    """Pieces of text, framed and packed, with their distinct types."""

    def __init__(self, corpus: Corpus, numbers: IntArray):
        pieces = [np.asarray(corpus.piece(int(i)), dtype=np.int64) for i in numbers]
        self.lengths = lengths = np.array([len(piece) for piece in pieces])
        self.n_tokens = int(lengths.sum())
        ids = np.concatenate(pieces)
        self.types, rows = np.unique(ids, return_inverse=True)
        self.index = rows + 2
        framed_types = framed_index(self.index, lengths)
        framed_ids = np.full(len(framed_types), SENTENCE_START_ID)
        framed_ids[framed_types == 1] = SENTENCE_END_ID
        framed_ids[token_positions(lengths)] = ids
        self.packing = Packing.of(lengths)
        self._rows = (framed_types[self.packing.forward], framed_types[self.packing.backward])
        self._ids = (framed_ids[self.packing.forward], framed_ids[self.packing.backward])

    def inputs(self, direction: int) -> Tensor:
        """Row of each packed position among the mark vectors and the vectors of `types`."""
        return torch.from_numpy(self._rows[direction])

    def targets(self, direction: int, n_words: int) -> Tensor:
        """The word after each packed position that has one; ids beyond `n_words` are unknown."""
        ids = self._ids[direction][self.packing.batch_sizes[0] :]
        return torch.from_numpy(np.where(ids < n_words, ids, UNKNOWN_ID))

    def predictions(self) -> Tensor:
        """The packed positions that have a next word, in the order of `targets`."""
        sizes = self.packing.batch_sizes
        after = np.arange(sizes[0], len(self.packing.forward))
        return torch.from_numpy(after - np.repeat(sizes[:-1], sizes[1:]))


def epoch_batches(corpus: Corpus, batch_tokens: int, seed: int, epoch: int) -> Iterator[IntArray]:
    """Piece numbers of each batch; the order depends on seed and epoch alone."""
    random = np.random.default_rng([seed, epoch])
    lengths = np.diff(corpus.offsets) + 2
    pieces = random.permutation(len(lengths))
    for start in range(0, len(pieces), PIECES_PER_POOL):
        pool = pieces[start : start + PIECES_PER_POOL]
        pool = pool[np.argsort(-lengths[pool], kind="stable")]
        batch_of = np.cumsum(lengths[pool]) // batch_tokens
        batches = np.split(pool, np.flatnonzero(np.diff(batch_of)) + 1)
        yield from (batches[i] for i in random.permutation(len(batches)))


def all_batches(corpus: Corpus, config: LMTrainingConfig) -> Iterator[IntArray]:
    """Batches of epoch after epoch, for ever."""
    epoch = 0
    while True:
        yield from epoch_batches(corpus, config.batch_tokens, config.seed, epoch)
        epoch += 1


def reading_batches(corpus: Corpus, max_tokens: int | None) -> Iterator[Batch]:
    """The corpus in its own order, 32 pieces at a time, until `max_tokens` have been seen."""
    for start in range(0, len(corpus.offsets) - 1, 32):
        if max_tokens is not None and corpus.offsets[start] >= max_tokens:
            return
        yield Batch(corpus, np.arange(start, min(start + 32, len(corpus.offsets) - 1)))


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
        self.characters = CharacterTable(corpus.types, model.config.max_characters)
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
        batches = all_batches(self.corpus, self.config)
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
        vectors = self._vectors(batch, self.characters)
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
        hidden = self._top(direction, batch, vectors)
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

    def _vectors(self, batch: Batch, characters: CharacterTable) -> Tensor:
        return self.model.char_encoder(characters.rows(batch.types))

    def _top(self, direction: int, batch: Batch, vectors: Tensor) -> Tensor:
        x = vectors[batch.inputs(direction)]
        return self.model.run_stack(direction, x, batch.packing)[-1][batch.predictions()]

    @torch.no_grad()
    def evaluate(self, corpus: Corpus, max_tokens: int | None = None) -> Perplexity:
        """Held-out perplexity of both directions over the full softmax.

        `corpus` must be `recoded` over the types of the training corpus.
        """
        characters = CharacterTable(corpus.types, self.model.config.max_characters)
        n_words = len(self.softmax.bias)
        sums = np.zeros((2, 2))
        counts = np.zeros((2, 2))
        n_unknown = n_tokens = 0
        for batch in reading_batches(corpus, max_tokens):
            vectors = self._vectors(batch, characters)
            for direction in (0, 1):
                targets = batch.targets(direction, n_words)
                hidden = self._top(direction, batch, vectors)
                losses = self.softmax.full_losses(direction, hidden, targets)
                is_mark = targets < UNKNOWN_ID
                for kind, mask in enumerate((~is_mark, is_mark)):
                    sums[direction, kind] += losses[mask].sum().item()
                    counts[direction, kind] += mask.sum().item()
            n_unknown += (targets == UNKNOWN_ID).sum().item()
            n_tokens += batch.n_tokens
        perplexity = np.exp(sums / counts)
        return Perplexity(
            forward=float(perplexity[0, 0]),
            backward=float(perplexity[1, 0]),
            forward_marks=float(perplexity[0, 1]),
            backward_marks=float(perplexity[1, 1]),
            n_tokens=n_tokens,
            unknown_rate=n_unknown / n_tokens,
        )

    @torch.no_grad()
    def measure_layers(self, corpus: Corpus, max_tokens: int) -> None:
        """Store mean and deviation of every number of every layer over held-out text."""
        characters = CharacterTable(corpus.types, self.model.config.max_characters)
        layers = torch.cat(
            [
                self.model(self._vectors(batch, characters), batch.index, batch.lengths)
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


class CharacterTable:
    """Character ids of every type of a corpus, computed once."""

    def __init__(self, types: list[str], max_characters: int):
        words = types[len(SPECIALS) :]
        self._words = torch.from_numpy(encode_words(words, max_characters).astype(np.int16))
        self._marks = torch.from_numpy(
            encode_words(SPECIALS[:2], max_characters, sentence_marks=True)
        )

    def rows(self, types: IntArray) -> Tensor:
        """Character ids of the two sentence marks, then of `types`: (2 + n, max_characters)."""
        words = self._words[torch.from_numpy(types - len(SPECIALS))].long()
        return torch.cat([self._marks, words])


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().requires_grad_()


def _sum_of_gradients(leaves: tuple[Tensor, ...]) -> Tensor:
    first, second = (leaf.grad for leaf in leaves)
    assert first is not None and second is not None
    return first + second
