"""Models at an address: downloaded once, in parts if need be, and checked.

    https://HOST/PATH                     a file; of `...weights.hdf5` its `...options.json` as well
    hf://OWNER/NAME[@REVISION][/FOLDER]   `options.json` and `weights.hdf5` of a Hugging Face model
    NAME                                  a public model in `known_models.json`

What comes over an open connection (http://) is only taken if its checksum is told.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

from .. import __version__, errors
from ..assets import FOLDER

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None

CACHE_VARIABLE = "CTXVEC_CACHE"
KNOWN_FILE = "known_models.json"
SECURE = ("https",)
HUGGING_FACE = "https://huggingface.co/{model}/resolve/{revision}/{file}"
HF_ADDRESS = re.compile(r"hf://([\w.-]+/[\w.-]+)(?:@([\w.-]+))?(?:/(.*?))?/?")
HF_FILES = ("options.json", "weights.hdf5")
WEIGHTS_END, OPTIONS_END = "weights.hdf5", "options.json"
BLOCK = 1 << 20
SECONDS = 60.0  # without a byte

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Source:
    """A file to download; `sha256` begins its checksum, where that is known."""

    address: str
    sha256: str = ""

    @property
    def name(self) -> str:
        name = unquote(urlsplit(self.address).path).rsplit("/", 1)[-1]
        return re.sub(r"[^\w.-]", "_", name).lstrip(".") or "model"


def is_remote(name: str) -> bool:
    """Whether `name` is an address, or a known model and no path that exists."""
    return "://" in name or (name in known_models() and not Path(name).exists())


def known_models() -> dict[str, dict[str, Any]]:
    """Public models: `about` each, and its `files`, with the start of the sha256 where known."""
    return json.loads((FOLDER / KNOWN_FILE).read_text("utf8"))


def fetched(
    name: str, progress: Progress = lambda file, done, total: None, *, sha256: str = ""
) -> Path:
    """The downloaded model: its file, or the folder of its files.

    progress: is told the file, the bytes there are, and how many there will be, if that is known
    sha256: that the last of the files must have, or how it begins

    A download that breaks off is continued the next time. CtxvecError for what cannot be had, and
    for a file with another checksum, which is deleted if it has just come.
    """
    sources = sources_of(name)
    if sha256:
        if not re.fullmatch("[0-9a-fA-F]{8,64}", sha256):
            raise errors.CtxvecError(errors.BAD_CHECKSUM.format(found=sha256))
        sources[-1] = Source(sources[-1].address, sha256.lower())
    for source in sources:
        _check_scheme(source)
    key = hashlib.sha256("\n".join(source.address for source in sources).encode()).hexdigest()[:16]
    folder = cache_folder() / key
    folder.mkdir(parents=True, exist_ok=True)
    with _alone_in(folder):
        for source in sources:
            path = folder / source.name
            is_new = not path.exists()
            if is_new:
                _download(source, path, progress)
            _check(source, path, is_new=is_new)
    return folder / sources[0].name if len(sources) == 1 else folder


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Another process that downloads the same model waits for this one, where the system can."""
    with (folder / "lock").open("w") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def cache_folder() -> Path:
    """Where downloads are kept; the environment may name another place."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else Path.home() / ".cache" / "spacy-ctxvec"


def sources_of(name: str) -> list[Source]:
    """The files behind a name, weights last."""
    if found := HF_ADDRESS.fullmatch(name):
        model, revision, folder = found.groups()
        files = [f"{folder}/{file}" if folder else file for file in HF_FILES]
        return [
            Source(HUGGING_FACE.format(model=model, revision=revision or "main", file=file))
            for file in files
        ]
    if name in (known := known_models()):
        return [Source(**file) for file in known[name]["files"]]
    address = urlsplit(name)
    if address.path.endswith(WEIGHTS_END):
        path = address.path.removesuffix(WEIGHTS_END) + OPTIONS_END
        return [Source(address._replace(path=path).geturl()), Source(name)]
    return [Source(name)]


def _check_scheme(source: Source) -> None:
    scheme = urlsplit(source.address).scheme
    if scheme == "http" and not source.sha256:
        raise errors.CtxvecError(errors.OPEN_CONNECTION.format(address=source.address))
    if scheme not in (*SECURE, "http"):
        raise errors.CtxvecError(errors.BAD_ADDRESS.format(found=source.address))


def _download(source: Source, path: Path, progress: Progress) -> None:
    """Write the file under another name, from where an earlier download ended."""
    part, tag = path.with_name(path.name + ".part"), path.with_name(path.name + ".etag")
    headers = {"User-Agent": f"spacy-ctxvec/{__version__}"}
    if part.exists() and tag.exists():  # only of the same file are the rest and the start one
        headers |= {"Range": f"bytes={part.stat().st_size}-", "If-Range": tag.read_text("utf8")}
    try:
        with _opener().open(Request(source.address, headers=headers), timeout=SECONDS) as response:
            if response.status != 206:
                part.unlink(missing_ok=True)
                tag.unlink(missing_ok=True)
            total = _receive(response, part, tag, partial(progress, source.name))
        if total is not None and part.stat().st_size != total:
            raise _failed(source, f"{part.stat().st_size:,} of {total:,} bytes came")
        os.replace(part, path)
        tag.unlink(missing_ok=True)
    except errors.CtxvecError:
        raise
    except HTTPError as error:
        if error.code == 416:  # nothing is left to be sent, or another file lies there now
            part.unlink(missing_ok=True)
        raise _failed(source, f"{error.code} {error.reason}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise _failed(source, error) from error


def _receive(
    response: Any, part: Path, tag: Path, progress: Callable[[int, int | None], None]
) -> int | None:
    """Append what comes to `part`; how long the file is to be, if that is known."""
    done = part.stat().st_size if part.exists() else 0
    length = response.headers.get("Content-Length")
    total = done + int(length) if length else None
    _check_room(part, total)
    with part.open("ab") as file:
        _keep_tag(response.headers.get("ETag"), tag)
        while block := response.read(BLOCK):
            file.write(block)
            done += len(block)
            progress(done, total)
    return total


def _keep_tag(etag: str | None, path: Path) -> None:
    if etag and not etag.startswith("W/"):  # a weak one promises no equal bytes
        path.write_text(etag, "utf8")
    else:
        path.unlink(missing_ok=True)


def _check_room(path: Path, total: int | None) -> None:
    free = shutil.disk_usage(path.parent).free
    if total is not None and total > free:
        message = errors.NO_ROOM.format(folder=path.parent, needed=total, free=free)
        raise errors.CtxvecError(message + f" {CACHE_VARIABLE} names another folder.")


def _check(source: Source, path: Path, *, is_new: bool) -> None:
    if not source.sha256:
        return
    found = sha256_of(path)
    if not found.startswith(source.sha256):
        message = errors.WRONG_CHECKSUM.format(
            address=source.address, found=found, expected=source.sha256
        )
        if is_new:
            path.unlink()
        else:  # the checksum that was asked for may be wrong
            message += f" {errors.DOWNLOADED_BEFORE.format(path=path)}"
        raise errors.CtxvecError(message)


class _SecureRedirects(HTTPRedirectHandler):
    """From an encrypted address to an open one is no way."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str):
        was, becomes = urlsplit(req.full_url).scheme, urlsplit(newurl).scheme
        if becomes not in (*SECURE, was):
            raise HTTPError(newurl, code, f"redirected to {newurl[:200]}", headers, fp)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _opener() -> OpenerDirector:
    return build_opener(_SecureRedirects)


def _failed(source: Source, error: object) -> errors.CtxvecError:
    return errors.CtxvecError(errors.DOWNLOAD_FAILED.format(address=source.address, error=error))


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()
