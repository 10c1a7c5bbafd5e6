"""Numbers of variable length, and the messages of protocol buffers, which are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MAX_BYTES = 10  # of a number of 64 bits, seven in each byte
FIXED = {1: 8, 5: 4}  # bytes of a number, by wire type


def read_varint(data: bytes, start: int) -> tuple[int, int]:
    """The number at `start`, least significant bits first, and where it ends."""
    value = 0
    for place, byte in enumerate(data[start : start + MAX_BYTES]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, start + place + 1
    raise ValueError(f"no number of at most 64 bits at byte {start} of {len(data)}")


def signed(value: int) -> int:
    """The negative number that the upper half of 64 bits stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value


def read_message(data: bytes, kinds: Mapping[int, type]) -> dict[int, list[Any]]:
    """The values of each field that is asked for, in the order they come; others are skipped.

    kinds: `int` or `bytes` for each number of a field
    """
    found: dict[int, list[Any]] = {number: [] for number in kinds}
    for number, value in _fields(data):
        if number in kinds:
            if not isinstance(value, kinds[number]):
                raise ValueError(f"field {number} of a message is of another type")
            found[number].append(value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = read_varint(data, at)
            yield number, value
            continue
        size = FIXED.get(kind)
        if kind == 2:
            size, at = read_varint(data, at)
        if size is None or size > len(data) - at:
            raise ValueError(f"field {number} of a message is of no known type, or cut off")
        part, at = data[at : at + size], at + size
        yield number, part if kind == 2 else int.from_bytes(part, "little")
