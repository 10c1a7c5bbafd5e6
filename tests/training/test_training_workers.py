"""Several processes that train together, against one that trains alone."""

from __future__ import annotations

import os
import socket
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.multiprocessing as mp

from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training.lm import LMTrainer
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.workers import joined_workers

CONFIG = LMTrainingConfig(
    tokens=10**6, batch_tokens=80, unroll=6, n_samples=20, threads=False, precision="float32"
)
SIZES = BiLMConfig(width=12, hidden_width=6, char_width=4, filters=((1, 4), (2, 4)))


def corpus() -> Corpus:
    random = np.random.default_rng(0)
    names = [f"w{i}" for i in range(40)]
    lengths = random.integers(1, 20, size=120)
    return Corpus.in_memory([random.choice(names, size=n).tolist() for n in lengths])


def train(n_steps: int, config: LMTrainingConfig, sizes: BiLMConfig) -> LMTrainer:
    torch.set_num_threads(1)
    with joined_workers() as workers:
        torch.manual_seed(5)
        softmax = WordSoftmax(input_width=sizes.token_width, width=4, n_words=25)
        trainer = LMTrainer(BiLM(sizes), softmax, corpus(), config, workers)
        portions = trainer.portions(trainer.position)
        for _ in range(n_steps):
            trainer.train_step(*next(portions))
        return trainer


def weights(trainer: LMTrainer) -> list[torch.Tensor]:
    return [*trainer.model.state_dict().values(), *trainer.softmax.state_dict().values()]


def work(rank: int, port: int, n_steps: int, config, sizes, path) -> None:
    os.environ.update(
        WORLD_SIZE="2", RANK=str(rank), LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
    )  # fmt: skip
    trainer = train(n_steps, config, sizes)
    torch.save((trainer.tokens, weights(trainer)), f"{path}/{rank}.pt")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize(
    "config",
    [CONFIG, replace(CONFIG, carry="stream"), replace(CONFIG, softmax="full", batch_tokens=12)],
    ids=["documents", "streams", "full softmax, few rows"],
)
def test_two_processes_make_the_same_steps_as_one(tmp_path, config):
    mp.spawn(work, (free_port(), 20, config, SIZES, tmp_path), nprocs=2)
    alone = train(20, config, SIZES)
    for rank in (0, 1):
        tokens, together = torch.load(tmp_path / f"{rank}.pt")
        assert tokens == alone.tokens
        for mine, other in zip(weights(alone), together):
            assert (mine - other).abs().max() < 1e-5
