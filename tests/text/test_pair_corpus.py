"""Corpora of pairs from files, as they lie on disk in the end."""

from __future__ import annotations

import bz2
import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import pair_corpus, tokenizing
from spacy_ctxvec.text.building import build_corpus
from spacy_ctxvec.text.corpus import SPECIALS, Corpus
from spacy_ctxvec.text.pair_corpus import PairCorpus, build_pair_corpus
from spacy_ctxvec.text.pair_tokenizing import PairTokenizer
from spacy_ctxvec.text.parallel import Pair
from spacy_ctxvec.text.settings import check_settings, pair_settings_of
from spacy_ctxvec.text.splitting import part_of

LANGS = {"source_lang": "en", "target_lang": "de"}
TEXT = "Hi, you!\tHallo!\nHi, you!\tGrüß Gott!\nDon't.\tNein, im Haus.\n"


def build(folder: Path, text: str, **kwargs) -> PairCorpus:
    """A corpus in `folder` / "pairs" of a TSV with `text`."""
    (folder / "a.tsv").write_text(text, "utf8")
    return build_pair_corpus([folder / "a.tsv"], folder / "pairs", **{**LANGS, **kwargs})


def text_of(pairs: PairCorpus) -> list[tuple[str, str]]:
    return [
        tuple(
            " ".join(side.types[i] for i in ids)
            for side, ids in zip((pairs.source, pairs.target), pairs.pair(number))
        )
        for number in range(len(pairs))
    ]


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_both_sides_are_corpora_of_their_words(tmp_path):
    pairs = build(tmp_path, TEXT)
    assert text_of(pairs) == [
        ("hi , you !", "hallo !"),
        ("hi , you !", "grüß gott !"),
        ("do n't .", "nein , im haus ."),
    ]
    assert len(pairs) == 3 and pairs.lengths.tolist() == [[4, 2], [4, 3], [3, 5]]
    assert pairs.source.types == [*SPECIALS, "!", ",", "hi", "you", ".", "do", "n't"]
    assert pairs.source.counts.tolist() == [0, 0, 0, 2, 2, 2, 2, 1, 1, 1]
    assert pairs.target.types[:4] == [*SPECIALS, "!"]
    for side in ("source", "target"):
        one = Corpus.open(tmp_path / "pairs" / side)
        assert one.types == getattr(pairs, side).types and one.meta["n_pieces"] == 3


def test_what_is_told_about_a_corpus(tmp_path):
    meta = build(tmp_path, TEXT + "Hi , you!\tHALLO !\n", meta={"mine": 1}).meta
    assert meta["mine"] == 1 and meta["n_pairs"] == 4
    assert set(meta["files"]) == {"source/meta.json", "target/meta.json"}
    assert meta["problems"] == {
        "not_utf8": 0,
        "nul_bytes": 0,
        "bad_record": 0,
        "too_long": 0,
        "control_characters": 0,
        "empty_side": 0,
        "too_many_tokens": 0,
        "excluded_source": 0,
        "empty_files": [],
        "places": {},
        "duplicate_pairs": 1,
    }


def test_words_keep_their_case_if_asked(tmp_path):
    pairs = build(tmp_path, TEXT + "NOUN İ\tSTRASSE ΣΑΣ\n", lower=False)
    assert text_of(pairs)[0] == ("Hi , you !", "Hallo !")
    assert text_of(pairs)[3] == ("NOUN İ", "STRASSE ΣΑΣ")
    assert text_of(build(tmp_path, "NOUN İ\tSTRASSE ΣΑΣ\n")) == [("noun i̇", "strasse σας")]


