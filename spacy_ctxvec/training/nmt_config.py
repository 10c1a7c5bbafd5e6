"""The settings of a translation model's training, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .training_config import Ranges, TrainingConfig

HALVING = "halving"


@dataclass(frozen=True)
class NMTTrainingConfig(TrainingConfig):
    """How long, how fast, and how; see also `TrainingConfig`. An evaluation follows each epoch.

    schedule: also "halving", that of McCann et al.: the learning rate is halved in each epoch
        after the held-out perplexity has risen for the first time, and the run ends below
        `least_rate`
    batch_pairs: pairs of a step
    label_smoothing: share of a prediction's target that is spread over all words
    beam: width of the search that evaluations translate with; 1 is greedy
    max_length: words of a translation at most, or pieces of words
    """

    CHOICES: ClassVar[dict[str, tuple[str, ...]]] = {
        **TrainingConfig.CHOICES,
        "schedule": (*TrainingConfig.CHOICES["schedule"], HALVING),
    }
    RANGES: ClassVar[Ranges] = {
        **TrainingConfig.RANGES,
        "batch_pairs beam max_length": (lambda value: value >= 1, "1 or more"),
        "label_smoothing": (lambda value: 0 <= value < 1, "0 or more, below 1"),
        "least_rate": (lambda value: value >= 0, "0 or more"),
        "epochs": (lambda value: value > 0, "above 0"),
    }

    epochs: float = 15.0
    batch_pairs: int = 64
    learn_rate: float = 1e-3
    schedule: str = "linear"
    warmup: float = 0.02
    beta2: float = 0.98
    dropout: float = 0.3
    label_smoothing: float = 0.1
    least_rate: float = 0.0
    evaluate_every: int = 0
    beam: int = 1
    max_length: int = 100
