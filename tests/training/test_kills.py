"""Training that is killed again and again ends with the bits of one that never was."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from spacy_ctxvec.formats.native import WEIGHTS_FILE
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training import checkpoint as checkpoints
from spacy_ctxvec.training.checkpoint import load_checkpoint
from spacy_ctxvec.training.lm import LMTrainer
from spacy_ctxvec.training.lm_config import LMTrainingConfig

N_KILLS = 20
LONG, SHORT = 4500, 200  # tokens: about 140 steps, and 6
CONFIG = LMTrainingConfig(
    batch_tokens=40, unroll=5, carry="stream", n_samples=10, dropout=0.1,
    precision="float32", threads=False, evaluate_every=1, checkpoint_seconds=0.0,
)  # fmt: skip
SIZES = BiLMConfig(width=8, hidden_width=4, char_width=2, filters=((1, 3), (2, 3)), n_layers=1)


def train(
    path: Path, tokens: int, report: Callable[[dict[str, Any]], None] = lambda record: None
) -> None:
    """Start or continue a training, with a checkpoint after every step."""
    numbers = np.random.default_rng(0)
    names = [f"w{i}" for i in range(30)]
    pieces = [numbers.choice(names, size=n).tolist() for n in numbers.integers(1, 15, size=80)]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    softmax = WordSoftmax(input_width=SIZES.token_width, width=4, n_words=20)
    trainer = LMTrainer(
        BiLM(SIZES), softmax, Corpus.in_memory(pieces), replace(CONFIG, tokens=tokens)
    )
    if path.exists():
        trainer.resume(path)
    assert trainer.train(checkpoint=path, evaluate=dict, report=report)


def train_aloud(path: Path, tokens: int, steps: Any) -> None:
    """The same, with the number of each step sent through a pipe."""
    train(path, tokens, lambda record: steps.send(record["step"]))


def train_to_death(path: Path, tokens: int, call: str, when: str) -> None:
    """The same, killed at its third checkpoint, before or after the call of a function."""
    owner = checkpoints.torch if call == "save" else checkpoints.os
    original, calls = getattr(owner, call), iter(range(99))

    def deadly(*arguments: Any) -> Any:
        if next(calls) < 2:
            return original(*arguments)
        if when == "after":
            original(*arguments)
        elif call == "save":
            arguments[1].write(b"half of it")
            arguments[1].flush()
        os.kill(os.getpid(), signal.SIGKILL)

    with patch.object(owner, call, deadly):
        train(path, tokens)


@pytest.fixture(scope="module")
def processes() -> Any:
    """Processes that are forked from one that has loaded everything and done nothing."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        pytest.skip("this system does not fork")
    context = multiprocessing.get_context("forkserver")
    loaded = ["pytest", "spacy_ctxvec.formats.native", LMTrainer.__module__, "torch._dynamo"]
    context.set_forkserver_preload(loaded)  # PyTorch itself loads the last one at the first step
    return context


def finish(processes: Any, path: Path, tokens: int) -> dict[str, Any]:
    """The checkpoint that a run to the end leaves behind."""
    run = processes.Process(target=train, args=(path, tokens))
    run.start()
    run.join()
    assert run.exitcode == 0
    return load_checkpoint(path)


def assert_same(found: dict[str, Any], straight: dict[str, Any]) -> None:
    assert (found["step"], found["position"]) == (straight["step"], straight["position"])
    for part in ("model", "softmax"):
        assert all(torch.equal(x, straight[part][key]) for key, x in found[part].items())
    for number, moments in found["optimizer"]["state"].items():
        for key, x in moments.items():
            assert torch.equal(x, straight["optimizer"]["state"][number][key])


