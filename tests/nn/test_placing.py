"""Inputs on their way to the device: the same numbers, and on a GPU nobody waits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from spacy_ctxvec.nn.placing import placed_on

CPU = torch.device("cpu")


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool"])
def test_an_array_becomes_an_equal_tensor_on_its_own_memory(dtype: str) -> None:
    values = np.arange(6).reshape(2, 3).astype(dtype)
    found = placed_on(values, CPU)
    assert found.tolist() == values.tolist() and found.dtype == getattr(torch, dtype)
    assert found.data_ptr() == values.ctypes.data


def test_a_tensor_that_is_there_is_left_alone() -> None:
    tensor = torch.randn(3)
    assert placed_on(tensor, CPU) is tensor


def test_other_devices() -> None:
    found = placed_on(np.zeros((2, 3)), torch.device("meta"))
    assert found.device.type == "meta" and found.shape == (2, 3)


def test_a_gpu_is_sent_page_locked_memory_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[Any] = []

    def pin_memory(tensor: Tensor) -> Tensor:
        done.append("pinned")
        return tensor

    def to(tensor: Tensor, device: torch.device, **how: Any) -> Tensor:
        done.append((device.type, how))
        return tensor

    monkeypatch.setattr(Tensor, "pin_memory", pin_memory)
    monkeypatch.setattr(Tensor, "to", to)
    placed_on(np.zeros(3), torch.device("cuda"))
    assert done == ["pinned", ("cuda", {"non_blocking": True})]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_on_a_gpu() -> None:
    values = np.random.default_rng(0).random((1000, 3))
    found = placed_on(values, torch.device("cuda"))
    assert found.is_cuda and np.array_equal(found.cpu().numpy(), values)
