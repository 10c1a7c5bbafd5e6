"""Layers on disk: several writers, killed writers, damaged files, a bound, pruning."""

from __future__ import annotations

import multiprocessing
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.layers import feature_folder
from spacy_ctxvec.layers.feature_files import INDEX, MARK, RECORD, ROWS
from spacy_ctxvec.layers.feature_folder import FeatureFolder
from spacy_ctxvec.layers.feature_upkeep import kept_layers, prune

NAME = f"{'0123456789abcdef' * 2}-float32"
OTHER = f"{'f' * 32}-float32"
SHAPE = (2, 3)


def opened(root: Path, name: str = NAME, max_bytes: int = 10**9, dtype="float32") -> FeatureFolder:
    return FeatureFolder(root, name, source="toy", shape=SHAPE, dtype=dtype, max_bytes=max_bytes)


def key(i: int) -> bytes:
    return i.to_bytes(16, "little")


def rows(i: int, n_words: int = 4) -> np.ndarray:
    return np.random.default_rng(i).standard_normal((n_words, *SHAPE)).astype("float32")


def filled(root: Path, numbers, name: str = NAME) -> FeatureFolder:
    store = opened(root, name)
    assert all(store.put(key(i), rows(i)) for i in numbers)
    return store


def found(store: FeatureFolder, numbers) -> list[int]:
    """Which of the texts are there; their rows must be right."""
    there = []
    for i in numbers:
        got = store.get(key(i))
        if got is not None:
            np.testing.assert_array_equal(got, rows(i))
            there.append(i)
    return there


def index_files(root: Path, name: str = NAME) -> list[Path]:
    return sorted((root / name).glob(f"*{INDEX}"))


@pytest.fixture(autouse=True)
def _look_at_once(monkeypatch):
    monkeypatch.setattr(feature_folder, "SECONDS_BETWEEN_LOOKS", 0.0)


def test_the_writer_and_another_process_find_all(tmp_path):
    store = filled(tmp_path, range(5))
    assert found(store, range(6)) == [0, 1, 2, 3, 4]
    assert found(opened(tmp_path), range(6)) == [0, 1, 2, 3, 4]


def test_what_is_there_is_not_written_again(tmp_path):
    filled(tmp_path, range(5))
    filled(tmp_path, range(5))
    assert len(index_files(tmp_path)) == 1


def test_half_the_precision_and_texts_without_words(tmp_path):
    store = opened(tmp_path, dtype="float16")
    store.put(key(0), rows(0).astype("float16"))
    store.put(key(1), rows(1, 0).astype("float16"))
    again = opened(tmp_path, dtype="float16")
    np.testing.assert_array_equal(again.get(key(0)), rows(0).astype("float16"))
    assert again.get(key(1)).shape == (0, *SHAPE)


def test_readers_see_what_is_written_meanwhile(tmp_path):
    reader, writer = opened(tmp_path), opened(tmp_path)
    for i in range(4):
        assert reader.get(key(i)) is None
        writer.put(key(i), rows(i))
        assert found(reader, range(4)) == list(range(i + 1))


def test_two_processes_write_and_read_one_folder(tmp_path):
    fork = multiprocessing.get_context("fork")
    barrier = fork.Barrier(2)
    own = [400, 401]
    runs = [fork.Process(target=_write_all, args=(tmp_path, barrier, i)) for i in own]
    for run in runs:
        run.start()
    for run in runs:
        run.join(timeout=60)
    assert [run.exitcode for run in runs] == [0, 0]
    assert len(index_files(tmp_path)) == 2
    assert found(opened(tmp_path), range(402)) == list(range(402))


def _write_all(root: Path, barrier, own: int) -> None:
    """With a text of its own: a quick process may leave the other nothing else to write."""
    store = opened(root)
    assert store.put(key(own), rows(own))
    barrier.wait(timeout=30)
    for i in range(400):
        assert found(store, [i]) == [i] or store.put(key(i), rows(i))
    assert found(store, range(400)) == list(range(400))


def test_a_forked_child_writes_files_of_its_own(tmp_path):
    store = filled(tmp_path, range(3))
    child = multiprocessing.get_context("fork").Process(target=_put_more, args=(store,))
    child.start()
    child.join(timeout=60)
    assert child.exitcode == 0
    assert len(index_files(tmp_path)) == 2
    store.put(key(20), rows(20))
    assert len(index_files(tmp_path)) == 2
    assert found(opened(tmp_path), range(21)) == [*range(6), 20]


def _put_more(store: FeatureFolder) -> None:
    assert all(store.put(key(i), rows(i)) for i in range(6))
    assert found(store, range(6)) == list(range(6))


@pytest.mark.parametrize("ending", [INDEX, ROWS])
def test_a_kill_at_every_byte_of_the_last_text(ending, tmp_path, caplog):
    """The rows of a text are written before its record: so either it is whole or not seen."""
    filled(tmp_path / "whole", range(3))
    index = index_files(tmp_path / "whole")[0]
    size = index.with_suffix(ending).stat().st_size
    last = RECORD.size if ending == INDEX else rows(2).nbytes
    for end in range(size - last, size + 1):
        root = tmp_path / f"{end}"
        shutil.copytree(tmp_path / "whole", root)
        cut = index_files(root)[0]
        os.truncate(cut.with_suffix(ending), end)
        if ending == ROWS and end < size:  # a process that is killed there has written no record
            os.truncate(cut, cut.stat().st_size - RECORD.size)
        store = opened(root)
        assert found(store, range(3)) == ([0, 1, 2] if end == size else [0, 1])
        assert store.put(key(2), rows(2))
        assert found(opened(root), range(3)) == [0, 1, 2]
    assert not caplog.records


