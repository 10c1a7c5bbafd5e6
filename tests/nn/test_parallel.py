"""Two functions at the same time: what is handed on, what is put back."""

from __future__ import annotations

import multiprocessing
import threading
import time

import pytest
import torch

from spacy_ctxvec.nn.parallel import run_all


@pytest.fixture(params=[False, True], ids=["one after the other", "threads"])
def threads(request) -> bool:
    return request.param


@pytest.mark.parametrize("enabled", [False, True])
def test_grad_mode_is_handed_on(threads, enabled):
    with torch.set_grad_enabled(enabled):
        assert run_all([torch.is_grad_enabled, torch.is_grad_enabled], threads=threads) == [
            enabled,
            enabled,
        ]
    assert torch.is_grad_enabled()


def test_both_run_at_the_same_time():
    barrier = threading.Barrier(2, timeout=10)
    assert sorted(run_all([barrier.wait, barrier.wait], threads=True)) == [0, 1]


def test_the_number_of_threads_is_put_back(threads):
    torch.set_num_threads(2)
    try:
        inside = run_all([torch.get_num_threads, torch.get_num_threads], threads=threads)
        assert inside == ([1, 1] if threads else [2, 2])
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def fail() -> None:
    raise KeyError("first")


def test_exceptions_come_out_of_either(threads):
    torch.set_num_threads(2)
    try:
        for pair in ((fail, time.time), (time.time, fail)):
            with pytest.raises(KeyError, match="first"):
                run_all(pair, threads=threads)
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_the_second_has_ended_where_the_first_failed():
    ended = []

    def second() -> None:
        time.sleep(0.05)
        ended.append(True)

    with pytest.raises(KeyError):
        run_all([fail, second], threads=True)
    assert ended


def in_child(queue) -> None:
    queue.put(run_all([lambda: 1, lambda: torch.ones(2).sum().item()], threads=True))


def test_works_in_a_child_after_a_fork():
    run_all([lambda: 1, lambda: 2], threads=True)  # the parent's pool exists
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    try:
        assert queue.get(timeout=20) == [1, 2.0]
        child.join(20)
        assert child.exitcode == 0
    finally:
        child.kill()
