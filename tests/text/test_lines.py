"""What is wrong with a line, and how much of it a file may have."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import lines
from spacy_ctxvec.text.lines import KINDS, MAX_CHARACTERS, MAX_PLACES, LineReader, Problems

GOOD = [f"line {i}" for i in range(200)]


def read(path, data: bytes) -> tuple[list[str], Problems]:
    path.write_bytes(data)
    problems = Problems()
    return list(LineReader(path, problems)), problems


def with_line(line: bytes, at: int = 100) -> bytes:
    data = [good.encode() for good in GOOD]
    return b"\n".join([*data[:at], line, *data[at:]])


@pytest.mark.parametrize(
    "data, expected",
    [
        (b"", []),
        (b"a\n\n b \n", ["a", "", "b"]),
        (b"a\r\n\r\nb\r\n", ["a", "", "b"]),
        (codecs.BOM_UTF8 + b"a\nb", ["a", "b"]),
        (" \u3000\t\nÜ\u2028ü".encode(), ["", "Ü\u2028ü"]),
    ],
)
def test_lines_are_stripped(tmp_path, data, expected):
    found, problems = read(tmp_path / "a.txt", data)
    assert found == expected and not problems.counts


@pytest.mark.parametrize(
    "line, kind, is_kept",
    [
        ("Ümläut".encode("latin1"), "not_utf8", False),
        (b"a\0b", "nul_bytes", False),
        (b"a\x1bb", "control_characters", True),
        (b"a\x7fb", "control_characters", True),
        (b"x" * (MAX_CHARACTERS + 1), "too_long", False),
        (("ü" * (MAX_CHARACTERS + 1)).encode(), "too_long", False),
        (b"x" * 1_000_000, "too_long", False),
    ],
)
def test_problems_are_counted_with_their_place(tmp_path, line, kind, is_kept):
    found, problems = read(tmp_path / "a.txt", with_line(line))
    assert problems.counts == {kind: 1} and kind in KINDS
    assert problems.places == {kind: ["a.txt, line 101"]}
    assert [text for text in found if text not in GOOD] == ([line.decode()] if is_kept else [])
    assert [text for text in found if text in GOOD] == GOOD


def test_as_long_as_a_line_may_be(tmp_path):
    line = "𝄞" * MAX_CHARACTERS
    found, problems = read(tmp_path / "a.txt", f"{line}\r\nb".encode())
    assert found == [line, "b"] and not problems.counts


def test_the_first_places_of_many_are_kept(tmp_path):
    _, problems = read(tmp_path / "a.txt", b"\x01\n" * 50)
    assert problems.counts["control_characters"] == 50
    assert problems.places["control_characters"] == [
        f"a.txt, line {i}" for i in range(1, MAX_PLACES + 1)
    ]


def test_more_than_one_per_cent_of_bad_lines_is_another_file_than_it_seems(tmp_path):
    two_bad = with_line(b"\xff\n\xfe")  # of 202 lines
    assert read(tmp_path / "a.txt", two_bad)[1].counts == {"not_utf8": 2}
    with pytest.raises(CtxvecError, match=r"b\.txt.*: 3 of 203 lines.*first in line 101.*UTF-8"):
        read(tmp_path / "b.txt", with_line(b"\xff\n\xfe\n\xfd"))


@pytest.mark.parametrize("encoding", ["latin1", "utf-16", "utf-16-le", "utf-32", "shift-jis"])
def test_other_encodings_are_refused(tmp_path, encoding):
    text = "こんにちは\n" if encoding == "shift-jis" else "Grüße aus München.\n"
    with pytest.raises(CtxvecError, match="convert the file to UTF-8"):
        read(tmp_path / "a.txt", (text * 100).encode(encoding))


def test_a_large_file_in_another_encoding_is_refused_before_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(lines, "LINES_BEFORE_REFUSAL", 100)
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xff\n" * 1000)
    reader = LineReader(path, Problems())
    with pytest.raises(CtxvecError, match="100 of 100 lines"):
        list(reader)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50))
def test_any_text_is_read(tmp_path_factory, text):
    found, problems = read(tmp_path_factory.mktemp("lines") / "a.txt", f"a{text}".encode())
    assert found == [line.strip() for line in f"a{text}".removesuffix("\n").split("\n")]
    assert not set(problems.counts) - {"control_characters"}


@given(data=st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(tmp_path_factory, data):
    try:
        found, _ = read(tmp_path_factory.mktemp("lines") / "a.txt", data)
    except CtxvecError:
        return
    assert "\n".join(found).split() == data.decode("utf-8-sig").split()
