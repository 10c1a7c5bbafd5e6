"""Checkpoints are whole or absent."""

from __future__ import annotations

import pickle

import pytest
import torch

from spacy_ctxvec.errors import MalformedModelError
from spacy_ctxvec.training import checkpoint
from spacy_ctxvec.training.checkpoint import load_checkpoint, save_checkpoint

STATE = {"weights": {"a": torch.arange(1000.0)}, "step": 3}


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
        with pytest.raises(MalformedModelError, match=r"checkpoint\.pt"):
            load_checkpoint(path)


@pytest.mark.parametrize("part", ["write", "rename"])
def test_the_old_one_stays_whole_when_writing_fails(tmp_path, monkeypatch, part):
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, STATE)

    def broken_save(state, file):
        file.write(b"half of it")
        raise OSError("disk full")

    def broken_replace(*args):
        raise OSError("killed")

    if part == "write":
        monkeypatch.setattr(checkpoint.torch, "save", broken_save)
    else:
        monkeypatch.setattr(checkpoint.os, "replace", broken_replace)
    with pytest.raises(OSError):
        save_checkpoint(path, {"step": 4})
    assert load_checkpoint(path)["step"] == 3


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
