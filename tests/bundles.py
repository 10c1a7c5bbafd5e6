"""A writer of TensorFlow checkpoints, for the tests of their reader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spacy_ctxvec.formats.tensorflow.crc32c import crc32c, masked

KINDS = {"float32": 1, "float64": 2, "int32": 3, "int64": 9, "float16": 19}
MAGIC = bytes.fromhex("57fb808b247547db")


def varint(value: int) -> bytes:
    value %= 1 << 64
    data = b""
    while value >= 0x80:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def message(*fields: tuple[int, Any]) -> bytes:
    """A protocol buffer: ints as varints, bytes and lists as what has a length, None as nothing."""
    data = b""
    for number, value in fields:
        if isinstance(value, bytes):
            data += varint(number << 3 | 2) + varint(len(value)) + value
        elif value is not None:
            data += varint(number << 3) + varint(value)
    return data


def header(n_shards: int = 1, order: int | None = None, least_version: int | None = None) -> bytes:
    return message((1, n_shards), (2, order), (3, message((1, 1), (2, least_version))))


def entry(
    kind: int, shape: Sequence[int], shard: int, offset: int, size: int, crc: int, *more: Any
) -> bytes:
    sizes = message(*[(2, message((1, n))) for n in shape])
    fields = (1, kind), (2, sizes), (3, shard), (4, offset), (5, size)
    return message(*fields) + varint(6 << 3 | 5) + crc.to_bytes(4, "little") + message(*more)


def block(pairs: Iterable[tuple[bytes, bytes]], restart_every: int = 16) -> bytes:
    """The contents of one block of a table."""
    data, restarts, before = b"", [], b""
    for i, (key, value) in enumerate(pairs):
        shared = 0
        if i % restart_every:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        else:
            restarts.append(len(data))
        data += varint(shared) + varint(len(key) - shared) + varint(len(value))
        data += key[shared:] + value
        before = key
    return data + np.array([*restarts, len(restarts)], "<u4").tobytes()


def table(blocks: Sequence[bytes], *, compression: int = 0, keys: Sequence[bytes] = ()) -> bytes:
    """A table of finished blocks."""
    data, handles = b"", []
    for contents in blocks:
        handles.append(varint(len(data)) + varint(len(contents)))
        data += stored(contents, compression)
    names = keys or [b"%05d" % i for i in range(len(blocks))]
    index = block(list(zip(names, handles)), restart_every=1)
    footer = bytes([0, 0]) + varint(len(data)) + varint(len(index))
    return data + stored(index, 0) + footer.ljust(40, b"\0") + MAGIC


def stored(contents: bytes, compression: int) -> bytes:
    data = contents + bytes([compression])
    return data + masked(crc32c(data)).to_bytes(4, "little")


def write_bundle(
    prefix: Path, tensors: Mapping[str, np.ndarray], *, n_shards: int = 1, per_block: int = 16
) -> Path:
    """The files of a checkpoint, tensors dealt out to its shards; returns the index."""
    shards = [b""] * n_shards
    pairs = [(b"", header(n_shards))]
    for i, (name, array) in enumerate(sorted(tensors.items())):
        shard, data = i % n_shards, np.ascontiguousarray(array).tobytes()
        place = shard, len(shards[shard]), len(data), masked(crc32c(data))
        pairs.append((name.encode(), entry(KINDS[array.dtype.name], array.shape, *place)))
        shards[shard] += data
    for shard, data in enumerate(shards):
        prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{n_shards:05d}").write_bytes(data)
    groups = [pairs[i : i + per_block] for i in range(0, len(pairs), per_block)]
    return write_index(prefix, table([block(group) for group in groups]))


def write_index(prefix: Path, data: bytes) -> Path:
    index = prefix.with_name(f"{prefix.name}.index")
    index.write_bytes(data)
    return index
