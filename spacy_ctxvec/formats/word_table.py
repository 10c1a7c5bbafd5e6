"""Static vectors that travel with an encoder, so that it needs no other file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from ..types import FloatArray, IntArray


@dataclass(frozen=True)
class WordTable:
    """Rows of vectors by the hash of their word.

    keys (n_keys,) uint64, rising: the 64-bit hash of each word, as in spaCy's StringStore
    rows (n_keys,): the row of each; several words may share one, as in pruned vectors
    vectors (n_rows, width), float32 or float16
    """

    keys: NDArray[np.uint64]
    rows: IntArray
    vectors: NDArray[np.floating]

    def __post_init__(self) -> None:
        in_range = not len(self.rows) or 0 <= self.rows.min() <= self.rows.max() < len(self.vectors)
        if len(self.keys) != len(self.rows) or self.vectors.ndim != 2 or not in_range:
            raise ValueError("keys, rows and vectors do not belong together")

    @classmethod
    def of(
        cls, keys: NDArray[np.uint64], rows: IntArray, vectors: NDArray[np.floating]
    ) -> WordTable:
        """From keys in any order."""
        order = np.argsort(keys, kind="stable")
        return cls(keys[order], rows[order], vectors)

    def __deepcopy__(self, memo: object) -> WordTable:
        """Itself: no table is ever changed, and one may be most of a pipeline's memory."""
        return self

    @property
    def width(self) -> int:
        return self.vectors.shape[1]

    def find(self, keys: NDArray[np.uint64]) -> tuple[FloatArray, NDArray[np.bool_]]:
        """The vector of each word, (n, width), zeros where there is none, and which have one."""
        found = np.zeros((len(keys), self.width), dtype=np.float32)
        if not len(self.keys):
            return found, np.zeros(len(keys), dtype=bool)
        places = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        has_vector = self.keys[places] == keys
        found[has_vector] = self.vectors[self.rows[places[has_vector]]]
        return found, has_vector

    def to_bytes(self) -> bytes:
        return safetensors.numpy.save(
            {"keys": self.keys, "rows": self.rows, "vectors": np.ascontiguousarray(self.vectors)}
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> WordTable:
        """ValueError where `data` is not what `to_bytes` returned."""
        try:
            arrays = safetensors.numpy.load(data)
            return cls(arrays["keys"], arrays["rows"], arrays["vectors"])
        except (KeyError, SafetensorError, TypeError) as error:
            raise ValueError(str(error)) from error