def test_pairs_that_cannot_be_used_are_left_out_and_counted(tmp_path):
    lines = [f"Line {i}.\tZeile {i}." for i in range(300)]
    lines += ["a \t", "no tab", f"{'word ' * 10_000}\tWort", "a\tb c d e f", "bad\x01\tgut", "A\tB"]
    data = "\n".join(lines).encode() + b"\nb\xff\tc\n" + b"x" * 500_000 + b"\tc\na\tb\n"
    (tmp_path / "a.tsv").write_bytes(data)
    (tmp_path / "b.tsv").touch()
    paths = [tmp_path / "a.tsv", tmp_path / "b.tsv"]
    told: list[int] = []
    pairs = build_pair_corpus(
        paths, tmp_path / "pairs", **LANGS, max_tokens=4, progress=told.append
    )
    assert len(pairs) == sum(told) == 303 and pairs.lengths.max() <= 4
    assert text_of(pairs)[-2:] == [("a", "b"), ("a", "b")]
    assert pairs.meta["problems"] == {
        "not_utf8": 1,
        "nul_bytes": 0,
        "bad_record": 1,
        "too_long": 1,
        "control_characters": 1,
        "empty_side": 1,
        "too_many_tokens": 2,
        "excluded_source": 0,
        "empty_files": ["b.tsv"],
        "places": {
            "not_utf8": ["a.tsv, line 307"],
            "bad_record": ["a.tsv, line 302"],
            "too_long": ["a.tsv, line 308"],
            "control_characters": ["a.tsv, line 305"],
            "empty_side": ["a.tsv, line 301"],
            "too_many_tokens": ["a.tsv, line 303", "a.tsv, line 304"],
        },
        "duplicate_pairs": 1,
    }


def test_the_longest_pairs_that_stay(tmp_path):
    pairs = build(tmp_path, "a b c\td\na b c d\te\ne\ta b c d\nf\ta b c", max_tokens=3)
    assert text_of(pairs) == [("a b c", "d"), ("f", "a b c")]


def test_every_form_together(tmp_path):
    (tmp_path / "b.jsonl").write_text('{"en": "two", "de": "zwei"}\n')
    (tmp_path / "c.en.bz2").write_bytes(bz2.compress(b"three\nfour\n"))
    (tmp_path / "c.de").write_text("drei\nvier\n")
    (tmp_path / "a.tsv").write_text("eins\tone\n")
    sources = [
        tmp_path / "a.tsv",
        tmp_path / "b.jsonl",
        (str(tmp_path / "c.en.bz2"), tmp_path / "c.de"),
    ]
    pairs = build_pair_corpus(
        sources, tmp_path / "pairs", **LANGS, columns=(1, 0), keys=("en", "de")
    )
    assert text_of(pairs) == [("one", "eins"), ("two", "zwei"), ("three", "drei"), ("four", "vier")]


@pytest.mark.parametrize("as_file", [True, False])
def test_pairs_with_held_out_sources_are_left_out(tmp_path, as_file):
    sentences = ["hi ,  you !", "not there"]
    (tmp_path / "test.en").write_text("\n".join(sentences))
    excluded = tmp_path / "test.en" if as_file else set(sentences)
    pairs = build(tmp_path, TEXT, exclude_sources=excluded)
    assert text_of(pairs) == [("do n't .", "nein , im haus .")]
    problems = pairs.meta["problems"]
    assert problems["excluded_source"] == 2
    assert problems["places"]["excluded_source"] == ["a.tsv, line 1", "a.tsv, line 2"]
    assert len(build(tmp_path, TEXT, exclude_sources=excluded, lower=False)) == 3


def test_parts_of_a_text_share_no_source(tmp_path):
    text = "".join(f"Sentence {i // 2}.\tSatz {i}.\n" for i in range(400))
    fractions = {"train": 0.5, "test": 0.5}
    parts = [build(tmp_path, text, part=part, fractions=fractions) for part in fractions]
    train, test = ({source for source, _ in text_of(part)} for part in parts)
    assert not train & test and len(train | test) == 200 and min(len(train), len(test)) > 60
    assert sum(map(len, parts)) == 400
    assert "sentence 0 ." in (train if part_of("Sentence 0.", fractions) == "train" else test)
    with pytest.raises(CtxvecError, match='part = "dev" is not known'):
        build(tmp_path, text, part="dev", fractions=fractions)


