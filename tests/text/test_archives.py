"""Compressed files, whole and damaged."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
from pathlib import Path

import pytest
import zstandard

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.archives import open_bytes, uncompressed_name

TEXT = "A first line.\n\nEine zweite Zeile mit Ümläuten.\n".encode() * 50
COMPRESS = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


def damaged(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes(255 - byte for byte in data[middle : middle + 8]) + data[middle:]


def read(path: Path) -> bytes:
    with open_bytes(path) as file:
        return file.read()


@pytest.mark.parametrize("suffix", COMPRESS)
def test_compressed_files_of_one_part_and_of_several(tmp_path, suffix):
    path = tmp_path / f"text.txt.{suffix}"
    path.write_bytes(COMPRESS[suffix](TEXT))
    assert read(path) == TEXT
    path.write_bytes(COMPRESS[suffix](TEXT) + COMPRESS[suffix](b"more"))
    assert read(path) == TEXT + b"more"
    assert uncompressed_name(path) == "text.txt"


def test_plain_files_and_standard_input(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_bytes(TEXT)
    assert read(path) == TEXT and uncompressed_name(path) == "text.txt"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT)))
    assert read(Path("-")) == TEXT


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("how", ["other", "cut", "damaged"])
def test_files_that_cannot_be_decompressed_are_named(tmp_path, suffix, how):
    data = COMPRESS[suffix](TEXT)
    path = tmp_path / f"{how}.{suffix}"
    path.write_bytes({"other": TEXT, "cut": data[:-9], "damaged": damaged(data)}[how])
    with pytest.raises(CtxvecError, match=rf"Cannot read .*{how}\.{suffix} as UTF-8 text"):
        read(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CtxvecError, match=r"Cannot read .*missing\.txt"):
        read(tmp_path / "missing.txt")


def test_zstandard_frames_are_read_to_the_last(tmp_path):
    path = tmp_path / "text.zst"
    large = TEXT * 1000  # more than one block, both of input and of output
    path.write_bytes(zstandard.compress(large) + zstandard.compress(b"more"))
    assert read(path) == large + b"more"
    path.write_bytes(b"")
    assert read(path) == b""


def test_zstandard_that_is_cut_off_or_something_else(tmp_path):
    path = tmp_path / "text.zst"
    data = zstandard.compress(TEXT)
    for bad in (data[:-1], data[: len(data) // 2], TEXT, zstandard.compress(TEXT) + b"junk"):
        path.write_bytes(bad)
        with pytest.raises(CtxvecError, match=r"Cannot read .*text\.zst"):
            read(path)


def test_without_a_package_for_zstandard_its_name_is_told(tmp_path, monkeypatch):
    for name in ("compression", "zstandard"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "text.zst").write_bytes(b"")
    with pytest.raises(CtxvecError, match="`pip install zstandard`"):
        read(tmp_path / "text.zst")
