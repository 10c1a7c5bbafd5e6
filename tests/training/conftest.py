"""A small corpus and trainers over it, which the tests of training share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from spacy_ctxvec.nn.bilm import BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training.lm import LMTrainer
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.pretrain import new_bilm

CONFIG = LMTrainingConfig(
    tokens=10**6, batch_tokens=60, unroll=6, n_samples=20, seed=3, threads=False,
    precision="float32",
)  # fmt: skip
N_WORDS = 25


@pytest.fixture(scope="session")
def corpus() -> Corpus:
    """120 pieces of 1 to 20 of 40 words."""
    random = np.random.default_rng(0)
    names = [f"w{i}" for i in range(40)]
    lengths = random.integers(1, 20, size=120)
    return Corpus.in_memory([random.choice(names, size=n).tolist() for n in lengths])


@pytest.fixture(params=["tiny", "tiny_plain"])
def sizes(request: pytest.FixtureRequest) -> BiLMConfig:
    return request.getfixturevalue(f"{request.param}_config")


Make = Callable[..., LMTrainer]


@pytest.fixture
def make(corpus: Corpus, tiny_plain_config: BiLMConfig) -> Make:
    """`make(sizes, **settings)`: a new trainer, always of the same weights.

    The same bits need the same number of threads, so there is one, as in `LMTrainer.train`.
    """
    torch.set_num_threads(1)

    def make_trainer(
        sizes: BiLMConfig = tiny_plain_config,
        text: Corpus = corpus,
        n_words: int = N_WORDS,
        **settings: Any,
    ) -> LMTrainer:
        torch.manual_seed(5)
        n_words = min(n_words, len(text.types))
        softmax = WordSoftmax(input_width=sizes.token_width, width=4, n_words=n_words)
        return LMTrainer(new_bilm(sizes, text), softmax, text, replace(CONFIG, **settings))

    return make_trainer


@pytest.fixture(scope="session")
def take_steps() -> Callable[[LMTrainer, int], list[float]]:
    """`take_steps(trainer, n)`: the losses of the next n steps."""

    def losses(trainer: LMTrainer, n: int) -> list[float]:
        portions = trainer.portions(trainer.position)
        return [trainer.train_step(*next(portions)) for _ in range(n)]

    return losses


@pytest.fixture(scope="session")
def everything() -> Callable[[LMTrainer], list[torch.Tensor]]:
    """`everything(trainer)`: its weights and moments and the carried state, copied."""

    def tensors(trainer: LMTrainer) -> list[torch.Tensor]:
        moments = trainer.optimizer.state_dict()["state"].values()
        carried = trainer.model.state.state_dict() if trainer.model.state else {}
        found = [
            *trainer.model.state_dict().values(),
            *trainer.softmax.state_dict().values(),
            *(tensor for state in moments for tensor in state.values()),
            *(tensor for key in sorted(carried) for tensor in carried[key]),
        ]
        return [tensor.clone() for tensor in found]

    return tensors
