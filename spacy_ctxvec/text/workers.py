"""Chunks of texts through tokenisers in other processes: in order, with flat memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeVar

from .. import errors
from .lines import Problems

Text = TypeVar("Text")  # a document, or a pair of sentences
Result = TypeVar("Result")
CHUNKS_AHEAD = 3  # for each process: one at work, and two that wait

_tokenizer: Callable[[Any], Any] | None = None  # a worker's own


def tokenized_chunks(
    chunks: Iterable[tuple[list[Text], Problems]],
    make: Callable[[], Callable[[list[Text]], Result]],
    n_process: int,
) -> Generator[tuple[Result, Problems], None, None]:
    """Tokenise each chunk; the results come in the chunks' order, whatever `n_process` is.

    A chunk is some texts, and what was wrong in the files while they were read; that is handed on.
    n_process -1 is one for each core. `make` has to be picklable. Whatever fails, here or in a
    worker, raises CtxvecError; what fails while chunks are read does so after the results of the
    chunks before.
    """
    tokenizer = make()  # in the parent as well, where a wrong setting tells what is wrong
    n_process = (os.cpu_count() or 1) if n_process == -1 else n_process
    if n_process <= 1:
        for texts, problems in chunks:
            yield _clear(tokenizer, texts), problems
        return
    pool = ProcessPoolExecutor(n_process, initializer=_start, initargs=(make,))
    try:
        pending: deque[tuple[Future[Result], Problems]] = deque()
        for submitted in _submitted(pool, chunks):
            pending.append(submitted)
            if len(pending) >= CHUNKS_AHEAD * n_process:
                future, problems = pending.popleft()
                yield _clear(future.result), problems
        for future, problems in pending:
            yield _clear(future.result), problems
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(
    pool: ProcessPoolExecutor, chunks: Iterable[tuple[list[Text], Problems]]
) -> Iterator[tuple[Future[Any], Problems]]:
    try:
        for texts, problems in chunks:
            yield _clear(pool.submit, _work, texts), problems
    except errors.CtxvecError as error:
        failed: Future[Any] = Future()
        failed.set_exception(error)
        yield failed, Problems()


def _clear(function: Callable[..., Any], *args: Any) -> Any:
    """Call `function`; whatever it raises is raised as a CtxvecError."""
    try:
        return function(*args)
    except errors.CtxvecError:
        raise
    except Exception as error:
        message = errors.WORKER_FAILED.format(error=f"{type(error).__name__}: {error}")
        raise errors.CtxvecError(message) from error


def _start(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _tokenizer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _tokenizer = make()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever for its next chunk."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(texts: list[Any]) -> Any:
    assert _tokenizer is not None
    return _tokenizer(texts)
