"""The checkpoints of TensorFlow (TensorBundle), read without TensorFlow.

    PREFIX.index                  a sorted table: under the empty key a header, which tells the
                                  number of shards and the order of bytes; under the name of each
                                  tensor its type, shape, shard, offset, size and checksum
    PREFIX.data-00000-of-0000N    the numbers of the tensors of a shard, and nothing else

The files are data from elsewhere: sizes are checked against those of the files before memory is
asked for, nothing outside of the files is read, and every checksum is compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import errors
from ...types import FloatArray
from .crc32c import crc32c, masked
from .protobuf import read_message, signed
from .sorted_table import read_table

INDEX = ".index"
MAX_INDEX = 1 << 24  # bytes
FORMAT_VERSION = 1
MAX_SHARDS = 100_000
LITTLE_ENDIAN = 0
SLICE_KEY = b"\x00"  # how the key of a part of a tensor begins
FLOATS = {1: "<f4", 2: "<f8", 19: "<f2"}  # by TensorFlow's number of the type
NUMBERS = {**FLOATS, 3: "<i4", 9: "<i8"}


@dataclass(frozen=True)
class Entry:
    """Where a tensor is, and what it should be. `kind` is TensorFlow's number of its type."""

    kind: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    in_parts: bool


@dataclass(frozen=True)
class TensorBundle:
    """The tensors of a checkpoint, each checked before it is read."""

    index: Path
    n_shards: int
    entries: Mapping[str, Entry]

    @classmethod
    def open(cls, index: Path) -> TensorBundle:
        """The checkpoint of an index; its data files lie beside it."""
        try:
            table = read_table(_content(index))
            if not table or table[0][0]:
                raise ValueError("no header")
            n_shards = _read_header(table[0][1])
            entries = {
                key.decode("utf8"): _read_entry(value)
                for key, value in table[1:]
                if not key.startswith(SLICE_KEY)
            }
            _check_apart(entries)
        except (OSError, ValueError) as error:
            expected = "the whole index of a TensorFlow checkpoint"
            raise errors.malformed_model(index, "content", expected, error) from error
        return cls(index, n_shards, entries)

    def names(self) -> list[str]:
        return list(self.entries)

    def shape(self, name: str) -> tuple[int, ...]:
        return self._entry(name).shape

    def read(self, name: str, *shape: int) -> FloatArray:
        """The numbers of a floating-point tensor, float32; `shape` is what is asked for."""
        entry = self._entry(name)
        if entry.kind not in FLOATS:
            raise self.malformed(name, "floating-point numbers", f"type {entry.kind}")
        if entry.shape != shape:
            raise self.malformed(name, f"of shape {shape}", entry.shape)
        array = self._numbers(name, entry).astype(np.float32, copy=False)
        # The extremes tell, without a flag for each number of a large tensor.
        if array.size and not np.isfinite([array.min(), array.max()]).all():
            raise self.malformed(name, "finite numbers", "infinite ones, or no numbers")
        return array

    def scalar(self, name: str) -> float:
        """A single number, whole ones among them."""
        entry = self._entry(name)
        if entry.kind not in NUMBERS or entry.shape:
            found = f"type {entry.kind} of shape {entry.shape}"
            raise self.malformed(name, "a single number", found)
        value = float(self._numbers(name, entry))
        if not math.isfinite(value):
            raise self.malformed(name, "a finite number", value)
        return value

    def malformed(self, name: str, expected: str, found: Any) -> errors.MalformedModelError:
        return errors.malformed_model(self.index, f"tensor {name}", expected, found)

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise self.malformed(name, "present", "nothing of this name")
        return self.entries[name]

    def _numbers(self, name: str, entry: Entry) -> np.ndarray[Any, Any]:
        """As they are stored."""
        numbers = np.dtype(NUMBERS[entry.kind])
        n_numbers = math.prod(entry.shape)
        if entry.in_parts:
            raise self.malformed(name, "stored as a whole", "parts of it (a partitioned variable)")
        if entry.size != n_numbers * numbers.itemsize:
            expected = f"{n_numbers * numbers.itemsize} bytes, as its shape {entry.shape} tells"
            raise self.malformed(name, expected, f"{entry.size} bytes")
        path = self._data_file(name, entry)
        try:
            array = np.fromfile(path, numbers, n_numbers, offset=entry.offset)
        except OSError as error:
            raise errors.malformed_model(path, "content", "readable", error) from error
        if len(array) != n_numbers or masked(crc32c(array.data.cast("B"))) != entry.checksum:
            raise self.malformed(name, "what was written", f"other numbers in {path.name}")
        return array.reshape(entry.shape)

    def _data_file(self, name: str, entry: Entry) -> Path:
        """The file of the tensor's shard, which is long enough to hold it."""
        if entry.shard >= self.n_shards:
            expected = f"in one of {self.n_shards} shards, counted from 0"
            raise self.malformed(name, expected, entry.shard)
        prefix = self.index.name.removesuffix(INDEX)
        shard = f"{prefix}.data-{entry.shard:05d}-of-{self.n_shards:05d}"
        path = self.index.with_name(shard)
        size = path.stat().st_size if path.is_file() else 0
        if entry.offset + entry.size > size:
            expected = f"in {shard}, a file of {size} bytes"
            raise self.malformed(name, expected, f"{entry.size} bytes from byte {entry.offset}")
        return path


