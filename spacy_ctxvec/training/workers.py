"""The processes that train one model together, started by `torchrun`; usually there is one.

Every process reads its own rows of each step and keeps the whole model; DistributedDataParallel
averages the gradients.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import distributed


@dataclass(frozen=True)
class Workers:
    """This process among all of them, and what they tell each other."""

    rank: int = 0
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def is_first(self) -> bool:
        """Whether this is the one that evaluates, reports and writes files."""
        return self.rank == 0

    def wait(self) -> None:
        """Until all processes have come this far."""
        self.largest([0])

    def total(self, number: int) -> int:
        """Sum of a number over all processes."""
        return int(self._reduced([number], distributed.ReduceOp.SUM)[0])

    def mean(self, number: float) -> float:
        """Mean of a number over all processes."""
        return self._reduced([number], distributed.ReduceOp.SUM)[0] / self.size

    def largest(self, numbers: Sequence[float]) -> list[float]:
        """Greatest value of each number among all processes, so that they go on as one."""
        return self._reduced(numbers, distributed.ReduceOp.MAX)

    def gathered(self, value: Any) -> list[Any]:
        """The plain values and tensors of all processes, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        distributed.all_gather_object(values, value)
        return values

    def _reduced(self, numbers: Sequence[float], operation: Any) -> list[float]:
        if self.size == 1:
            return list(numbers)
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(tensor, operation)
        return tensor.tolist()


@contextmanager
def joined_workers(gpu_id: int = -1) -> Iterator[Workers]:
    """Join the processes that `torchrun` started, if it did; the device is GPU `gpu_id`, or the
    CPU for -1. With several processes on GPUs, each takes the one of its local rank."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield Workers(device=_device(gpu_id))
        return
    device = _device(gpu_id if gpu_id < 0 else int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    try:
        yield Workers(distributed.get_rank(), size, device)
    finally:
        distributed.destroy_process_group()


def _device(gpu_id: int) -> torch.device:
    if gpu_id < 0:
        return torch.device("cpu")
    device = torch.device("cuda", gpu_id)
    torch.cuda.set_device(device)
    return device
