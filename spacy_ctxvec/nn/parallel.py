"""Two functions at the same time, each on one core: the two directions of a biLM.

On a CPU this comes nearer to the machine's limit than two threads inside each matrix product,
since the products of one LSTM step are small and every one of them would wait for both threads.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch

Result = TypeVar("Result")

_pools: dict[int, ThreadPoolExecutor] = {}
_settled: set[int] = set()
_forked = False
_lock = threading.Lock()


def run_all(functions: Sequence[Callable[[], Result]], *, threads: bool) -> list[Result]:
    """What each of one or two functions returns; with `threads`, they run at the same time.

    Gradient recording is per thread in PyTorch, so the caller's setting is handed on.
    """
    if not threads or len(functions) < 2:
        return [function() for function in functions]
    pool, grad = _pool(), torch.is_grad_enabled()
    running = [pool.submit(_with_grad_mode, function, grad) for function in functions]
    wait(running)  # all must have ended, even where one failed
    return [future.result() for future in running]


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread in each product within this context."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def can_share() -> bool:
    """Whether this thread may use a second one."""
    return torch.get_num_threads() > 1


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


def gpu_was_forked() -> bool:
    """Whether CUDA was in use before this process was forked: it cannot be used here then."""
    return torch.cuda._is_in_bad_fork()


def _mark_forked() -> None:
    global _forked, _lock
    _forked = True
    _lock = threading.Lock()  # another thread of the parent may have held it


def _pool() -> ThreadPoolExecutor:
    """The two workers of this process; inherited ones would have no threads after a fork.

    The number of threads inside a product is a setting of each thread, but setting it also sets
    what threads that start later begin with; so the workers start here and now, and the setting
    of the caller is put back after them.
    """
    pid = os.getpid()
    with _lock:
        if pid not in _pools:
            before = torch.get_num_threads()
            pool = ThreadPoolExecutor(2, "ctxvec", _one_thread)
            both_started = threading.Barrier(2)
            wait([pool.submit(both_started.wait) for _ in range(2)])
            torch.set_num_threads(before)
            _pools[pid] = pool
        return _pools[pid]


def _one_thread() -> None:
    """Set this thread to one thread in each product.

    A thread's first look at the setting takes over that of the process, so look before setting it.
    """
    torch.get_num_threads()
    torch.set_num_threads(1)


def _with_grad_mode(function: Callable[[], Result], enabled: bool) -> Result:
    with torch.set_grad_enabled(enabled):
        return function()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_mark_forked)
