"""The settings of a language-model training, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..nn.candidates import DISTRIBUTIONS
from ..text.corpus import Corpus
from .training_config import Ranges, TrainingConfig

SOFTMAXES = ("sampled", "full", "adaptive")
CARRIES = ("document", "stream")


@dataclass(frozen=True)
class LMTrainingConfig(TrainingConfig):
    """How long, how fast, and how; see also `TrainingConfig`.

    tokens counts each token once, though both directions read it; epochs, where above 0, counts
        passes over the corpus instead
    batch_tokens, unroll: tokens of a step, and columns of it (`reading`)
    threads: the two directions run at the same time, each on one core
    """

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **TrainingConfig.CHOICES,
        "softmax": SOFTMAXES,
        "sampler": tuple(DISTRIBUTIONS),
        "carry": CARRIES,
    }
    RANGES: ClassVar[Ranges] = {
        **TrainingConfig.RANGES,
        "tokens batch_tokens unroll n_samples evaluate_every eval_tokens": (
            lambda value: value >= 1,
            "1 or more",
        ),
    }

    tokens: int = 10_000_000
    batch_tokens: int = 4096
    unroll: int = 128
    carry: str = "document"
    softmax: str = "sampled"
    sampler: str = "frequency"
    n_samples: int = 2048
    threads: bool = True
    eval_tokens: int = 20_000

    def total_tokens(self, corpus: Corpus) -> int:
        return max(1, round(self.epochs * corpus.n_tokens)) if self.epochs else self.tokens
