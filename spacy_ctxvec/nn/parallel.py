"""Two functions at the same time, each on one core: the two directions of a biLM.

On a CPU this comes nearer to the machine's limit than two threads inside each matrix product,
since the products of one LSTM step are small and every one of them would wait for both threads.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

First = TypeVar("First")
Second = TypeVar("Second")

_pools: dict[int, ThreadPoolExecutor] = {}
_settled: set[int] = set()
_forked = False


def run_both(
    first: Callable[[], First], second: Callable[[], Second], *, threads: bool
) -> tuple[First, Second]:
    """`(first(), second())`; with `threads`, at the same time.

    Gradient recording is per thread in PyTorch, so the caller's setting is handed on. The number
    of threads inside each product is one meanwhile and is put back afterwards.
    """
    if not threads:
        return first(), second()
    n_threads = torch.get_num_threads()
    future = _pool().submit(_with_grad_mode, second, torch.is_grad_enabled())
    torch.set_num_threads(1)
    try:
        return first(), future.result()
    finally:
        future.exception()  # the second must have ended, even where the first failed
        torch.set_num_threads(n_threads)


def settle_threads() -> None:
    """In a child process, one thread in all: those of the parent do not exist after a fork.

    PyTorch would wait for them for ever. Workers of `nlp.pipe(n_process=...)`, of process pools
    and of task queues are all such children.
    """
    if os.getpid() not in _settled and in_child_process():
        torch.set_num_threads(1)
    _settled.add(os.getpid())


def in_child_process() -> bool:
    return _forked or multiprocessing.parent_process() is not None


def _mark_forked() -> None:
    global _forked
    _forked = True


def _pool() -> ThreadPoolExecutor:
    """The worker of this process; one inherited through a fork would have no thread behind it."""
    pid = os.getpid()
    if pid not in _pools:
        before = torch.get_num_threads()
        _pools[pid] = ThreadPoolExecutor(
            os.cpu_count(), "ctxvec", initializer=torch.set_num_threads, initargs=(1,)
        )
        torch.set_num_threads(before)
    return _pools[pid]


def _with_grad_mode(function: Callable[[], Second], enabled: bool) -> Second:
    with torch.set_grad_enabled(enabled):
        return function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
