"""Systems that take turns, and the library's LSTM that they are compared with."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
import torch

from spacy_ctxvec.analysis.benchmark import CPU, seconds_in_turns, taking_turns, timed
from spacy_ctxvec.analysis.products import library_pass
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig


def test_turns_after_a_warm_up() -> None:
    done: list[str] = []
    passes = {"a": lambda: done.append("a"), "b": lambda: done.append("b")}
    seconds = seconds_in_turns(passes, rounds=2)
    assert done == list("ababab") and all(len(of_one) == 2 for of_one in seconds.values())


def test_rounds_that_there_is_time_for() -> None:
    passes = {"slow": lambda: time.sleep(0.03)}
    assert len(seconds_in_turns(passes, 5, CPU, within=0.0)["slow"]) == 1
    assert 1 < len(seconds_in_turns(passes, 50, CPU, within=0.3)["slow"]) < 11
    assert len(seconds_in_turns(passes, 3, CPU, within=math.inf)["slow"]) == 3


def test_speeds() -> None:
    (speed,) = taking_turns({"a": lambda: time.sleep(0.001)}, n_words=10, rounds=3).values()
    assert 0 < speed["least"] <= speed["median"] <= speed["most"] < 10_000


def test_a_gpu_is_waited_for_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: done.append(str(device)))
    timed(lambda: done.append("pass"), torch.device("cuda:0"))
    assert done == ["cuda:0", "pass", "cuda:0"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_librarys_lstm_there_and_back(
    tiny_config: BiLMConfig, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two stacks of two projected layers, five weights each; and the inputs."""
    asked: list[list[torch.Tensor]] = []
    grad = torch.autograd.grad

    def noting(outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> object:
        asked.append(inputs)
        return grad(outputs, inputs)

    monkeypatch.setattr(torch.autograd, "grad", noting)
    module, lengths = BiLM(tiny_config), np.array([3, 1, 2])
    library_pass(module, lengths, 2, dtype=dtype)()
    assert not asked
    library_pass(module, lengths, 2, backward=True, dtype=dtype)()
    assert [len(inputs[0]) for inputs in asked] == [4 + 4, 2 + 2]
    assert all(len(inputs) == 1 + 2 * 2 * 5 for inputs in asked)
    assert all(tensor.dtype == dtype for inputs in asked for tensor in inputs)
