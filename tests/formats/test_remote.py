"""Downloads: whole or not at all, continued where they broke off, and checked."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats import remote
from spacy_ctxvec.formats.remote import fetched, is_remote, known_models, sources_of

DATA = bytes(range(256)) * 20_000  # several blocks
SHA256 = hashlib.sha256(DATA).hexdigest()


class Server(BaseHTTPRequestHandler):
    """A file at every path. What the path holds says how it is served."""

    requests: list[tuple[str, str | None]] = []  # noqa: RUF012  (as the library has it)
    etag = '"1"'

    def do_GET(self):
        start, asked = 0, self.headers.get("Range")
        self.requests.append((self.path, asked))
        if "absent" in self.path:
            self.send_error(404)
            return
        if "moved" in self.path:
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1:9/x")
            self.end_headers()
            return
        if asked and "norange" not in self.path and self.headers.get("If-Range") == self.etag:
            start = int(asked.removeprefix("bytes=").removesuffix("-"))
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(DATA) - start))
        self.send_header("ETag", self.etag)
        self.end_headers()
        breaks = "breaks" in self.path and len(self.requests) == 1
        self.wfile.write(DATA[start : 3_000_000 if breaks else None])

    def log_message(self, *arguments):
        pass


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("CTXVEC_CACHE", str(tmp_path / "cache"))
    Server.requests, Server.etag = [], '"1"'
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_file_comes_once(address):
    told = []
    path = fetched(f"{address}/a/m%20odel.zip", lambda *now: told.append(now), sha256=SHA256)
    assert path.read_bytes() == DATA and path.name == "m_20odel.zip".replace("_20", "_")
    assert told[-1] == (path.name, len(DATA), len(DATA)) and len(told) > 3
    assert fetched(f"{address}/a/m%20odel.zip", sha256=SHA256) == path
    assert len(Server.requests) == 1
    assert {p.name for p in path.parent.iterdir()} == {path.name, "lock"}


@pytest.mark.parametrize("name", ["breaks", "breaks_norange"])
def test_what_broke_off_goes_on(address, name):
    with pytest.raises(CtxvecError, match="goes on from there"):
        fetched(f"{address}/{name}", sha256=SHA256)
    assert fetched(f"{address}/{name}", sha256=SHA256).read_bytes() == DATA
    assert [asked for _, asked in Server.requests] == [None, "bytes=3000000-"]


def test_another_file_is_not_sewn_to_the_start_of_the_first(address):
    with pytest.raises(CtxvecError):
        fetched(f"{address}/breaks", sha256=SHA256)
    Server.etag = '"2"'
    assert fetched(f"{address}/breaks", sha256=SHA256).read_bytes() == DATA


def test_another_checksum(address):
    with pytest.raises(CtxvecError, match="Check the address"):
        fetched(f"{address}/a", sha256="0" * 8)
    path = fetched(f"{address}/a", sha256=SHA256[:8])
    assert path.read_bytes() == DATA
    with pytest.raises(
        CtxvecError, match=r"Check the address.*delete .*/a "
    ):  # what was right stays
        fetched(f"{address}/a", sha256="0" * 64)
    assert path.exists()
    with pytest.raises(CtxvecError, match="8 hexadecimal"):
        fetched(f"{address}/a", sha256="0")


def test_what_is_not_there(address, tmp_path):
    with pytest.raises(CtxvecError, match="404"):
        fetched(f"{address}/absent", sha256=SHA256)
    with pytest.raises(CtxvecError, match="redirected"):
        fetched(f"{address}/moved", sha256=SHA256)
    assert {p.name for p in (tmp_path / "cache").rglob("*") if p.is_file()} == {"lock"}
    with pytest.raises(CtxvecError, match="Cannot download"):
        fetched("http://127.0.0.1:9/nobody/listens", sha256=SHA256)


def test_open_connections_need_a_checksum(address):
    with pytest.raises(CtxvecError, match="--sha256"):
        fetched(f"{address}/a")
    for name in ("ftp://host/file", "file:///etc/passwd", "hf://no_owner"):
        with pytest.raises(CtxvecError, match="no address"):
            fetched(name)
    assert not Server.requests


def test_a_full_disk_is_told_before(address, monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(remote.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(CtxvecError, match="CTXVEC_CACHE"):
        fetched(f"{address}/a", sha256=SHA256)


def test_names():
    files = [source.address for source in sources_of("hf://owner/elmo-x@v1/small")]
    start = "https://huggingface.co/owner/elmo-x/resolve/v1/small/"
    assert files == [start + "options.json", start + "weights.hdf5"]
    assert "/resolve/main/options.json" in sources_of("hf://owner/elmo")[0].address
    pair = [source.address for source in sources_of("https://host/elmo_pt_weights.hdf5")]
    assert pair == ["https://host/elmo_pt_options.json", "https://host/elmo_pt_weights.hdf5"]
    asked = sources_of("https://host/weights.hdf5?download=true")
    assert asked[0].address == "https://host/options.json?download=true"
    assert is_remote("hf://owner/elmo") and not is_remote("folder/of/a/model")


def test_known_models(tmp_path, monkeypatch):
    assert {"elmo-small", "elmo-original", "cove"} <= known_models().keys()
    for name, model in known_models().items():
        assert is_remote(name) and model["about"]
        assert all(source.address.startswith("https://") for source in sources_of(name))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cove").mkdir()
    assert not is_remote("cove")  # a folder of that name is meant


def test_two_downloads_of_one_model_at_once(address):
    found: list[Path] = []

    def fetch() -> None:
        found.append(fetched(f"{address}/a", sha256=SHA256))

    threads = [threading.Thread(target=fetch) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.read_bytes() == DATA for path in found] == [True] * 4
    assert len(Server.requests) == 1


def test_a_new_file_in_place_of_the_old_one_leaves_nothing_of_it(address, monkeypatch):
    """A run that ends between the new answer and its first byte must not mix the two."""
    with pytest.raises(CtxvecError):
        fetched(f"{address}/breaks", sha256=SHA256)
    Server.etag = '"2"'
    usage = type("Usage", (), {"free": 1000})
    with monkeypatch.context() as patched, pytest.raises(CtxvecError, match="CTXVEC_CACHE"):
        patched.setattr(remote.shutil, "disk_usage", lambda path: usage)
        fetched(f"{address}/breaks", sha256=SHA256)
    assert fetched(f"{address}/breaks", sha256=SHA256).read_bytes() == DATA
    assert Server.requests[-1][1] is None
