"""Ids in shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.text.writing import ShardWriter, fingerprint, renumber


def write(folder, chunks: list[list[int]], shard_tokens: int) -> list[list[int]]:
    """The shards of ids 0, 1, ... in pieces whose lengths `chunks` gives."""
    writer = ShardWriter(folder, shard_tokens)
    start = 0
    for lengths in chunks:
        end = start + sum(lengths)
        writer.add(np.arange(start, end, dtype=np.int32), np.array(lengths, dtype=np.int32))
        start = end
    writer.flush()
    assert [path.name for path in writer.paths] == sorted(path.name for path in folder.iterdir())
    shards = [np.load(path) for path in writer.paths]
    assert all(shard.dtype == np.int32 for shard in shards)
    return [shard.tolist() for shard in shards]


@pytest.mark.parametrize(
    "chunks, sizes",
    [
        ([[3, 2]], [5]),
        ([[3, 2], [5]], [10]),
        ([[3, 4], [5]], [7, 5]),
        ([[3, 4, 4], [6]], [7, 10]),
        ([[25], [1], [10]], [25, 1, 10]),
        ([[1], [25]], [1, 25]),
        ([[]], []),
    ],
)
def test_no_piece_is_in_two_shards(tmp_path, chunks, sizes):
    assert [len(shard) for shard in write(tmp_path, chunks, 10)] == sizes


@given(chunks=st.lists(st.lists(st.integers(1, 7), max_size=8), max_size=8), n=st.integers(1, 12))
def test_all_ids_are_written_in_order(tmp_path_factory, chunks, n):
    shards = write(tmp_path_factory.mktemp("shards"), chunks, n)
    lengths = [length for chunk in chunks for length in chunk]
    assert [i for shard in shards for i in shard] == list(range(sum(lengths)))
    ends = set(np.cumsum(lengths).tolist())
    assert all(shard[-1] + 1 in ends for shard in shards)
    assert all(len(shard) <= max(n, max(lengths)) for shard in shards)


def test_renumbering(tmp_path):
    write(tmp_path, [[2], [2]], 2)
    paths = sorted(tmp_path.iterdir())
    renumber(paths, np.array([3, 1, 0, 2], dtype=np.int32))
    assert [np.load(path).tolist() for path in paths] == [[3, 1], [0, 2]]
    assert np.load(paths[0]).dtype == np.int32


def test_fingerprints(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"123456789")
    assert fingerprint(path) == {"bytes": 9, "crc32": "cbf43926"}