def random_lines(n: int) -> str:
    rng = random.Random(0)
    words = [f"W{i}" for i in range(300)] + [".", "Ümläut", "don't"]
    side = lambda: " ".join(rng.choices(words, k=rng.randint(0, 12)))  # noqa: E731
    lines = [f"{side()}\t{side()}" for _ in range(n)]
    return "\n".join(lines + ["no tab", "bad\x01\tx"] * 3 + lines[:20])


def test_the_number_of_processes_makes_no_difference(tmp_path, monkeypatch):
    monkeypatch.setattr(pair_corpus, "CHUNK_PAIRS", 37)
    text = random_lines(500)
    sources = [line.split("\t")[0] for line in text.split("\n")[:9]]
    found = []
    for n_process in (1, 2):
        pairs = build(
            tmp_path,
            text,
            max_tokens=9,
            exclude_sources=sources,
            n_process=n_process,
            shard_tokens=200,
        )
        found.append(files_in(tmp_path / "pairs"))
        assert len(pairs.source.shards) > 5 and len(pairs.source.shards) <= 40
    assert found[0] == found[1]
    assert len(pairs) == len(pairs.target.lengths) > 200
    problems = pairs.meta["problems"]
    kinds = ("duplicate_pairs", "too_many_tokens", "excluded_source", "empty_side")
    assert all(problems[kind] for kind in kinds)


def test_chunks_and_starting_anew_change_nothing(tmp_path, monkeypatch):
    text = random_lines(20)
    build(tmp_path, text)
    whole = files_in(tmp_path / "pairs")
    monkeypatch.setattr(pair_corpus, "CHUNK_PAIRS", 7)
    monkeypatch.setattr(tokenizing, "MAX_LEXEMES", 1)
    build(tmp_path, text)
    assert files_in(tmp_path / "pairs") == whole


