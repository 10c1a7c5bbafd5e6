"""Chunks through other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial

import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import workers
from spacy_ctxvec.text.lines import Problems
from spacy_ctxvec.text.tokenizing import ChunkTokenizer
from spacy_ctxvec.text.workers import tokenized_chunks

MAKE = partial(ChunkTokenizer, "xx", "paragraph", 99)


class Picky(ChunkTokenizer):
    """Cannot do with some words."""

    def __call__(self, documents):
        if documents == [["bad"]]:
            raise KeyError("something inside")
        if documents == [["killed"]]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(documents)


def chunks_of(words, told=None):
    for word in words:
        if told is not None:
            told.append(word)
        yield [[word]], Problems(empty_files=[word])


@pytest.mark.parametrize("n_process", [1, 2, -1])
def test_results_come_in_order_with_their_problems(n_process):
    words = [f"w{i}" for i in range(20)]
    results = list(tokenized_chunks(chunks_of(words), MAKE, n_process))
    assert [tokenized.words for tokenized, _ in results] == [[word] for word in words]
    assert [problems.empty_files for _, problems in results] == [[word] for word in words]


def test_no_more_than_a_few_chunks_are_read_ahead():
    told = []
    results = tokenized_chunks(chunks_of(map(str, range(1000)), told), MAKE, 2)
    next(results)
    assert len(told) <= 2 * workers.CHUNKS_AHEAD + 1
    results.close()


@pytest.mark.parametrize("n_process", [1, 2])
def test_what_fails_in_a_worker_is_told(n_process):
    make = partial(Picky, "xx", "paragraph", 99)
    results = tokenized_chunks(chunks_of(["a", "b", "bad", "c"]), make, n_process)
    assert next(results)[0].words == ["a"] and next(results)[0].words == ["b"]
    with pytest.raises(CtxvecError, match="Tokenising failed: KeyError: 'something inside'"):
        next(results)


PARENT = """
import os, time
from functools import partial
from spacy_ctxvec.text.tokenizing import ChunkTokenizer
from spacy_ctxvec.text.workers import tokenized_chunks
from spacy_ctxvec.text.lines import Problems

class Telling(ChunkTokenizer):
    def __call__(self, documents):
        print(os.getpid(), flush=True)
        return super().__call__(documents)

chunks = (([["text"]], Problems()) for _ in range(8))
next(tokenized_chunks(chunks, partial(Telling, "xx", "paragraph", 99), 2))
time.sleep(60)
"""


def test_workers_end_when_their_parent_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout
        first = parent.stdout.readline()
        parent.kill()
        assert first and parent.stdout.read() is not None  # ends when the last worker has ended


def test_a_worker_that_is_killed_is_told():
    make = partial(Picky, "xx", "paragraph", 99)
    with pytest.raises(CtxvecError, match="memory ran out: use fewer processes"):
        list(tokenized_chunks(chunks_of(["a", "killed", "b"]), make, 2))


@pytest.mark.parametrize("n_process", [1, 2])
def test_what_fails_in_reading_comes_after_what_was_read(n_process):
    def chunks():
        yield from chunks_of(["a", "b"])
        raise CtxvecError("a bad file")

    results = tokenized_chunks(chunks(), MAKE, n_process)
    assert next(results)[0].words == ["a"] and next(results)[0].words == ["b"]
    with pytest.raises(CtxvecError, match="a bad file"):
        next(results)


@pytest.mark.parametrize("n_process", [1, 2])
def test_settings_that_cannot_work_are_told(n_process):
    make = partial(ChunkTokenizer, "qq", "paragraph", 99)
    with pytest.raises(CtxvecError, match='lang = "qq"'):
        list(tokenized_chunks(chunks_of(["a"]), make, n_process))
