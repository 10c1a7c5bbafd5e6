"""Archives from elsewhere, unpacked: nothing lands outside, and nothing grows without bound."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath, PureWindowsPath
from tempfile import TemporaryDirectory
from typing import IO

from .. import errors

MAX_ENTRIES = 10_000
# Weights hardly shrink; text shrinks to a fifth. What grows more than this is meant to do harm.
MAX_GROWTH = 50
LEAST_LIMIT = 1 << 20  # so small an archive may grow to this, whatever its own size
BLOCK = 1 << 20
TAR_STARTS = (b"\x1f\x8b", b"BZh")  # not xz, which may ask for gigabytes of memory
USTAR = slice(257, 262)
ZIP_KINDS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
MAX_HEADER = 1 << 16  # of a tar's entry; names are short
FAULTS = (
    EOFError, NotImplementedError, OSError, RuntimeError, UnicodeError, ValueError,
    lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def is_archive(path: Path) -> bool:
    """Whether a file begins as those of zip or tar do; what `torch.save` wrote is no archive."""
    try:
        with path.open("rb") as file:
            start = file.read(512)
    except OSError:
        return False
    if start.startswith(b"PK\x03\x04"):
        return not _is_of_torch(path)
    return start.startswith(TAR_STARTS) or start[USTAR] == b"ustar"


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """A temporary folder with the files of a zip or tar archive.

    MalformedModelError for links, paths that lead outside, more bytes than weights could shrink
    to, and whatever cannot be read.
    """
    with TemporaryDirectory(prefix="ctxvec-") as name:
        folder = Path(name)
        limit = max(LEAST_LIMIT, MAX_GROWTH * path.stat().st_size)
        try:
            with path.open("rb") as file:
                is_zip = file.read(2) == b"PK"
            (_unpack_zip if is_zip else _unpack_tar)(path, folder, Room(path, limit))
        except errors.CtxvecError:
            raise
        except FAULTS as error:
            raise errors.malformed_model(path, "content", "a whole archive", error) from error
        yield folder


class Room:
    """How much may still be unpacked."""

    def __init__(self, path: Path, limit: int):
        self.path = path
        self.limit = limit
        self.n_bytes = 0
        self.n_entries = 0

    def place(self, folder: Path, name: str) -> Path:
        """Where an entry of this name goes."""
        self.n_entries += 1
        if self.n_entries > MAX_ENTRIES:
            raise self.malformed("content", f"at most {MAX_ENTRIES:,} files", "more")
        parts = PurePosixPath(name).parts
        leads_out = name.startswith("/") or ".." in parts or "\\" in name or "\0" in name
        if leads_out or PureWindowsPath(name).drive:
            raise self.malformed("names", "within the archive", repr(name[:200]))
        return folder.joinpath(*parts)

    def copy(self, source: IO[bytes], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            while block := source.read(BLOCK):
                self.n_bytes += len(block)
                if self.n_bytes > self.limit:
                    raise self.malformed("content", f"at most {self.limit:,} bytes", "more")
                file.write(block)

    def malformed(self, field: str, expected: str, found: str) -> errors.MalformedModelError:
        return errors.malformed_model(self.path, field, expected, found)


def _unpack_zip(path: Path, folder: Path, room: Room) -> None:
    with zipfile.ZipFile(path) as archive:
        for entry in archive.infolist():
            target = room.place(folder, entry.filename)
            if entry.compress_type not in ZIP_KINDS:
                raise room.malformed("entries", "deflated, or packed by bzip2", entry.filename)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
                raise room.malformed("entries", "files and folders", f"{entry.filename}, a link")
            if not entry.is_dir():
                with archive.open(entry) as source:
                    room.copy(source, target)


def _unpack_tar(path: Path, folder: Path, room: Room) -> None:
    with tarfile.open(path, "r|*", tarinfo=_Entry) as archive:
        for entry in archive:
            target = room.place(folder, entry.name)
            if not (entry.isreg() or entry.isdir()):
                raise room.malformed("entries", "files and folders", f"{entry.name}, a link")
            source = archive.extractfile(entry) if entry.isreg() else None
            if source is not None:
                room.copy(source, target)


class _Entry(tarfile.TarInfo):
    """Headers of headers, with long names and the like, are read whole before anybody is asked."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE) and self.size > MAX_HEADER:
            raise tarfile.HeaderError("a header of its own is too large")
        return super()._proc_member(tar)  # type: ignore[misc]


def _is_of_torch(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("/data.pkl") for name in archive.namelist())
    except FAULTS:
        return False