@settings(max_examples=15)
@given(
    lines=st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0\t\r\n\ufeff"))] * 2)
    )
)
def test_any_text_comes_back(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("pairs")
    whole = [pair for pair in lines if all(side.strip() for side in pair)]
    text = "".join(f"{source}\t{target}\n" for source, target in lines)
    if not whole:
        with pytest.raises(CtxvecError, match="No pairs are left"):
            build(folder, text)
        return
    pairs = build(folder, text, max_tokens=1000, lower=False, target_lang="xx")
    for found, expected in zip(text_of(pairs), whole, strict=True):
        assert ["".join(f.split()) for f in found] == ["".join(e.split()) for e in expected]


def test_pairs_in_memory_are_as_those_from_files(tmp_path):
    opened = build(tmp_path, TEXT)
    given = [(source.split(), target.split()) for source, target in text_of(opened)]
    pairs = PairCorpus.in_memory(iter(given), meta={"mine": 1})
    assert text_of(pairs) == text_of(opened) and pairs.meta == {"mine": 1}
    assert pairs.source.types == opened.source.types
    assert pairs.target.types == opened.target.types
    assert pairs.lengths.tolist() == opened.lengths.tolist()
    pairs.verify()
    assert len(PairCorpus.in_memory([])) == 0
    assert PairCorpus.in_memory([]).lengths.shape == (0, 2)


def test_recoding_of_both_sides(tmp_path):
    train = build(tmp_path, TEXT)
    dev = PairCorpus.in_memory([(["new", "you"], ["haus", "neu", "!"])])
    recoded = dev.recoded(train.source.types[:7], train.target.types)
    assert text_of(recoded) == text_of(dev)
    source, target = recoded.pair(0)
    assert source.tolist() == [7, train.source.types.index("you")]
    assert target[1] == len(train.target.types)
    assert recoded.lengths.tolist() == dev.lengths.tolist()


def test_other_settings_are_told(tmp_path):
    (tmp_path / "test.en").write_text("hi\n")
    kwargs = {**LANGS, "max_tokens": 9, "exclude_sources": tmp_path / "test.en", "part": "train"}
    for side in ("en", "de"):
        (tmp_path / f"b.{side}").write_text("x\n" * 200)
    sources = [tmp_path / "a.tsv", (tmp_path / "b.en", tmp_path / "b.de")]
    (tmp_path / "a.tsv").write_text(TEXT * 20)
    pairs = build_pair_corpus(sources, tmp_path / "pairs", **kwargs)
    check = lambda **new: check_settings(  # noqa: E731
        tmp_path, PairCorpus.open(tmp_path / "pairs").meta, pair_settings_of(**(same | new))
    )
    same = {"sources": sources, **kwargs}
    check()
    check(exclude_sources=["hi"])
    for new, message in [
        ({"source_lang": "xx"}, "source_lang was en, and the config says xx"),
        ({"target_lang": "xx"}, "target_lang was de, and"),
        ({"lower": False}, "lower was True, and the config says False"),
        ({"max_tokens": 8}, "max_tokens was 9, and the config says 8"),
        ({"columns": (1, 0)}, "columns was .*'source': 0.*'source': 1"),
        ({"keys": ("en", "de")}, "keys was .*'source': 'source'.*'source': 'en'"),
        ({"part": None}, "part was train .of train 0.98, .*says None"),
        ({"fractions": {"train": 1.0}}, "part was train .*says train .of train 1.0"),
        ({"exclude_sources": ["ho"]}, "exclude_sources was 1 sentence.*says 1 sentence"),
        ({"sources": sources[1:]}, r"files was 2 file\(s\), and the config says 1"),
        ({"sources": [*sources[:1], sources[1][::-1]]}, r"b\.en \| b\.de of .*b\.de \| b\.en of"),
        ({"sources": [sources[0], sources[0]]}, r"b\.en \| b\.de of .*a\.tsv of"),
    ]:
        with pytest.raises(CtxvecError, match=message):
            check(**new)
    (tmp_path / "b.de").write_text("longer than before")
    with pytest.raises(CtxvecError, match=r"of \[400, 400\] bytes, and .* of \[400, 18\] bytes"):
        check()
    assert "x" in pairs.source.types or part_of("x") != "train"


@pytest.mark.parametrize("n_process", [1, 2])
@pytest.mark.parametrize("old", [None, "old\talt"])
def test_nothing_is_left_of_a_build_that_fails(tmp_path, monkeypatch, n_process, old):
    monkeypatch.setattr(pair_corpus, "CHUNK_PAIRS", 2)
    if old:
        build(tmp_path, old)
    a, b = tmp_path / "a.en", tmp_path / "a.de"
    a.write_text("x\n" * 9)
    b.write_text("x\n" * 8)
    with pytest.raises(CtxvecError, match=r"a\.en has 9 lines, and .*a\.de has 8"):
        build_pair_corpus([(a, b)], tmp_path / "pairs", **LANGS, n_process=n_process)
    assert [path.name for path in tmp_path.glob("pairs*")] == (["pairs"] if old else [])
    assert not old or text_of(PairCorpus.open(tmp_path / "pairs")) == [("old", "alt")]


@pytest.mark.parametrize(
    "text, kwargs, message",
    [
        ("", {}, r"No pairs are left.*: \{\}; files without pairs: \['a.tsv'\]"),
        ("a b\tc\n\tx", {"max_tokens": 1}, "'too_many_tokens': 1.*raise max_tokens"),
        ("a b\tc", {"max_tokens": 0}, "max_tokens = 0"),
        ("a\tb", {"source_lang": "qq"}, 'lang = "qq"'),
        ("a\tb", {"target_lang": "qq"}, 'lang = "qq"'),
        ("a\tb", {"exclude_sources": "missing.txt"}, "No file in .*missing.txt"),
        ("a\tb", {"fractions": {"a": 2.0}, "part": "a"}, "fractions = .* cannot work"),
        ("a\tb", {"columns": (-1, 0)}, r"columns = \(-1, 0\)"),
    ],
)
def test_builds_that_cannot_work(tmp_path, text, kwargs, message):
    with pytest.raises(CtxvecError, match=message):
        build(tmp_path, text, **kwargs)
    assert not list(tmp_path.glob("pairs*"))


KILLED = """
import os, sys
from spacy_ctxvec.text.pair_corpus import build_pair_corpus
build_pair_corpus([sys.argv[1]], sys.argv[2], source_lang="xx", target_lang="xx", shard_tokens=1,
                  progress=lambda n: os._exit(9))
"""


def test_a_build_that_was_killed(tmp_path):
    (tmp_path / "a.tsv").write_text("a b\tc d\n" * 3)
    command = [sys.executable, "-c", KILLED, tmp_path / "a.tsv", tmp_path / "pairs"]
    assert subprocess.run(command).returncode == 9
    new = tmp_path / "pairs.new"
    assert list(new.glob("source/*.npy")) and not (tmp_path / "pairs").exists()
    assert text_of(build(tmp_path, "some\ttext")) == [("some", "text")]
    assert not new.exists() and len(files_in(tmp_path / "pairs")) == 11


def test_a_corpus_of_pairs_and_one_of_text_replace_each_other(tmp_path):
    build(tmp_path, TEXT)
    (tmp_path / "a.txt").write_text("text")
    build_corpus([tmp_path / "a.txt"], tmp_path / "pairs", lang="xx", max_tokens=9)
    assert Corpus.open(tmp_path / "pairs").n_tokens == 1
    assert len(build(tmp_path, TEXT)) == 3


@pytest.mark.parametrize("inside", ["notes.txt", "source/notes.txt", "other/meta.json"])
def test_other_folders_are_not_overwritten(tmp_path, inside):
    build(tmp_path, TEXT)
    path = tmp_path / "pairs" / inside
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine")
    with pytest.raises(CtxvecError, match="something else than a corpus"):
        build(tmp_path, TEXT)
    assert path.read_text() == "mine"


def test_folders_that_are_no_corpus_of_pairs(tmp_path):
    with pytest.raises(CtxvecError, match=r"There is no corpus in .*: no file meta\.json"):
        PairCorpus.open(tmp_path)
    for content in ("{", "[]", '{"format": 2}'):
        (tmp_path / "meta.json").write_text(content)
        with pytest.raises(CtxvecError, match=r"meta\.json is not what was written"):
            PairCorpus.open(tmp_path)
    build(tmp_path, TEXT)
    with pytest.raises(CtxvecError, match="format 2; found: pairs 1"):
        Corpus.open(tmp_path / "pairs")


def test_sides_that_were_not_built_together_are_told(tmp_path):
    build(tmp_path, TEXT)
    (tmp_path / "pairs/target").rename(tmp_path / "target")
    with pytest.raises(CtxvecError, match=r"There is no corpus in .*target"):
        PairCorpus.open(tmp_path / "pairs")
    build(tmp_path, "a\tb")
    (tmp_path / "pairs/target").rename(tmp_path / "gone")
    (tmp_path / "target").rename(tmp_path / "pairs/target")
    with pytest.raises(CtxvecError, match=r"target/meta\.json is not what was written.*checksum"):
        PairCorpus.open(tmp_path / "pairs")


@pytest.mark.parametrize("name", ["source/ids-00000.npy", "target/types.json"])
def test_changed_content_is_found(tmp_path, name):
    build(tmp_path, TEXT).verify()
    path = tmp_path / "pairs" / name
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    path.write_bytes(data)
    try:
        pairs = PairCorpus.open(tmp_path / "pairs")
    except CtxvecError as error:  # the list of words may be no JSON any more
        assert name in str(error)
        return
    with pytest.raises(CtxvecError, match=f"{name}.*checksum"):
        pairs.verify()


def test_sides_without_words_are_left_out():
    tokenized = PairTokenizer("en", "de", True, 9)(
        [Pair(" ", "x", "here"), Pair("x", "y", "there")]
    )
    assert len(tokenized) == 1 and tokenized.problems.places == {"empty_side": ["here"]}
    assert tokenized.source.words == ["x"] and tokenized.target.words == ["y"]


def test_dtypes_and_json_of_the_parts(tmp_path):
    pairs = build(tmp_path, TEXT)
    assert pairs.lengths.dtype == np.int64
    assert all(ids.dtype == np.int32 for ids in pairs.pair(0))
    assert json.loads((tmp_path / "pairs/meta.json").read_text("utf8")) == pairs.meta
