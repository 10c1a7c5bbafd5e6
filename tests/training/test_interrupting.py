"""Requests to stop: noted, handed back, and a second one obeyed at once."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from spacy_ctxvec.training.interrupting import StopRequests

NUMBERS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_is_noted_and_handlers_are_put_back(number):
    before = [signal.getsignal(each) for each in NUMBERS]
    with StopRequests() as stop:
        assert not stop.requested
        os.kill(os.getpid(), number)
        assert stop.requested
    assert [signal.getsignal(each) for each in NUMBERS] == before


@pytest.mark.parametrize("first", NUMBERS)
def test_an_interrupt_after_a_request_stops_at_once(first):
    before = [signal.getsignal(each) for each in NUMBERS]
    with pytest.raises(KeyboardInterrupt), StopRequests() as stop:
        os.kill(os.getpid(), first)
        assert stop.requested
        os.kill(os.getpid(), signal.SIGINT)
    assert [signal.getsignal(each) for each in NUMBERS] == before


def test_terminating_twice_is_terminating_once():
    with StopRequests() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested


def test_nothing_changes_in_other_threads():
    found = []

    def run() -> None:
        with StopRequests() as stop:
            found.append((signal.getsignal(signal.SIGTERM), stop.requested))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [(before, False)]