@pytest.mark.parametrize("end", range(len(MARK)))
def test_a_kill_before_the_first_text(end, tmp_path, caplog):
    filled(tmp_path, [0])
    os.truncate(index_files(tmp_path)[0], end)
    assert found(opened(tmp_path), [0]) == []
    assert not caplog.records


@pytest.mark.parametrize("ending", [INDEX, ROWS])
def test_a_byte_changed_anywhere_is_seen(ending, tmp_path):
    filled(tmp_path / "whole", range(2))
    filled(tmp_path / "whole", range(2, 4))
    first = index_files(tmp_path / "whole")[0]
    for place in range(first.with_suffix(ending).stat().st_size):
        root = tmp_path / f"{place}"
        shutil.copytree(tmp_path / "whole", root)
        path = index_files(root)[0].with_suffix(ending)
        data = bytearray(path.read_bytes())
        data[place] ^= 0x55
        path.write_bytes(data)
        store = opened(root)
        assert len(found(store, range(4))) >= 2
        assert all(store.put(key(i), rows(i)) for i in range(4))
        assert found(store, range(4)) == [0, 1, 2, 3]
        shutil.rmtree(root)


def test_rows_that_are_cut_off_are_missing_and_no_error(tmp_path):
    filled(tmp_path, range(3))
    os.truncate(index_files(tmp_path)[0].with_suffix(ROWS), 5)
    store = opened(tmp_path)
    assert found(store, range(3)) == []
    index_files(tmp_path)[0].with_suffix(ROWS).unlink()
    assert found(opened(tmp_path), range(3)) == []


def test_foreign_files_are_left_out_with_a_warning(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(feature_folder.logger, "propagate", True)
    filled(tmp_path, range(2))
    (tmp_path / NAME / "notes.index").write_text("chapter one, page 3")
    (tmp_path / NAME / "sub.index").mkdir()
    store = opened(tmp_path)
    assert found(store, range(2)) == [0, 1]
    assert found(store, range(3)) == [0, 1]
    assert sum("notes.index" in record.message for record in caplog.records) == 1


def test_the_bound_is_that_of_all_models_together(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(feature_folder.logger, "propagate", True)
    filled(tmp_path, range(2), OTHER)
    size = rows(0).nbytes
    store = opened(tmp_path, max_bytes=5 * size)
    assert [store.put(key(i), rows(i)) for i in range(6)] == [True] * 3 + [False] * 3
    assert found(store, range(6)) == [0, 1, 2]
    assert sum(layers.n_bytes for layers in kept_layers(tmp_path)) < 5 * size + 1000
    assert sum("cache prune" in record.message for record in caplog.records) == 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CtxvecError, match="feature_cache"):
        opened(tmp_path / "file")


def test_a_folder_that_is_removed_meanwhile(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(feature_folder.logger, "propagate", True)
    store = filled(tmp_path, range(2))
    assert found(store, range(2)) == [0, 1]
    prune(kept_layers(tmp_path), 0)
    assert found(store, range(2)) == [0, 1]  # still mapped
    assert not store.put(key(2), rows(2)) and not store.put(key(3), rows(3))
    assert sum("Nothing more is written" in record.message for record in caplog.records) == 1


def test_kept_layers_and_pruning_by_last_use(tmp_path):
    filled(tmp_path, range(3))
    filled(tmp_path, range(5), OTHER)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "paper.txt").write_text("not a cache")
    (tmp_path / NAME / "notes.index").write_text("not a cache")
    os.utime(tmp_path / OTHER / "about.json", (1, 1))
    kept = kept_layers(tmp_path)
    assert [(k.name, k.source, k.dtype, k.n_texts) for k in kept] == [
        (NAME, "toy", "float32", 3),
        (OTHER, "toy", "float32", 5),
    ]
    assert prune(kept, 10**9) == 0
    assert prune(kept, kept[0].n_bytes) == kept[1].n_bytes
    assert not (tmp_path / OTHER).exists()
    assert found(opened(tmp_path), range(3)) == [0, 1, 2]
    assert prune(kept_layers(tmp_path), 0) > 0
    assert (tmp_path / NAME / "notes.index").exists()
    assert (tmp_path / "mine" / "paper.txt").exists()
    assert [k.n_texts for k in kept_layers(tmp_path)] == [0]


def test_opening_is_using(tmp_path):
    filled(tmp_path, range(3))
    os.utime(tmp_path / NAME / "about.json", (1, 1))
    opened(tmp_path)
    assert kept_layers(tmp_path)[0].used > 1000
    (tmp_path / NAME / "about.json").write_text("{")
    assert kept_layers(tmp_path)[0].source == "unknown"
    assert kept_layers(tmp_path / "nowhere") == []
