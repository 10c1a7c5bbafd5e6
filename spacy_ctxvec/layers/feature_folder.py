"""Layers of texts in a folder that several processes read and add to at once.

ROOT/NAME/about.json   which encoder; its time is when the layers were last opened
ROOT/NAME/ID.*         see `feature_files`: every process that writes has files of its own
"""

from __future__ import annotations

import json
import logging
import os
import time
from contextlib import suppress
from pathlib import Path

from .. import errors
from ..types import FloatArray
from .cache import ProcessLock
from .feature_files import INDEX, ROWS, BadRecordError, Record, ShardReader, ShardWriter

logger = logging.getLogger("spacy")
ABOUT = "about.json"
SECONDS_BETWEEN_LOOKS = 10.0


class FeatureFolder:
    """Rows by the hash of their text, those of one encoder and one precision.

    name: stands for both
    source: where the encoder is from, for people
    shape: (n_layers, width)
    max_bytes: of all encoders in `root`; when they are reached, nothing is added
    """

    def __init__(
        self,
        root: Path,
        name: str,
        *,
        source: str,
        shape: tuple[int, int],
        dtype: str,
        max_bytes: int,
    ):
        self.folder = root / name
        self.max_bytes = max_bytes
        self._root = root
        self._shape, self._dtype = shape, dtype
        self._lock = ProcessLock()
        self._readers: dict[Path, ShardReader] = {}
        self._records: dict[bytes, tuple[ShardReader, Record]] = {}
        self._checked: set[bytes] = set()
        self._bad: set[Path] = set()
        self._writer: ShardWriter | None = None
        self._writer_process = 0
        self._writes = True
        self._open({"source": source, "dtype": dtype, "shape": list(shape)})

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: bytes) -> FloatArray | None:
        with self._lock:
            if key not in self._records and time.monotonic() >= self._next_look:
                self._look()
            if key not in self._records:
                return None
            reader, record = self._records[key]
            try:
                rows = reader.rows(record, check=key not in self._checked)
            except (OSError, BadRecordError) as error:
                self._leave_out(reader.index_path, error)
                return None
            self._checked.add(key)
            return rows

    def put(self, key: bytes, rows: FloatArray) -> bool:
        with self._lock:
            if key in self._records:
                return True
            if not self._writes or not self._has_room(rows.nbytes):
                return False
            try:
                writer = self._own_writer()
                writer.append(key, rows)
                self._read_new(writer.index_path)
            except OSError as error:  # a full disk, or a folder that was removed meanwhile
                self._writes = False
                message = errors.FEATURES_NOT_WRITTEN.format(folder=self.folder, error=error)
                logger.warning(message)
                return False
            self._n_bytes += rows.nbytes
            return True

    def _open(self, about: dict[str, object]) -> None:
        path = self.folder / ABOUT
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError), path.open("x", encoding="utf8") as file:
                json.dump(about, file)
        except OSError as error:
            message = errors.FEATURES_NO_FOLDER.format(folder=self.folder, error=error)
            raise errors.CtxvecError(message) from error
        with suppress(OSError):  # somebody else's folder, that is only read
            os.utime(path)
        self._look()

    def _look(self) -> None:
        """See what others have written."""
        self._next_look = time.monotonic() + SECONDS_BETWEEN_LOOKS
        self._n_bytes = sum(map(_size, self._root.glob(f"*/*{ROWS}")))
        for path in sorted(self.folder.glob(f"*{INDEX}")):
            with suppress(OSError):  # removed a moment ago
                self._read_new(path)

    def _read_new(self, path: Path) -> None:
        if path in self._bad:
            return
        if path not in self._readers:
            self._readers[path] = ShardReader(path, self._shape, self._dtype)
        reader = self._readers[path]
        try:
            for record in reader.new_records():
                self._records.setdefault(record.key, (reader, record))
        except BadRecordError as error:
            self._leave_out(path, error)

    def _leave_out(self, path: Path, error: Exception) -> None:
        self._bad.add(path)
        reader = self._readers[path]
        self._records = {k: found for k, found in self._records.items() if found[0] is not reader}
        if self._writer is not None and self._writer.index_path == path:
            self._writer = None
        logger.warning(errors.FEATURES_DAMAGED.format(path=path, error=error))

    def _has_room(self, n_bytes: int) -> bool:
        if self._n_bytes + n_bytes <= self.max_bytes:
            return True
        self._writes = False
        message = errors.FEATURES_FULL.format(
            max_mb=self.max_bytes / 1e6,
            found=f"{self._n_bytes / 1e6:,.0f} MB in {self._root}",
            advice=errors.FEATURES_PRUNE,
        )
        logger.warning(message)
        return False

    def _own_writer(self) -> ShardWriter:
        """After a fork, the files are the parent's."""
        if self._writer is None or self._writer_process != os.getpid():
            self._writer, self._writer_process = ShardWriter(self.folder), os.getpid()
        return self._writer


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
