"""The checksum CRC-32C (Castagnoli), fast enough for gigabytes without a compiled library.

A checksum is linear in the state it starts from. So long data are cut into lanes, whose states
advance side by side as arrays; then neighbours are joined, the left state moved on by the length
of the right lane.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # bits reversed
LANES = 4096
COLUMNS = 64  # words of each lane that are made contiguous together
MASK_DELTA = 0xA282EAD8

States = NDArray[np.uint32]


def crc32c(data: bytes | memoryview) -> int:
    """The checksum of contiguous bytes."""
    array = np.frombuffer(data, dtype=np.uint8)
    n_head = len(array) % (4 * LANES)
    state, table = 0xFFFFFFFF, _byte_table()
    for byte in array[:n_head].tolist():
        state = table[(state ^ byte) & 0xFF] ^ (state >> 8)
    if n_head < len(array):
        state = _through_lanes(state, array[n_head:].view("<u4").reshape(LANES, -1))
    return state ^ 0xFFFFFFFF


def masked(crc: int) -> int:
    """The checksum as TensorFlow stores it, where what is checked may hold checksums itself."""
    return (((crc >> 15) | (crc << 17)) + MASK_DELTA) & 0xFFFFFFFF


def _through_lanes(state: int, words: NDArray[np.uint32]) -> int:
    """The state after all lanes of `words`, (LANES, n_words)."""
    low, high = _word_tables()
    states = np.zeros(LANES, dtype=np.uint32)
    states[0] = state
    for start in range(0, words.shape[1], COLUMNS):
        for column in np.ascontiguousarray(words[:, start : start + COLUMNS].T):
            states ^= column
            states = low[states & 0xFFFF] ^ high[states >> 16]
    matrix = _power(_one_word(), words.shape[1])
    while len(states) > 1:
        states = _applied(matrix, states[0::2]) ^ states[1::2]
        matrix = _applied(matrix, matrix)
    return int(states[0])


@cache
def _byte_table() -> list[int]:
    """What the state becomes after eight bits, by its own lowest eight."""
    return _after_zeros(np.arange(1 << 8, dtype=np.uint32), 8).tolist()


@cache
def _word_tables() -> tuple[States, States]:
    """The same after 32 bits, by the lower and by the upper half."""
    half = np.arange(1 << 16, dtype=np.uint32)
    return _after_zeros(half, 32), _after_zeros(half << np.uint32(16), 32)


def _one_word() -> States:
    """What each bit of a state becomes after 32 zero bits."""
    return _after_zeros(np.uint32(1) << np.arange(32, dtype=np.uint32), 32)


def _after_zeros(states: States, n_bits: int) -> States:
    for _ in range(n_bits):
        states = (states >> np.uint32(1)) ^ (states & np.uint32(1)) * np.uint32(POLYNOMIAL)
    return states


def _applied(matrix: States, states: States) -> States:
    """States (n,) moved on; matrix (32,) is what becomes of each bit."""
    result = np.zeros_like(states)
    for bit, image in enumerate(matrix):
        result ^= ((states >> np.uint32(bit)) & np.uint32(1)) * image
    return result


def _power(matrix: States, exponent: int) -> States:
    """The matrix that moves on `exponent` times."""
    result = np.uint32(1) << np.arange(32, dtype=np.uint32)
    while exponent:
        if exponent & 1:
            result = _applied(matrix, result)
        matrix, exponent = _applied(matrix, matrix), exponent >> 1
    return result
