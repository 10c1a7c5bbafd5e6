"""Training of a translation model on pairs of sentences, for its encoder's sake."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from .. import errors
from ..nn.nmt import Translator
from ..nn.placing import placed_on
from ..nn.precision import compute_dtype
from ..text.pair_corpus import PairCorpus
from ..types import FloatArray, IntArray
from .nmt_config import HALVING, NMTTrainingConfig
from .optimizing import rate_factor
from .pair_batches import PairReader, n_predictions
from .position import Position
from .trainer import Trainer
from .workers import Workers


class NMTTrainer(Trainer[IntArray, NMTTrainingConfig]):
    """A translation model and its optimizer, over one corpus of pairs.

    vectors (n_types, input_width): of each source type; they do not learn
    """

    measures = ("perplexity", "bleu")

    def __init__(
        self,
        model: Translator,
        pairs: PairCorpus,
        vectors: FloatArray,
        config: NMTTrainingConfig,
        workers: Workers | None = None,
    ):
        workers = workers or Workers()
        if workers.size > 1:
            raise errors.CtxvecError(errors.ONE_PROCESS.format(found=workers.size))
        total = max(1, round(config.epochs * n_predictions(pairs)))
        super().__init__({"model": model}, config, total, workers)
        self.model = model
        self.pairs = pairs
        self.dtype = compute_dtype(config.precision, workers.device)
        self.reader = PairReader(
            pairs,
            vectors,
            model.config.n_target_words,
            batch_pairs=config.batch_pairs,
            seed=config.seed,
        )
        self.least_perplexity = math.inf
        self.rate = 1.0

    @property
    def n_steps(self) -> int:
        return math.ceil(self.config.epochs * len(self.pairs) / self.config.batch_pairs)

    def portions(self, start: Position) -> Iterator[tuple[IntArray, Position]]:
        return self.reader.steps(start)

    def backward(self, portion: IntArray) -> tuple[float, int]:
        # Dropout draws from the global generator: each step from a seed of its own, so that a
        # resumed run draws the same.
        torch.manual_seed(self.config.seed * 1_000_003 + self.step)
        batch = self.reader.read(portion)
        loss = self.model.loss(
            placed_on(batch.vectors, self.workers.device).to(self.dtype),
            batch.lengths,
            batch.targets,
            label_smoothing=self.config.label_smoothing,
        )
        (loss.total * (self.config.loss_scale / loss.n_tokens)).backward()
        return loss.nll / loss.n_tokens, loss.n_tokens

    def words(self, portion: IntArray) -> dict[str, Any]:
        pairs = [self.pairs.pair(int(number)) for number in portion]
        types = (self.pairs.source.types, self.pairs.target.types)
        rows = [[[side[i] for i in ids] for side, ids in zip(types, pair)] for pair in pairs]
        return {"pairs": rows}

    def error_of(self, record: Mapping[str, Any]) -> float:
        bleu = record.get("bleu")
        return math.inf if bleu is None else -bleu

    def scores_of(self, record: Mapping[str, Any]) -> dict[str, float | None]:
        return {name: record.get(name) for name in self.measures}

    def note(self, found: Mapping[str, Any]) -> None:
        perplexity = found["perplexity"]
        if self.config.schedule == HALVING and (
            perplexity > self.least_perplexity or self.rate < 1
        ):
            self.rate /= 2
        self.least_perplexity = min(self.least_perplexity, perplexity)

    def rate_factor(self) -> float:
        if self.config.schedule == HALVING:
            return self.rate
        return rate_factor(self.config.schedule, self.config.warmup, self.done)

    @property
    def is_finished(self) -> bool:
        return super().is_finished or self.config.learn_rate * self.rate < self.config.least_rate

    def carried(self) -> Any:
        return {"rate": self.rate, "least_perplexity": self.least_perplexity}

    def continue_from(self, carried: Sequence[Any]) -> None:
        self.rate, self.least_perplexity = carried[0]["rate"], carried[0]["least_perplexity"]
