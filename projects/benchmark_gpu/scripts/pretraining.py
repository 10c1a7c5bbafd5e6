"""Steps of the training of a language model, as `spacy ctxvec pretrain` makes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import neighbours  # noqa: F401
import numpy as np
import torch

# isort: split
from group import Group, dtypes_on, lstm_passes
from train_speed import made_up_corpus

from spacy_ctxvec.analysis.benchmark import Pass
from spacy_ctxvec.nn.parallel import one_thread
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training.batches import Batch
from spacy_ctxvec.training.config import read_pretrain_config
from spacy_ctxvec.training.lm import LMTrainer
from spacy_ctxvec.training.pretrain import PretrainConfig, build_trainer
from spacy_ctxvec.training.workers import Workers

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SENTENCE = 20
"""Words of each sentence of the made-up text."""


def pretraining(recipe: str, n_words: int, device: torch.device) -> Group:
    """The sizes and the recipe of configs/pretrain_RECIPE.cfg, over a made-up text.

    n_words: about so many are read in a pass, in whole steps
    """
    config = read_pretrain_config(CONFIGS / f"pretrain_{recipe}.cfg", Path())
    config = replace(config, training=small_enough(config, n_words))
    corpus = made_up_corpus(20 * n_words)
    trainers = {
        f"pretraining, {name}": trainer_of(config, corpus, name, device)
        for name in dtypes_on(device)
    }
    first = next(iter(trainers.values()))
    n_steps = max(1, n_words // config.training.batch_tokens)
    n_tokens = tokens_of(first, n_steps)
    # A direction takes a step for each word and one for a mark, where a `module` frames two.
    lengths = np.full(n_tokens // SENTENCE, SENTENCE - 1)
    batch_size = config.training.batch_tokens // SENTENCE
    passes = lstm_passes(first.model, lengths, batch_size, backward=True)
    passes |= {name: steps_of(trainer, n_steps) for name, trainer in trainers.items()}
    return Group(passes, n_tokens, batch_size)


def small_enough(config: PretrainConfig, n_words: int):
    return replace(config.training, batch_tokens=min(config.training.batch_tokens, n_words))


def trainer_of(
    config: PretrainConfig, corpus: Corpus, precision: str, device: torch.device
) -> LMTrainer:
    training = replace(config.training, precision=precision)
    return build_trainer(replace(config, training=training), corpus, Workers(device=device))


def tokens_of(trainer: LMTrainer, n_steps: int) -> int:
    """Tokens of the first steps."""
    steps = islice(trainer.portions(trainer.position), n_steps)
    types = trainer.corpus.types
    return sum(Batch(types, *group.read(number)).n_tokens for (group, number), _ in steps)


def steps_of(trainer: LMTrainer, n_steps: int) -> Pass:
    """The first steps, every time the same ones."""
    steps = list(islice(trainer.portions(trainer.position), n_steps))

    def run() -> None:
        with one_thread():  # as `Trainer.train` does
            for portion, after in steps:
                trainer.train_step(portion, after)

    return run
