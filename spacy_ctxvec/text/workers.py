"""Chunks of documents through tokenisers in other processes: in order, with flat memory."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, TypeAlias

from .. import errors
from .lines import Problems
from .sources import Document
from .tokenizing import ChunkTokenizer, Tokenized

# Documents, and what was wrong in the files while they were read.
Chunk: TypeAlias = "tuple[list[Document], Problems]"
CHUNKS_AHEAD = 3  # for each process: one at work, and two that wait

_tokenizer: ChunkTokenizer | None = None  # a worker's own


def tokenized_chunks(
    chunks: Iterable[Chunk], make: Callable[[], ChunkTokenizer], n_process: int
) -> Generator[tuple[Tokenized, Problems], None, None]:
    """Tokenise each chunk; the results come in the chunks' order, whatever `n_process` is.

    n_process -1 is one for each core. `make` has to be picklable. Whatever fails, here or in a
    worker, raises CtxvecError; what fails while chunks are read does so after the results of the
    chunks before.
    """
    tokenizer = make()  # in the parent as well, where a wrong setting tells what is wrong
    n_process = (os.cpu_count() or 1) if n_process == -1 else n_process
    if n_process <= 1:
        for documents, problems in chunks:
            yield _clear(tokenizer, documents), problems
        return
    pool = ProcessPoolExecutor(n_process, initializer=_start, initargs=(make,))
    try:
        pending: deque[tuple[Future[Tokenized], Problems]] = deque()
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
    pool: ProcessPoolExecutor, chunks: Iterable[Chunk]
) -> Iterator[tuple[Future[Tokenized], Problems]]:
    try:
        for documents, problems in chunks:
            yield _clear(pool.submit, _work, documents), problems
    except errors.CtxvecError as error:
        failed: Future[Tokenized] = Future()
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


def _start(make: Callable[[], ChunkTokenizer]) -> None:
    global _tokenizer
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _tokenizer = make()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for ever for its next chunk."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _work(documents: list[Document]) -> Tokenized:
    assert _tokenizer is not None
    return _tokenizer(documents)
