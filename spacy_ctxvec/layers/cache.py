"""Token-layer vectors of the words seen last, so that the character CNN runs once a word type."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..nn.placing import placed_on
from ..types import IntArray


class ProcessLock:
    """A lock of each process. After a fork, one that another thread of the parent was holding
    would never be released."""

    def __init__(self) -> None:
        self._locks: dict[int, Any] = {}

    def __enter__(self) -> None:
        self._locks.setdefault(os.getpid(), threading.RLock()).acquire()

    def __exit__(self, *exception: object) -> None:
        self._locks[os.getpid()].release()

    def __getstate__(self) -> dict[str, Any]:
        return {"_locks": {}}


class WordVectorCache:
    """Rows of a table, by the hash of their word; the older half goes when they are too many.

    Exact: a row is what one token encoder computes for the word's spelling. One lock serves all
    threads.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.hits = 0
        self.misses = 0
        self._lock = ProcessLock()
        self.clear()

    def clear(self) -> None:
        with self._lock:
            self._row_of: dict[int, int] = {}
            self._table = torch.zeros(0, 0)
            self._keys = np.zeros(0, dtype=np.uint64)
            self._used_at = np.zeros(0, dtype=np.int64)
            self._tick = 0
            self._pid = os.getpid()

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def hit_rate(self) -> float:
        """Share of distinct words per batch that were already known, since the process started."""
        return self.hits / max(1, self.hits + self.misses)

    def vectors(self, keys: NDArray[np.uint64], compute: Callable[[IntArray], Tensor]) -> Tensor:
        """Vectors (n, width) of distinct words; `compute` gets the positions of unknown ones."""
        if len(keys) > self.capacity // 2:  # more than the cache could keep: leave it alone
            return compute(np.arange(len(keys)))
        with self._lock:
            if self._pid != os.getpid():  # another thread may have been at work during the fork
                self.clear()
            if len(self._row_of) + len(keys) > self.capacity:
                self._drop_older_half()
            rows = np.array([self._row_of.get(key, -1) for key in keys.tolist()], dtype=np.int64)
            missing = np.flatnonzero(rows < 0)
            self.hits += len(keys) - len(missing)
            self.misses += len(missing)
            if len(missing):
                rows[missing] = self._insert(keys[missing], compute(missing))
            self._tick += 1
            self._used_at[rows] = self._tick
            return self._table[placed_on(rows, self._table.device)]

    def _insert(self, keys: NDArray[np.uint64], new: Tensor) -> IntArray:
        n_used = len(self._row_of)
        rows = np.arange(n_used, n_used + len(keys))
        if len(self._table) < n_used + len(keys):
            self._resize(np.arange(n_used), max(1024, 2 * (n_used + len(keys))), new)
        self._table[n_used : n_used + len(keys)] = new
        self._keys[rows] = keys
        self._row_of.update(zip(keys.tolist(), rows.tolist()))
        return rows

    def _drop_older_half(self) -> None:
        n_used = len(self._row_of)
        newer = np.argsort(self._used_at[:n_used], kind="stable")[n_used // 2 :]
        self._resize(newer, len(self._table), self._table)
        self._row_of = {key: row for row, key in enumerate(self._keys[: len(newer)].tolist())}

    def _resize(self, kept: IntArray, n_rows: int, like: Tensor) -> None:
        """A table of `n_rows` that begins with the rows `kept`; width and device of `like`."""
        table = like.new_empty(n_rows, like.shape[1])
        keys = np.zeros(n_rows, dtype=np.uint64)
        used_at = np.zeros(n_rows, dtype=np.int64)
        n_kept = len(kept)
        if n_kept:
            table[:n_kept] = self._table[placed_on(kept, self._table.device)]
        keys[:n_kept], used_at[:n_kept] = self._keys[kept], self._used_at[kept]
        self._table, self._keys, self._used_at = table, keys, used_at
