"""TensorFlow's checkpoints are read as they were written, and refused where they are damaged."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from bundles import MAGIC, block, entry, header, message, stored, table, varint, write_index
from bundles import write_bundle as write

from spacy_ctxvec.errors import MalformedModelError
from spacy_ctxvec.formats.tensorflow import crc32c as checksums
from spacy_ctxvec.formats.tensorflow.bundle import MAX_INDEX, TensorBundle
from spacy_ctxvec.formats.tensorflow.crc32c import crc32c, masked


def random_tensors(n: int = 40) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = [(), (3,), (2, 3), (1, 2, 3, 4)]
    names = [f"lm/scope_{i // 7}/variable_{i}" for i in range(n)]
    return {
        name: random.normal(size=shapes[i % len(shapes)]).astype("float32")
        for i, name in enumerate(names)
    }


def read_all(index: Path) -> dict[str, np.ndarray]:
    bundle = TensorBundle.open(index)
    return {name: bundle.read(name, *bundle.shape(name)) for name in bundle.names()}


# --- Checksums


@pytest.mark.parametrize(
    "data, want",
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_known_checksums(data, want):
    assert crc32c(data) == want


@pytest.mark.parametrize("more", [-1, 0, 1, 5])
@pytest.mark.parametrize("n_words", [1, 2, 3, 65])
def test_lanes_give_the_checksum_of_the_whole(monkeypatch, n_words, more):
    n = 4 * checksums.LANES * n_words + more
    data = np.random.default_rng(0).integers(0, 256, n, dtype=np.uint8).tobytes()
    got = crc32c(data)
    monkeypatch.setattr(checksums, "LANES", n)
    assert got == crc32c(data)


# --- Whole files


@pytest.mark.parametrize("n_shards", [1, 3])
@pytest.mark.parametrize("per_block", [1, 7, 1000])
def test_every_tensor(tmp_path, n_shards, per_block):
    tensors = random_tensors()
    index = write(tmp_path / "model.ckpt-7", tensors, n_shards=n_shards, per_block=per_block)
    bundle = TensorBundle.open(index)
    assert bundle.names() == sorted(tensors)
    for name, want in tensors.items():
        assert bundle.shape(name) == want.shape
        got = bundle.read(name, *want.shape)
        assert got.dtype == np.float32 and got.tobytes() == want.tobytes()


def test_many_tensors_over_many_blocks(tmp_path):
    tensors = random_tensors(3000)
    got = read_all(write(tmp_path / "x", tensors, per_block=50))
    assert got.keys() == tensors.keys()
    assert all((got[name] == want).all() for name, want in tensors.items())


def test_a_tensor_that_is_read_in_lanes(tmp_path):
    want = np.random.default_rng(0).normal(size=(300, 700)).astype("float32")
    assert (read_all(write(tmp_path / "x", {"a": want}))["a"] == want).all()


def test_types(tmp_path):
    tensors = {
        "double": np.array([1.5, -2]),
        "half": np.array([1.5, -2], "float16"),
        "step": np.array(2**40),
        "short_step": np.array(7, "int32"),
        "perplexity": np.array(14.5, "float32"),
    }
    bundle = TensorBundle.open(write(tmp_path / "x", tensors))
    for name in ("double", "half"):
        assert bundle.read(name, 2).dtype == np.float32
        assert bundle.read(name, 2).tolist() == [1.5, -2]
    assert [bundle.scalar(name) for name in ("step", "short_step", "perplexity")] == [
        2**40, 7, 14.5,
    ]  # fmt: skip
    with pytest.raises(MalformedModelError, match="tensor step should be floating-point numbers"):
        bundle.read("step")
    with pytest.raises(MalformedModelError, match="tensor half should be a single number"):
        bundle.scalar("half")


def test_the_checkpoint_of_the_training_code(reference):
    folder = reference / "generated/tf_tiny"
    expected = json.loads((folder / "expected.json").read_text("utf8"))["checkpoint_variables"]
    index = folder / "ckpt/model.ckpt-300.index"
    bundle = TensorBundle.open(index)
    assert {name: list(bundle.shape(name)) for name in bundle.names()} == expected
    softmax = np.load(folder / "softmax.npz")
    assert (bundle.read("lm/softmax/W", 32, 8) == softmax["W"]).all()
    assert (bundle.read("lm/softmax/b", 32) == softmax["b"]).all()
    assert len(read_all(index)) == len(expected) and bundle.scalar("global_step") == 300


# --- Questions that have no answer


def test_what_is_asked_for_is_compared(tmp_path):
    bundle = TensorBundle.open(write(tmp_path / "x", {"a": np.zeros((2, 3), "float32")}))
    with pytest.raises(MalformedModelError, match=r"tensor a should be of shape \(3, 2\)"):
        bundle.read("a", 3, 2)
    with pytest.raises(MalformedModelError, match="tensor b should be present"):
        bundle.shape("b")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_none(tmp_path, value):
    tensors = {"a": np.array([1, value, 2], "float32"), "b": np.array(value, "float32")}
    bundle = TensorBundle.open(write(tmp_path / "x", tensors))
    with pytest.raises(MalformedModelError, match="finite number"):
        bundle.read("a", 3)
    with pytest.raises(MalformedModelError, match="finite number"):
        bundle.scalar("b")


# --- Damaged files


def spoiled(path: Path, change) -> None:
    """Every kind of exception but `MalformedModelError` fails the test that calls this."""
    whole = path.read_bytes()
    index = path.with_name("x.index")
    for number in range(200):
        path.write_bytes(change(whole, np.random.default_rng(number)))
        with pytest.raises(MalformedModelError, match=r"x\.index"):
            read_all(index)
    path.write_bytes(whole)


def cut(data: bytes, random: np.random.Generator) -> bytes:
    return data[: random.integers(len(data))]


def flipped(data: bytes, random: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[random.integers(len(data))] ^= 1 << random.integers(8)
    return bytes(changed)


def flipped_before_the_footer(data: bytes, random: np.random.Generator) -> bytes:
    return flipped(data[:-48], random) + data[-48:]  # its zeros mean nothing


@pytest.mark.parametrize("change", [cut, flipped_before_the_footer])
def test_an_index_damaged_anywhere(tmp_path, change):
    spoiled(write(tmp_path / "x", random_tensors(), per_block=10), change)


@pytest.mark.parametrize("change", [cut, flipped])
def test_data_damaged_anywhere(tmp_path, change):
    write(tmp_path / "x", random_tensors())
    spoiled(tmp_path / "x.data-00000-of-00001", change)


@pytest.mark.parametrize("part", ["block", "value", "footer"])
def test_damage_under_checksums_that_hold(tmp_path, part):
    """A reader that trusted them would be led astray; most of this is refused, some is another
    name or number of little consequence."""
    tensors = random_tensors(12)
    index = write(tmp_path / "x", tensors)
    whole = index.read_bytes()
    pairs = [(b"", header())]
    for i, (name, array) in enumerate(sorted(tensors.items())):
        offset = sum(a.nbytes for _, a in sorted(tensors.items())[:i])
        crc = masked(crc32c(array.tobytes()))
        place = 0, offset, array.nbytes, crc
        pairs.append((name.encode(), entry(1, array.shape, *place)))
    n_refused = 0
    for number in range(300):
        random = np.random.default_rng(number)
        if part == "block":
            data = table([flipped(block(pairs), random)])
        elif part == "value":
            changed = list(pairs)
            chosen = random.integers(len(pairs))
            changed[chosen] = pairs[chosen][0], flipped(pairs[chosen][1], random)
            data = table([block(changed)])
        else:
            data = whole[:-48] + flipped(whole[-48:], random)
        index.write_bytes(data)
        try:
            read_all(index)
        except MalformedModelError:
            n_refused += 1
    assert n_refused > (50 if part == "footer" else 150)


# --- Hostile files


def write_entry(folder: Path, *fields, more=(), first: bytes | None = None) -> Path:
    """An index with one tensor "a", beside 24 bytes of data."""
    (folder / "x.data-00000-of-00001").write_bytes(bytes(24))
    pairs = [(b"", header() if first is None else first), (b"a", entry(*fields, *more))]
    return write_index(folder / "x", table([block(pairs)]))


ZEROS = masked(crc32c(bytes(24)))


@pytest.mark.parametrize(
    "fields, expected",
    [
        ((1, (10**9, 10**9), 0, 0, 24, ZEROS), "4000000000000000000 bytes"),
        ((1, (10**9,), 0, 0, 4 * 10**9, ZEROS), "a file of 24 bytes"),
        ((1, (2**62, 2**62), 0, 0, 0, ZEROS), "bytes, as its shape"),
        ((1, (0, 6), 0, 0, 24, ZEROS), "0 bytes, as its shape"),
        ((1, (-6,), 0, 0, 24, ZEROS), "unknown shape"),
        ((1, (6,), 0, 4, 24, ZEROS), "a file of 24 bytes"),
        ((1, (6,), 0, 2**62, 24, ZEROS), "a file of 24 bytes"),
        ((1, (6,), 0, -8, 24, ZEROS), "from byte -8"),
        ((1, (6,), 0, 0, -24, ZEROS), "a tensor of -24 bytes"),
        ((1, (6,), 0, 0, 20, ZEROS), "should be 24 bytes"),
        ((1, (6,), 1, 0, 24, ZEROS), "in one of 1 shards"),
        ((1, (6,), -1, 0, 24, ZEROS), "of shard -1"),
        ((1, (6,), 2**40, 0, 24, ZEROS), "in one of 1 shards"),
        ((1, (6,), 0, 0, 24, ZEROS ^ 1), "what was written"),
        ((7, (6,), 0, 0, 24, ZEROS), "floating-point numbers"),
        ((0, (6,), 0, 0, 24, ZEROS), "floating-point numbers"),
        ((14, (6,), 0, 0, 24, ZEROS), "floating-point numbers"),
    ],
)
def test_entries_that_cannot_be(tmp_path, fields, expected):
    with pytest.raises(MalformedModelError, match=expected):
        read_all(write_entry(tmp_path, *fields))


FINE = 1, (6,), 0, 0, 24, ZEROS


def test_an_entry_that_can_be(tmp_path):
    assert read_all(write_entry(tmp_path, *FINE))["a"].tolist() == [0] * 6


@pytest.mark.parametrize(
    "more, expected",
    [
        ((7, b""), "partitioned variable"),
        ((2, message((3, 1))), "unknown shape"),
        ((2, message((2, b"\x08\xff"))), "no number of at most 64 bits"),
        ((2, 3), "field 2 of a message is of another type"),
        ((4, b"text"), "field 4 of a message is of another type"),
    ],
)
def test_entries_with_more(tmp_path, more, expected):
    with pytest.raises(MalformedModelError, match=expected):
        read_all(write_entry(tmp_path, *FINE, more=[more]))


@pytest.mark.parametrize(
    "first, expected",
    [
        (header(0), "0 shards"),
        (header(-1), "shards"),
        (header(10**9), "1000000000 shards"),
        (header(1, order=1), "most significant byte first"),
        (header(1, least_version=2), "version 2 or later"),
        (b"\x08", "no number"),
        (b"\x0b\x01", "of no known type"),
        (b"\x12\xff\xff\xff\xff\x7f", "cut off"),
        (b"\x3d\x01", "cut off"),
    ],
)
def test_headers_that_cannot_be(tmp_path, first, expected):
    with pytest.raises(MalformedModelError, match=expected):
        read_all(write_entry(tmp_path, *FINE, first=first))


def test_parts_of_partitioned_tensors_are_passed_over(tmp_path):
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(24))
    pairs = [(b"", header()), (b"\x00\x01\xff part", entry(*FINE)), (b"b", entry(*FINE))]
    assert TensorBundle.open(write_index(tmp_path / "x", table([block(pairs)]))).names() == ["b"]


def test_tensors_that_share_bytes(tmp_path):
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(24))
    pairs = [(b"", header()), (b"a", entry(*FINE)), (b"b", entry(1, (5,), 0, 4, 20, 0))]
    with pytest.raises(MalformedModelError, match="two tensors at byte 4"):
        TensorBundle.open(write_index(tmp_path / "x", table([block(pairs)])))


def restarts(contents: bytes, n: int = 1) -> bytes:
    return contents + bytes(4) + n.to_bytes(4, "little")


BAD_TABLES = {
    "no blocks": (table([]), "no entry"),
    "an empty block": (table([restarts(b"")]), "no entry"),
    "no header": (table([block([(b"a", b"")])]), "no header"),
    "keys that fall": (table([block([(b"", header()), (b"b", b""), (b"a", b"")])]), "not greater"),
    "a key twice": (
        table([block([(b"", header()), (b"a", b"")]), block([(b"a", b"")])]),
        "greater",
    ),
    "a key that is no text": (table([block([(b"", header()), (b"\xff", b"")])]), "utf-8"),
    "a long key": (table([block([(b"", header()), (b"a" * 2000, b"")])]), "2000 bytes"),
    "more shared than there is": (table([restarts(varint(5) + b"\x01\x00a")]), r"5 \+ 1 bytes"),
    "a key cut off": (table([restarts(b"\x00\x64\x00a")]), r"0 \+ 100 bytes"),
    "a value cut off": (table([restarts(b"\x00\x00" + varint(2**60))]), "a value of 1152"),
    "an endless varint": (table([restarts(b"\xff" * 40)]), "no number of at most 64 bits"),
    "a varint of 70 bits": (table([restarts(b"\xff" * 9 + b"\x7f" + bytes(9))]), "64 bits"),
    "restarts without end": (table([restarts(b"\x00\x00\x00", 2**32 - 1)]), "restarts"),
    "a tiny block": (table([b"\x00"]), "a block of 1 bytes"),
    "snappy": (table([block([(b"", header())])], compression=1), r"compressed \(snappy\)"),
    "another compression": (table([block([(b"", header())])], compression=7), r"compressed \(7\)"),
    "no magic": (table([block([(b"", header())])])[:-1] + b"x", "does not end as such tables do"),
    "nothing": (b"", "does not end"),
    "the magic alone": (MAGIC, "does not end"),
    "a footer of varints": (b"\xff" * 40 + MAGIC, "no number of at most 64 bits"),
    "a block far away": (b"\0\0" + varint(2**50) + varint(8) + bytes(29) + MAGIC, "a block from"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_tables_that_cannot_be(tmp_path, name):
    data, expected = BAD_TABLES[name]
    with pytest.raises(MalformedModelError, match=expected):
        TensorBundle.open(write_index(tmp_path / "x", data))


def test_blocks_that_overlap(tmp_path):
    contents = block([(b"", header())])
    data = stored(contents, 0)
    handle = varint(0) + varint(len(contents))
    index = block([(b"a", handle), (b"b", handle)])
    footer = bytes([0, 0]) + varint(len(data)) + varint(len(index))
    data += stored(index, 0) + footer.ljust(40, b"\0") + MAGIC
    with pytest.raises(MalformedModelError, match="overlaps"):
        TensorBundle.open(write_index(tmp_path / "x", data))


def test_more_tensors_than_there_can_be(tmp_path):
    pairs = [(b"", header()), *((b"%06d" % i, b"") for i in range(20_001))]
    with pytest.raises(MalformedModelError, match="more than 20000 keys"):
        TensorBundle.open(write_index(tmp_path / "x", table([block(pairs)])))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(MalformedModelError, match="no such file"):
        TensorBundle.open(tmp_path / "x.index")
    with pytest.raises(MalformedModelError, match="no such file"):
        TensorBundle.open(tmp_path)
    index = write(tmp_path / "x", random_tensors())
    (tmp_path / "x.data-00000-of-00001").unlink()
    with pytest.raises(MalformedModelError, match="a file of 0 bytes"):
        read_all(index)


def test_an_index_as_large_as_data(tmp_path):
    with (tmp_path / "x.index").open("wb") as file:
        file.truncate(MAX_INDEX + 1)
    with pytest.raises(MalformedModelError, match="more than any index needs"):
        TensorBundle.open(tmp_path / "x.index")
