"""The table of keys and values in which TensorFlow keeps an index: that of LevelDB.

    file      blocks, then a footer: two block handles, zeros up to 40 bytes, a magic number
    handle    offset and size of a block, as varints; the second one is of the block of handles
    block     entries, offsets of some of them, their number; then the kind of compression, 1 byte,
              and a checksum, 4 bytes
    entry     bytes shared with the key before, further bytes of the key, bytes of the value, all
              three as varints; the bytes of the key, those of the value

Whatever is wrong raises ValueError, before more memory is asked for than the limits allow.
"""

from __future__ import annotations

from collections.abc import Iterator

from .crc32c import crc32c, masked
from .protobuf import read_varint

MAGIC = 0xDB4775248B80FB57.to_bytes(8, "little")
FOOTER, TRAILER = 48, 5
UNCOMPRESSED, SNAPPY = 0, 1
MAX_KEY = 1024
MAX_KEYS = 20_000


def read_table(data: bytes) -> list[tuple[bytes, bytes]]:
    """Every key, in rising order, and its value."""
    found: list[tuple[bytes, bytes]] = []
    read = 0
    for _, handle in _entries(_block(data, *_index_handle(data))):
        offset, size, _ = _handle(handle, 0)
        if offset < read:
            raise ValueError(f"the block at byte {offset} overlaps with another one")
        read = offset + size
        for key, value in _entries(_block(data, offset, size)):
            if found and key <= found[-1][0]:
                raise ValueError(f"the key {key!r} is not greater than the one before")
            if len(found) == MAX_KEYS:
                raise ValueError(f"more than {MAX_KEYS} keys")
            found.append((key, value))
    return found


def _index_handle(data: bytes) -> tuple[int, int]:
    """The offset and size of the block that holds the handles of all others."""
    if len(data) < FOOTER or not data.endswith(MAGIC):
        raise ValueError("the file does not end as such tables do, so it is cut off or another one")
    footer = data[-FOOTER : -len(MAGIC)]
    _, _, start = _handle(footer, 0)  # of a block that no writer uses
    return _handle(footer, start)[:2]


def _handle(data: bytes, start: int) -> tuple[int, int, int]:
    """The offset and the size of a block, and where the handle ends."""
    offset, start = read_varint(data, start)
    size, start = read_varint(data, start)
    return offset, size, start


def _block(data: bytes, offset: int, size: int) -> bytes:
    """The contents of one block, checked."""
    end = offset + size + TRAILER
    if end > len(data):
        raise ValueError(f"a block from byte {offset} to {end} of {len(data)}")
    kind, checksum = data[end - TRAILER], data[end - TRAILER + 1 : end]
    if masked(crc32c(data[offset : end - TRAILER + 1])) != int.from_bytes(checksum, "little"):
        raise ValueError(f"the checksum of the block at byte {offset} is another: it is damaged")
    if kind != UNCOMPRESSED:
        name = "snappy" if kind == SNAPPY else str(kind)
        raise ValueError(f"the block at byte {offset} is compressed ({name}), and none should be")
    return data[offset : offset + size]


def _entries(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    if len(block) < 4:
        raise ValueError(f"a block of {len(block)} bytes")
    n_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (n_restarts + 1)
    if end <= 0:
        raise ValueError(f"a block of {len(block)} bytes with {n_restarts} restarts: no entry")
    at, key = 0, b""
    while at < end:
        n_shared, at = read_varint(block, at)
        n_own, at = read_varint(block, at)
        n_value, at = read_varint(block, at)
        if n_shared > len(key) or n_shared + n_own > MAX_KEY or n_own + n_value > end - at:
            raise ValueError(f"a key of {n_shared} + {n_own} bytes, a value of {n_value}")
        key = key[:n_shared] + block[at : at + n_own]
        at += n_own
        yield key, block[at : at + n_value]
        at += n_value
