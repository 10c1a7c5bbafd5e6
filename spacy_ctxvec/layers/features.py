"""Layers of docs that a frozen encoder has read before: it reads a text once for all epochs.

What is kept are the rows of a doc's words, under a hash of what the encoder reads of them and of
where its windows begin. A doc that augmentation has changed has another hash, white space makes no
difference, and an encoder whose weights have changed has another store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from spacy.tokens import Doc
from thinc.util import to_numpy

from .. import errors
from ..checks import check
from ..formats.remote import cache_folder
from ..types import FloatArray, Floats3d
from .batching import WordBatch, cut
from .cache import ProcessLock
from .encoder import Encoder, ensure_weights, settings_of
from .feature_folder import FeatureFolder
from .feature_memory import FeatureMemory
from .fingerprint import digest
from .shim import EncoderShim

PLACES = ("memory", "disk")
DTYPES = ("float32", "float16")


@dataclass(frozen=True)
class FeatureSettings:
    """The block [components.NAME.feature_cache].

    max_mb: bound of the cache, on disk that of all models together; 0 keeps nothing
    where: "memory", which ends with the process, or "disk", which other runs share
    folder: on disk, where; by default a folder beside downloaded models
    dtype: "float16" takes half the room and rounds every number to 11 bits, about three digits
    """

    max_mb: float = 0
    where: Literal["memory", "disk"] = "memory"
    folder: str | None = None
    dtype: Literal["float32", "float16"] = "float32"

    def __post_init__(self) -> None:
        number = isinstance(self.max_mb, int | float) and not isinstance(self.max_mb, bool)
        check(self, "max_mb", number and self.max_mb >= 0, "0 (no cache) or more")
        check(self, "where", self.where in PLACES, " or ".join(PLACES))
        check(self, "dtype", self.dtype in DTYPES, " or ".join(DTYPES))

    @classmethod
    def of(cls, block: Mapping[str, Any]) -> FeatureSettings:
        names = [field.name for field in fields(cls)]
        unknown = [name for name in block if name not in names]
        if unknown:
            message = errors.UNKNOWN_FEATURE_SETTING.format(
                found=unknown[0], expected=", ".join(names)
            )
            raise errors.CtxvecError(message)
        return cls(**block)

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * 1e6)

    @property
    def root(self) -> Path:
        """The folder of all models' layers."""
        return Path(self.folder).expanduser() if self.folder else default_root()


def default_root() -> Path:
    return cache_folder() / "features"


class FeatureStore(Protocol):
    """Rows of texts, of one encoder and in one precision."""

    def get(self, key: bytes) -> FloatArray | None:
        """(n_words, n_layers, width), to be read and not kept; None where they are not there."""
        ...

    def put(self, key: bytes, rows: FloatArray) -> bool:
        """Keep rows that nobody will change; False where there is no room."""
        ...


class FeatureCache:
    """Reads docs with an encoder, or knows already what it would say.

    hits, misses, refused: texts that were known, that were read, and that there was no room for
    """

    def __init__(self, settings: FeatureSettings):
        self.settings = settings
        self.hits = self.misses = self.refused = 0
        self._lock = ProcessLock()
        self._store: FeatureStore | None = None
        self._name = ""

    def layers(self, model: Encoder, docs: list[Doc]) -> list[Floats3d]:
        """`model.predict(docs)`: (n_tokens, n_layers, width) of each, in the cache's precision."""
        shim, settings = ensure_weights(model), settings_of(model)
        if settings.state == "carry" or not any(map(len, docs)):
            return model.predict(docs)
        batch = shim.inputs.batch(docs, settings.window)
        if not len(batch.keys):
            return model.predict(docs)
        keys = _text_keys(shim, batch)
        store = self._store_of(shim)
        found = {key: store.get(key) for key in dict.fromkeys(keys.values())}
        rows = {key: known for key, known in found.items() if known is not None}
        new = {key: i for i, key in keys.items() if key not in rows}
        self.hits, self.misses = self.hits + len(rows), self.misses + len(new)
        if new:
            read = model.predict([docs[i] for i in new.values()])
            for (key, i), layers in zip(new.items(), read):
                rows[key] = self._keep(store, key, to_numpy(layers)[batch.doc_words[i]])
        together: Floats3d = np.concatenate([rows[key] for key in keys.values()], dtype=np.float32)
        return batch.rows(model.ops.asarray3f(together))

    def _keep(self, store: FeatureStore, key: bytes, rows: FloatArray) -> FloatArray:
        """Rows as the store will serve them, also where it has no room: what a text is given must
        not depend on when it came."""
        with np.errstate(over="ignore"):
            kept = rows.astype(self.settings.dtype, copy=False)
        if not np.isfinite(kept).all():  # beyond float16
            return rows
        self.refused += not store.put(key, kept)
        return kept

    def _store_of(self, shim: EncoderShim) -> FeatureStore:
        """The store for the encoder as it is now. One in memory forgets all others."""
        name = f"{shim.fingerprint}-{self.settings.dtype}"
        with self._lock:
            if self._store is None or self._name != name:
                self._store, self._name = self._new_store(name, shim), name
            return self._store

    def _new_store(self, name: str, shim: EncoderShim) -> FeatureStore:
        if self.settings.where == "memory":
            return FeatureMemory(self.settings.max_bytes)
        config = shim.module.config
        return FeatureFolder(
            self.settings.root,
            name,
            source=shim.source,
            shape=(config.n_outputs, config.width),
            dtype=self.settings.dtype,
            max_bytes=self.settings.max_bytes,
        )

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process or another pipeline starts without what is in memory."""
        return {"settings": self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _text_keys(shim: EncoderShim, batch: WordBatch) -> dict[int, bytes]:
    """Of each doc that has words, by its number, a hash: of what is read of its words, and of which
    of them begin a window."""
    begins = np.zeros((len(batch.keys), 1), dtype=np.uint8)
    begins[np.cumsum(batch.lengths) - batch.lengths] = 1
    marked = np.concatenate([shim.inputs.digests(batch), begins], axis=1)
    n_words = [int(is_word.sum()) for is_word in batch.doc_words]
    return {i: digest(rows.tobytes()) for i, rows in enumerate(cut(marked, n_words)) if len(rows)}
