"""Files of text as streams of bytes: plain, compressed, or standard input."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .. import errors

STANDARD_INPUT = "-"
UNREADABLE = (EOFError, OSError, lzma.LZMAError, zlib.error)
BLOCK = 1 << 14


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, decompressed by its ending; `-` is standard input.

    A file that is missing, damaged or cut off raises CtxvecError, when that part is read.
    """
    try:
        if str(path) == STANDARD_INPUT:
            yield sys.stdin.buffer
        else:
            with OPENERS.get(path.suffix, open)(path, "rb") as file:
                yield file
    except UNREADABLE as error:
        raise errors.CtxvecError(errors.UNREADABLE_TEXT.format(path=path, error=error)) from error


def uncompressed_name(path: Path) -> str:
    """The file's name without the ending of its compression."""
    return path.stem if path.suffix in OPENERS else path.name


class ZstdFile(io.RawIOBase):
    """The bytes of a Zstandard file. The packages' own readers take a cut file for a whole one."""

    def __init__(self, path: Path, mode: str = "rb"):
        self._new, self._error = zstd_decompressor(path)
        self._file = open(path, mode)  # noqa: SIM115  (closed by `close`)
        self._decompressor = self._new()
        self._started = False  # whether a frame has begun and not ended
        self._data = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._data:
            block = self._file.read(BLOCK)
            if not block:
                if self._started:
                    raise EOFError("the file ended before the end of the compressed data")
                return 0
            self._data = memoryview(self._decompress(block))
        n = min(len(buffer), len(self._data))
        buffer[:n] = self._data[:n]
        self._data = self._data[n:]
        return n

    def _decompress(self, block: bytes) -> bytes:
        parts = []
        while block:
            try:
                parts.append(self._decompressor.decompress(block))
            except self._error as error:
                raise OSError(str(error)) from error
            self._started, block = not self._decompressor.eof, self._decompressor.unused_data
            if not self._started:
                self._decompressor = self._new()
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()
        super().close()


def zstd_decompressor(path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """What makes a decompressor of one frame, and the error that it raises."""
    try:
        from compression import zstd  # type: ignore[import-not-found]

        return zstd.ZstdDecompressor, zstd.ZstdError
    except ImportError:
        pass
    try:
        import zstandard  # type: ignore[import-not-found]
    except ImportError as error:
        raise errors.CtxvecError(errors.NEEDS_ZSTANDARD.format(path=path)) from error
    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


def _open_zstd(path: Path, mode: str) -> IO[bytes]:
    return io.BufferedReader(ZstdFile(path, mode))


OPENERS: dict[str, Callable[..., Any]] = {
    ".bz2": bz2.open,
    ".gz": gzip.open,
    ".xz": lzma.open,
    ".zst": _open_zstd,
}
