"""Checkpoints are whole or absent."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.training import checkpoint
from spacy_ctxvec.training.checkpoint import load_checkpoint, save_checkpoint

STATE = {"weights": {"a": torch.arange(1000.0)}, "step": 3}
LARGE = {"weights": {"a": torch.zeros(10**6)}, "step": 4}


def test_round_trip(tmp_path):
    path = tmp_path / "new folder" / "checkpoint.pt"
    save_checkpoint(path, STATE)
    found = load_checkpoint(path)
    assert found["step"] == 3 and torch.equal(found["weights"]["a"], STATE["weights"]["a"])
    assert [p.name for p in path.parent.iterdir()] == ["checkpoint.pt"]


def test_a_file_cut_off_anywhere(tmp_path):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, STATE)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:size])
        with pytest.raises(MalformedModelError, match=r"checkpoint\.pt.*cut off.*remove it"):
            load_checkpoint(path)


@contextmanager
def full_device(path: Path) -> Iterator[None]:
    """Every write fails."""
    if sys.platform != "linux":
        pytest.skip("needs a device that is always full")
    path.with_suffix(".new").symlink_to("/dev/full")
    yield


@contextmanager
def full_in_the_middle(path: Path) -> Iterator[None]:
    """Writing fails after the first megabyte."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def failing(name: str) -> Callable[[Path], AbstractContextManager[object]]:
    """That call of the system fails, with the file written."""
    error = OSError(28, "No space left on device")
    return lambda path: patch.object(checkpoint.os, name, side_effect=error)


@pytest.mark.parametrize(
    "fault", [full_device, full_in_the_middle, failing("fsync"), failing("replace")]
)
def test_on_a_full_disk_the_old_one_stays_whole(tmp_path, fault):
    """The error says what to do; the broken file is gone, as it would fill the disk."""
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, STATE)
    with fault(path), pytest.raises(CtxvecError) as failure:
        save_checkpoint(path, LARGE)
    for part in (str(path), "MB left", "earlier checkpoint there is whole", "run again"):
        assert part in str(failure.value)
    assert load_checkpoint(path)["step"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["checkpoint.pt"]
    save_checkpoint(path, LARGE)
    assert load_checkpoint(path)["step"] == 4


class Surprise:
    def __reduce__(self):
        return (print, ("unpickled!",))


def test_nothing_is_unpickled(tmp_path, capsys):
    for i, write in enumerate([torch.save, lambda x, f: f.write_bytes(pickle.dumps(x, 2))]):
        path = tmp_path / f"{i}.pt"
        write({"step": Surprise()}, path)
        with pytest.raises(MalformedModelError):
            load_checkpoint(path)
    assert "unpickled!" not in capsys.readouterr().out


def test_a_missing_file(tmp_path):
    with pytest.raises(MalformedModelError, match="none"):
        load_checkpoint(tmp_path / "none")