def test_twenty_kills_at_random_moments_change_no_bit(processes, tmp_path):
    """Each some steps after a resume, at any moment of a step or of writing its checkpoint."""
    straight = finish(processes, tmp_path / "straight.pt", LONG)
    path = tmp_path / "checkpoint.pt"
    moments, begun = random.Random(1), []
    for _ in range(N_KILLS):
        steps, sent = processes.Pipe(duplex=False)
        run = processes.Process(target=train_aloud, args=(path, LONG, sent))
        run.start()
        sent.close()
        begun.append(steps.recv())
        for _ in range(moments.randrange(5)):
            steps.recv()
        time.sleep(moments.uniform(0, 0.02))
        run.kill()
        run.join()
        assert run.exitcode == -signal.SIGKILL
    assert begun[0] == 1 and begun == sorted(begun) and N_KILLS < begun[-1] < straight["step"]
    assert_same(finish(processes, path, LONG), straight)


@pytest.fixture(scope="module")
def short(processes: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a short run that is never killed ends with."""
    return finish(processes, tmp_path_factory.mktemp("short") / "checkpoint.pt", SHORT)


@pytest.mark.parametrize(
    ("call", "when", "step"),
    [
        ("save", "before", 2),
        ("save", "after", 2),
        ("fsync", "after", 2),
        ("replace", "before", 2),
        ("replace", "after", 3),
    ],
)
def test_a_kill_at_each_moment_of_writing(processes, short, tmp_path, call, when, step):
    path = tmp_path / "checkpoint.pt"
    run = processes.Process(target=train_to_death, args=(path, SHORT, call, when))
    run.start()
    run.join()
    assert run.exitcode == -signal.SIGKILL
    assert load_checkpoint(path)["step"] == step
    assert_same(finish(processes, path, SHORT), short)


SETTINGS = """
[pretrain]
name = "toy"
lang = "en"
train = ["train.txt"]
heldout = ["held.txt"]
n_words = 30
softmax_width = 6
licence = "CC0"
sources = []

[pretrain.model]
width = 16
hidden_width = 8
filters = [[1,4],[2,4]]
char_width = 4

[pretrain.training]
tokens = 40000
batch_tokens = 64
n_samples = 10
dropout = 0.1
evaluate_every = 20
checkpoint_seconds = 0.0
"""


@pytest.mark.slow
def test_the_command_line_killed_twenty_times_writes_the_same_model(tmp_path):
    """From the start of the program on, so that building the corpora is hit as well."""
    numbers = np.random.default_rng(0)
    words = [f"word{i}" for i in range(60)]
    for name, n in (("train", 2000), ("held", 20)):
        lines = [" ".join(numbers.choice(words, size=12)) for _ in range(n)]
        (tmp_path / f"{name}.txt").write_text("\n".join(lines), "utf8")
    (tmp_path / "toy.cfg").write_text(SETTINGS, "utf8")

    def start(work: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "spacy", "ctxvec", "pretrain", str(tmp_path / "toy.cfg")]
        arguments = [str(tmp_path / work), "--text", str(tmp_path)]
        return subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL)

    def training_begun(work: str) -> float:
        """When the run in that folder has written a checkpoint of its own."""
        path = tmp_path / work / "checkpoint.pt"
        before = path.stat().st_mtime_ns if path.exists() else 0
        while not path.exists() or path.stat().st_mtime_ns == before:
            time.sleep(0.005)
        return time.monotonic()

    began, straight = time.monotonic(), start("straight")
    loaded = training_begun("straight")
    assert straight.wait() == 0
    to_load, to_train = loaded - began, time.monotonic() - loaded
    moments, steps = random.Random(1), []
    for number in range(N_KILLS):
        run = start("killed")
        if number < 5:
            time.sleep(moments.uniform(0, to_load))
        else:
            training_begun("killed")
            time.sleep(moments.uniform(0, to_train / N_KILLS))
        run.kill()
        assert run.wait() == -signal.SIGKILL
        path = tmp_path / "killed" / "checkpoint.pt"
        steps.append(load_checkpoint(path)["step"] if path.exists() else 0)
    assert steps == sorted(steps) and len({*steps}) > 10
    assert start("killed").wait() == 0
    models = [tmp_path / work / "model" / WEIGHTS_FILE for work in ("straight", "killed")]
    assert models[0].read_bytes() == models[1].read_bytes()
