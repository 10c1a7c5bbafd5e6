"""What one process writes of a feature cache on disk, and how any process reads it.

ID.rows    the rows of texts, one after the other
ID.index   MARK, then a record a text: its key, where its rows begin, how many words, two checksums

The rows of a text are written before its record, and records never change. So at whatever byte a
process is killed, what it leaves is a record less, and others read while it writes.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..types import FloatArray

MARK = b"spacy-ctxvec features 1\n"
RECORD = struct.Struct("<16sQIII")
INDEX, ROWS = ".index", ".rows"


class BadRecordError(Exception):
    """A file that this module did not write, or that was damaged since."""


class Record(NamedTuple):
    """Where the rows of a text are: first byte, number of words, checksum."""

    key: bytes
    start: int
    n_words: int
    checksum: int

    def pack(self) -> bytes:
        """With a checksum of the record itself at the end."""
        own = zlib.crc32(RECORD.pack(*self, 0))
        return RECORD.pack(*self, own)

    @classmethod
    def unpack(cls, data: bytes) -> Record:
        *values, _ = RECORD.unpack(data)
        record = cls(*values)
        if record.pack() != data:
            raise BadRecordError("a record has another checksum than was written")
        return record


class ShardWriter:
    """Appends to files of its own. They are not buffered: a fork would write a buffer twice."""

    def __init__(self, folder: Path):
        path = folder / uuid.uuid4().hex
        self.index_path = path.with_suffix(INDEX)
        self._rows = path.with_suffix(ROWS).open("xb", buffering=0)
        self._index = self.index_path.open("xb", buffering=0)
        _write_all(self._index, MARK)
        self._end = 0

    def append(self, key: bytes, rows: FloatArray) -> None:
        data = rows.tobytes()
        _write_all(self._rows, data)
        record = Record(key, self._end, len(rows), zlib.crc32(data))
        self._end += len(data)
        _write_all(self._index, record.pack())


def _write_all(file: BinaryIO, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[file.write(left) :]


class ShardReader:
    """Reads what a process has written so far.

    index_path: of the file ID.index
    row_shape: (n_layers, width)
    """

    def __init__(self, index_path: Path, row_shape: tuple[int, int], dtype: str):
        self.index_path = index_path
        self._row_shape = row_shape
        self._dtype = np.dtype(dtype)
        self._position = 0
        self._map: NDArray[np.uint8] = np.zeros(0, dtype=np.uint8)

    def new_records(self) -> Iterator[Record]:
        """Those that were added since the last call; BadRecordError at one that cannot be used."""
        with self.index_path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        if not self._position:
            if not data.startswith(MARK[: len(data)]):
                raise BadRecordError("it does not begin like a file of a feature cache")
            if len(data) < len(MARK):
                return
            self._position, data = len(MARK), data[len(MARK) :]
        for start in range(0, len(data) - RECORD.size + 1, RECORD.size):
            record = Record.unpack(data[start : start + RECORD.size])
            self._position += RECORD.size
            yield record

    def rows(self, record: Record, *, check: bool) -> FloatArray:
        """(n_words, n_layers, width), mapped from the file; BadRecordError where it is damaged."""
        n_bytes = record.n_words * int(np.prod(self._row_shape)) * self._dtype.itemsize
        end = record.start + n_bytes
        if end > len(self._map):
            self._map_again()
        data = self._map[record.start : end]
        if len(data) < n_bytes or (check and zlib.crc32(data.data) != record.checksum):
            raise BadRecordError("rows are missing or have another checksum than was written")
        return data.view(self._dtype).reshape(record.n_words, *self._row_shape)

    def _map_again(self) -> None:
        path = self.index_path.with_suffix(ROWS)
        if path.stat().st_size:  # an empty file cannot be mapped
            self._map = np.memmap(path, dtype=np.uint8, mode="r")
