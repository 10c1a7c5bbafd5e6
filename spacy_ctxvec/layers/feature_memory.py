"""Layers of texts, kept in memory up to a bound."""

from __future__ import annotations

import logging

from .. import errors
from ..types import FloatArray
from .cache import ProcessLock

logger = logging.getLogger("spacy")
ENTRY_BYTES = 300  # of a text besides its rows: array, key, place in the dictionary


class FeatureMemory:
    """Rows by the hash of their text.

    When it is full, what is there stays and nothing is added. Training reads the same texts round
    and round: of a round that is longer than the cache, dropping the oldest would drop each text
    just before it is wanted, and this way a part of the round is served in every epoch.
    """

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._lock = ProcessLock()
        self._rows: dict[bytes, FloatArray] = {}
        self._is_full = False

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, key: bytes) -> FloatArray | None:
        return self._rows.get(key)

    def put(self, key: bytes, rows: FloatArray) -> bool:
        size = rows.nbytes + ENTRY_BYTES
        with self._lock:
            if key in self._rows:
                return True
            if self.n_bytes + size > self.max_bytes:
                self._say_once()
                return False
            self._rows[key] = rows
            self.n_bytes += size
            return True

    def _say_once(self) -> None:
        if not self._is_full:
            self._is_full = True
            message = errors.FEATURES_FULL.format(
                max_mb=self.max_bytes / 1e6, found=f"{len(self._rows):,} texts", advice=""
            )
            logger.warning(message)
