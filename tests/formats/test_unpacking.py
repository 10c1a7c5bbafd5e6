"""Archives of models: read as they are, and refused where they would do harm."""

from __future__ import annotations

import io
import os
import random
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats import unpacking
from spacy_ctxvec.formats.unpacking import is_archive, unpacked

FILES = {"options.json": b"{}", "deep/er/weights.bin": os.urandom(3000), "empty": b""}


def write_zip(path: Path, files: dict[str, bytes], mode: int = 0o100644) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = mode << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return path


def write_tar(path: Path, files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> Path:
    mode = {".gz": "w:gz", ".bz2": "w:bz2"}.get(path.suffix, "w")
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data) if kind == tarfile.REGTYPE else 0
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry, io.BytesIO(data))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz", "a.tgz.bz2", "no_ending"])
def test_files_come_out_as_they_went_in(tmp_path, name):
    path = (write_zip if name == "a.zip" else write_tar)(tmp_path / name, FILES)
    assert is_archive(path)
    with unpacked(path) as folder:
        assert contents(folder) == FILES
    assert not folder.exists()


def test_a_packed_folder(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "options.json").write_text("{}", "utf8")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "model", arcname=".")
    with unpacked(tmp_path / "a.tar") as folder:
        assert contents(folder) == {"options.json": b"{}"}


def test_other_files_are_no_archives(tmp_path):
    torch.save({"a": torch.zeros(2)}, tmp_path / "weights.pth")
    (tmp_path / "text").write_bytes(b"PK is how this text begins")
    for path in (tmp_path / "weights.pth", tmp_path / "text", tmp_path / "absent", tmp_path):
        assert not is_archive(path)


@pytest.mark.parametrize(
    "name", ["../out", "/tmp/out", "a/../../out", "..\\out", "C:/out", "C:\\out", "a/../b"]
)
@pytest.mark.parametrize("write", [write_zip, write_tar])
def test_nothing_leads_outside(tmp_path, name, write):
    path = write(tmp_path / "evil", {"options.json": b"{}", name: b"here"})
    with pytest.raises(MalformedModelError, match="within the archive"), unpacked(path):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["evil"]


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused(tmp_path, kind):
    path = write_tar(tmp_path / "evil.tar", {"weights.hdf5": b"/etc/passwd"}, kind)
    with pytest.raises(MalformedModelError, match="a link"), unpacked(path):
        pass


def test_links_in_a_zip_are_refused(tmp_path):
    path = write_zip(tmp_path / "evil.zip", {"weights.hdf5": b"/etc/passwd"}, mode=0o120777)
    with pytest.raises(MalformedModelError, match="a link"), unpacked(path):
        pass


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz", "bomb.tar.bz2"])
def test_what_grows_beyond_reason_is_refused(tmp_path, name):
    write = write_zip if name == "bomb.zip" else write_tar
    path = write(tmp_path / name, {"zeros": bytes(40_000_000)})
    with pytest.raises(MalformedModelError, match=r"at most [0-9,]+ bytes"), unpacked(path):
        pass


def test_what_a_zip_declares_is_not_what_counts(tmp_path):
    """A size that is told too small hides nothing."""
    path = write_zip(tmp_path / "bomb.zip", {"zeros": bytes(9_000_000)})
    data = path.read_bytes().replace((9_000_000).to_bytes(4, "little"), (9).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(MalformedModelError), unpacked(path):
        pass


def test_too_many_files_and_one_name_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(unpacking, "MAX_ENTRIES", 3)
    path = write_zip(tmp_path / "many.zip", {f"f{i}": b"" for i in range(4)})
    with pytest.raises(MalformedModelError, match="at most 3 files"), unpacked(path):
        pass
    with tarfile.open(tmp_path / "twice.tar", "w") as archive:
        for _ in range(2):
            archive.addfile(tarfile.TarInfo("name"), io.BytesIO())
    with pytest.raises(MalformedModelError), unpacked(tmp_path / "twice.tar"):
        pass


@pytest.mark.parametrize("name", ["a.zip", "a.tar", "a.tar.gz"])
def test_damaged_archives(tmp_path, name):
    """Any byte changed, and any end cut off: a clear error, or the files."""
    whole = (write_zip if name == "a.zip" else write_tar)(tmp_path / name, FILES).read_bytes()
    draw = random.Random(0)
    path = tmp_path / "damaged"
    for n in range(200):
        data = bytearray(whole)
        if n % 2:
            data[draw.randrange(len(data))] ^= draw.randrange(1, 256)
        else:
            del data[draw.randrange(len(data)) :]
        path.write_bytes(data)
        try:
            with unpacked(path) as folder:
                contents(folder)
        except CtxvecError as error:
            assert str(path) in str(error)


def test_headers_of_tar_entries_are_bounded(tmp_path):
    """A name of many megabytes would be read whole before anybody could object."""
    path = tmp_path / "evil.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.GNU_FORMAT) as archive:
        archive.addfile(tarfile.TarInfo("x" * 5_000_000), io.BytesIO())
    with pytest.raises(MalformedModelError, match="too large"), unpacked(path):
        pass


def test_packing_that_may_need_any_memory(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("options.json", "{}")
    with pytest.raises(MalformedModelError, match="bzip2"), unpacked(path):
        pass