def _content(index: Path) -> bytes:
    if not index.is_file():
        raise ValueError("no such file")
    size = index.stat().st_size
    if size > MAX_INDEX:
        raise ValueError(f"{size} bytes, more than any index needs")
    return index.read_bytes()


def _read_header(message: bytes) -> int:
    """The number of shards, of a message BundleHeaderProto."""
    fields = read_message(message, {1: int, 2: int, 3: bytes})
    n_shards, order = _last(fields[1], 0), _last(fields[2], LITTLE_ENDIAN)
    version = read_message(_last(fields[3], b""), {2: int})
    if not 0 < n_shards < MAX_SHARDS:
        raise ValueError(f"a header with {n_shards} shards")
    if order != LITTLE_ENDIAN:
        raise ValueError("numbers with the most significant byte first, which are not read")
    if _last(version[2], 0) > FORMAT_VERSION:
        raise ValueError(f"a header for readers of version {_last(version[2], 0)} or later")
    return n_shards


def _read_entry(message: bytes) -> Entry:
    """Of a message BundleEntryProto."""
    kinds = {1: int, 2: bytes, 3: int, 4: int, 5: int, 6: int, 7: bytes}
    fields = read_message(message, kinds)
    shape = read_message(_last(fields[2], b""), {2: bytes, 3: int})
    sizes = [signed(_last(read_message(size, {1: int})[1], 0)) for size in shape[2]]
    if _last(shape[3], 0) or any(size < 0 for size in sizes):
        raise ValueError(f"a tensor of unknown shape {sizes}")
    shard, offset, size = (signed(_last(fields[number], 0)) for number in (3, 4, 5))
    if min(shard, offset, size) < 0:
        raise ValueError(f"a tensor of {size} bytes from byte {offset} of shard {shard}")
    checksum, in_parts = _last(fields[6], 0), bool(fields[7])
    return Entry(_last(fields[1], 0), tuple(sizes), shard, offset, size, checksum, in_parts)


def _check_apart(entries: Mapping[str, Entry]) -> None:
    """ValueError where tensors share bytes: together they could be larger than the files."""
    end = 0, 0
    for entry in sorted(entries.values(), key=lambda entry: (entry.shard, entry.offset)):
        if entry.size:
            if (entry.shard, entry.offset) < end:
                raise ValueError(f"two tensors at byte {entry.offset} of shard {entry.shard}")
            end = entry.shard, entry.offset + entry.size


def _last(values: list[Any], default: Any) -> Any:
    """The value of a field that stands once: the last one counts."""
    return values[-1] if values else default
