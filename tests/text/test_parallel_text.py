"""Pairs from files of every form."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import parallel
from spacy_ctxvec.text.lines import Problems
from spacy_ctxvec.text.parallel import find_sources, read_pairs, sentences_of

PAIRS = [("Hi.", "Hallo!"), ("Hi.", "Grüß Gott!"), ("Two words", "Zwei Wörter")]
TSV = "".join(f"{source}\t{target}\tCC-BY\n" for source, target in PAIRS)
JSONL = "".join(json.dumps({"source": s, "target": t, "id": 1}) + "\n" for s, t in PAIRS)
SOURCES, TARGETS = ("\n".join(side) + "\n" for side in zip(*PAIRS))


def zstd(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


COMPRESS = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


def write(path: Path, text: str | bytes) -> Path:
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(COMPRESS[path.suffix if path.suffix in COMPRESS else ""](data))
    return path


def read(*sources, **kwargs) -> tuple[list[tuple[str, str]], Problems]:
    problems = Problems()
    return [pair[:2] for pair in read_pairs(sources, problems, **kwargs)], problems


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(
    "name, text", [("a.tsv", TSV), ("a.txt", TSV), ("a.jsonl", JSONL), ("a.txt", JSONL), ("a", TSV)]
)
def test_files_with_both_sides(tmp_path, name, text, compression):
    found, problems = read(write(tmp_path / (name + compression), text))
    assert found == PAIRS and problems == Problems()


@pytest.mark.parametrize("compression", COMPRESS)
def test_line_aligned_files(tmp_path, compression):
    source = write(tmp_path / f"a.en{compression}", SOURCES)
    target = write(tmp_path / "a.de", TARGETS)
    found, problems = read((source, str(target)))
    assert found == PAIRS and problems == Problems()


def test_sources_follow_each_other_with_their_places(tmp_path, monkeypatch):
    both, a, b = (tmp_path / name for name in ("both.tsv", "a.en", "a.de"))
    write(both, "s1\tt1\n\ns2\tt2\n")
    write(a, "s3\n")
    write(b, "t3\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"s4\tt4")))
    pairs = list(read_pairs([both, (a, b), "-"], Problems()))
    assert [pair.source for pair in pairs] == ["s1", "s2", "s3", "s4"]
    assert [pair.place for pair in pairs] == [
        "both.tsv, line 1",
        "both.tsv, line 3",
        "a.en, line 1",
        "-, line 1",
    ]


def test_columns_and_keys_can_be_chosen(tmp_path):
    tsv = write(tmp_path / "a.tsv", "1\tJa\tx\tYes\n2\tNein\tx\tNo\n")
    assert read(tsv, columns=(3, 1))[0] == [("Yes", "Ja"), ("No", "Nein")]
    jsonl = write(tmp_path / "a.jsonl", '{"en": "Yes", "de": "Ja"}')
    assert read(jsonl, keys=("de", "en"))[0] == [("Ja", "Yes")]
    with pytest.raises(CtxvecError, match=r"columns = \(-1, 0\).*counted from 0"):
        read(tsv, columns=(-1, 0))


def test_names_of_sources(tmp_path):
    for name in ("1.en", "1.de", "2.en", "2.de", "x.tsv", "y.spacy"):
        write(tmp_path / name, "a\tb")
    one, two = ((tmp_path / f"{i}.en", tmp_path / f"{i}.de") for i in (1, 2))
    found = find_sources([tmp_path, (tmp_path / "*.en", tmp_path / "*.de")])
    assert found == [tmp_path / "x.tsv", one, two]
    assert find_sources(found) == found
    assert find_sources([(one[0], one[0])]) == [(one[0], one[0])]


@pytest.mark.parametrize(
    "source, message",
    [
        ("gone.tsv", "No file in .* matches .*gone.tsv"),
        (("1.en", "gone.de"), "No file in .* matches .*gone.de"),
        (("*.en", "1.de"), r"\*\.en matches 2 file\(s\), and .*1\.de matches 1"),
        (("1.en", "1.de", "2.en"), "names no parallel text.*two line-aligned"),
    ],
)
def test_names_that_do_not_fit(tmp_path, source, message):
    for name in ("1.en", "1.de", "2.en"):
        write(tmp_path / name, "a")
    if isinstance(source, tuple):
        source = tuple(str(tmp_path / name) for name in source)
    else:
        source = tmp_path / source
    with pytest.raises(CtxvecError, match=message):
        read(source)


@pytest.mark.parametrize(
    "source, target", [("a\nb\nc\n", "a\nb"), ("a\nb\n", "a\nb\n\n"), ("", "a")]
)
def test_uneven_files_are_told_with_their_lines(tmp_path, source, target):
    a, b = write(tmp_path / "a.en", source), write(tmp_path / "b.de", target)
    n_source, n_target = len(source.splitlines()), len(target.splitlines())
    message = rf"a\.en has {n_source} lines, and .*b\.de has {n_target}\."
    with pytest.raises(CtxvecError, match=message):
        read((a, b))


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    "line, kind", [(b"\xff", "not_utf8"), (b"a\0", "nul_bytes"), (b"x" * 500_000, "too_long")]
)
def test_lines_stay_aligned_where_one_is_dropped(tmp_path, side, line, kind):
    numbers = [b"%d" % i for i in range(300)]
    sides = [numbers.copy(), numbers.copy()]
    for n in (100, 101, 299):
        sides[side][n] = line
    paths = [write(tmp_path / f"{i}.txt", b"\n".join(lines)) for i, lines in enumerate(sides)]
    found, problems = read(tuple(paths))
    expected = [str(i) for i in range(299) if i not in (100, 101)]
    assert found == [(number, number) for number in expected]
    assert problems.counts == {kind: 3}
    assert problems.places[kind] == [f"{side}.txt, line {n}" for n in (101, 102, 300)]


def test_files_in_another_encoding_are_refused(tmp_path):
    latin = write(tmp_path / "a.tsv", ("Grüße\tGrüße\n" * 10).encode("latin1"))
    with pytest.raises(CtxvecError, match=r"a\.tsv .*10 of 10 lines cannot be read"):
        read(latin)
    utf8 = write(tmp_path / "a.en", "greetings\n" * 10)
    with pytest.raises(CtxvecError, match=r"a\.tsv .*10 of 10 lines cannot be read"):
        read((utf8, latin))


@pytest.mark.parametrize("text", ["a\t\n", "\tb\n", "a\t \u3000\t x\n", "\t\tx\n"])
def test_pairs_with_an_empty_side_in_a_tsv(tmp_path, text):
    found, problems = read(write(tmp_path / "a.tsv", "s\tt\n" + text))
    assert found == [("s", "t")] and problems.counts == {"empty_side": 1}
    assert problems.places == {"empty_side": ["a.tsv, line 2"]}


def test_pairs_with_an_empty_side_in_other_forms(tmp_path):
    a, b = write(tmp_path / "a.en", "s\n\nx\n\n"), write(tmp_path / "a.de", "t\nx\n \n\n")
    found, problems = read((a, b))
    assert found == [("s", "t")] and problems.counts == {"empty_side": 3}
    assert problems.places == {"empty_side": [f"a.en, line {n}" for n in (2, 3, 4)]}
    records = '{"source": "s", "target": "t"}\n{"source": "s", "target": "  "}'
    found, problems = read(write(tmp_path / "a.jsonl", records))
    assert found == [("s", "t")] and problems.counts == {"empty_side": 1}


def test_files_without_pairs_are_noted(tmp_path):
    paths = [write(tmp_path / name, "") for name in ("a.tsv", "b.jsonl", "c.en", "c.de")]
    blank = write(tmp_path / "d.tsv", "\n \n\n")
    empty = write(tmp_path / "e.tsv", "a\t\n")
    found, problems = read(*paths[:2], tuple(paths[2:]), blank, empty)
    assert found == [] and problems.counts == {"empty_side": 1}
    assert problems.empty_files == ["a.tsv", "b.jsonl", "c.en", "d.tsv", "e.tsv"]


@pytest.mark.parametrize(
    "name, good, bad",
    [
        ("a.tsv", "s\tt", "no tab"),
        ("a.jsonl", '{"source": "s", "target": "t"}', '{"source": "s"}'),
        ("a.jsonl", '{"source": "s", "target": "t"}', '{"source": "s", "target": 3}'),
        ("a.jsonl", '{"source": "s", "target": "t"}', '{"source": "s", "target": "\\ud800"}'),
        ("a.jsonl", '{"source": "s", "target": "t"}', '{"source": "s", "target": "\\u0000"}'),
        ("a.jsonl", '{"source": "s", "target": "t"}', '["s", "t"]'),
        ("a.jsonl", '{"source": "s", "target": "t"}', "[" * 50_000),
        ("a.jsonl", '{"source": "s", "target": "t"}', '{"source": "s", "target": "cut'),
    ],
)
def test_lines_that_lack_a_side_are_left_out(tmp_path, name, good, bad):
    found, problems = read(write(tmp_path / name, "\n".join([good, bad, good])))
    assert found == [("s", "t")] * 2 and problems.counts == {"bad_record": 1}
    assert problems.places == {"bad_record": [f"{name}, line 2"]}


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("a.tsv", "one\ntwo\n", r"a\.tsv .*2 of 2 lines.*line 1\..*columns 0 and 1.*Set `columns`"),
        ("a.txt", "\na\tb\n\nb c\nd e\n", r"a\.txt .*2 of 3 lines.*first in line 4\."),
        ("a.jsonl", '{"text": "a"}', r"1 of 1.*\"source\" and \"target\".*Set `keys`"),
        ("a.txt", '{"text": "a"}', r"1 of 1 lines.*Set `keys`"),
        ("a.jsonl", "a\tb", r"1 of 1 lines.*Set `keys`"),
        ("a.tsv", '{"source": "a", "target": "b"}', r"1 of 1 lines.*Set `columns`"),
    ],
)
def test_files_that_hold_no_pairs_are_refused(tmp_path, name, text, message):
    with pytest.raises(CtxvecError, match=message):
        read(write(tmp_path / name, text))


def test_a_large_file_is_refused_before_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "LINES_BEFORE_REFUSAL", 10)
    with pytest.raises(CtxvecError, match="10 of 10 lines"):
        read(write(tmp_path / "a.tsv", "no tab\n" * 1000))


def test_oddities_of_unicode_and_of_line_ends(tmp_path):
    pairs = [("a\u2028b", "c\x85d"), ("\U0001f469\u200d\U0001f4bb", "שלום"), ("e\u0301", "\u00e9")]
    lines = ["\t".join(pair) for pair in [*pairs, ("\u00a0\u2003x ", "\u3000y")]]
    data = codecs.BOM_UTF8 + "\r\n".join(lines).encode()
    found, problems = read(write(tmp_path / "a.tsv", data))
    assert found == [*pairs, ("x", "y")] and not problems.counts
    aligned = [write(tmp_path / f"a{i}", "\r\n".join(side)) for i, side in enumerate(zip(*pairs))]
    assert read(tuple(aligned)) == (pairs, Problems())


SIDE = st.text(st.characters(codec="utf-8", exclude_characters="\0\t\r\n\ufeff"), max_size=9)


@settings(max_examples=25)
@given(pairs=st.lists(st.tuples(SIDE, SIDE), max_size=6))
def test_any_pairs_come_back_from_every_form(tmp_path_factory, pairs):
    folder = tmp_path_factory.mktemp("pairs")
    expected = [(s.strip(), t.strip()) for s, t in pairs if s.strip() and t.strip()]
    tsv = write(folder / "a.tsv", "".join(f"{s}\t{t}\n" for s, t in pairs))
    records = [json.dumps({"source": s, "target": t}, ensure_ascii=False) for s, t in pairs]
    jsonl = write(folder / "a.jsonl", "\n".join(records))
    sides = [write(folder / f"a{i}", "".join(f"{p[i]}\n" for p in pairs)) for i in (0, 1)]
    for source in (tsv, jsonl, tuple(sides)):
        assert read(source)[0] == expected


def test_files_are_read_as_streams(tmp_path):
    path = tmp_path / "a.tsv.gz"
    lines = "".join(f"s{i}\tt{i}\n" for i in range(50_000))
    path.write_bytes(gzip.compress(lines.encode())[:-20])
    pairs = read_pairs([path], Problems())
    assert next(pairs).place == "a.tsv.gz, line 1"  # long before the damage is met
    with pytest.raises(CtxvecError, match=r"a\.tsv\.gz"):
        list(pairs)


def test_sentences_of_a_file_and_as_they_are_given(tmp_path):
    path = write(tmp_path / "test.en.gz", "one\n\n two \none\n\x01three")
    problems = Problems()
    assert sentences_of(path, problems) == {"one", "two", "\x01three"}
    assert problems.places == {"control_characters": ["test.en.gz, line 5"]}
    assert sentences_of(["a", "a"], problems) == {"a"} and sentences_of((), problems) == set()
