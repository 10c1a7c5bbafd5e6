"""Corpora from files, as they lie on disk in the end."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import building
from spacy_ctxvec.text.building import build_corpus
from spacy_ctxvec.text.corpus import SPECIALS, Corpus
from spacy_ctxvec.text.settings import check_settings, settings_of
from spacy_ctxvec.text.writing import new_folder


def build(folder: Path, *texts: str, **kwargs) -> Corpus:
    """A corpus in `folder` / "corpus" of a file for each text."""
    paths = []
    for i, text in enumerate(texts):
        paths.append(folder / f"{i}.txt")
        paths[-1].write_text(text, "utf8")
    return build_corpus(paths, folder / "corpus", **{"lang": "xx", "max_tokens": 8, **kwargs})


def text_of(corpus: Corpus) -> list[str]:
    numbers = range(len(corpus.offsets) - 1)
    return [" ".join(corpus.types[i] for i in corpus.piece(number)) for number in numbers]


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def random_text(seed: int, n_documents: int) -> str:
    rng = random.Random(seed)
    words = [f"w{i}" for i in range(400)] + [".", "Ümläut", "don't"]
    line = lambda: " ".join(rng.choices(words, k=rng.randint(1, 30)))  # noqa: E731
    return "\n\n".join("\n".join(line() for _ in range(3)) for _ in range(n_documents))


def test_types_are_sorted_by_frequency_after_the_specials(tmp_path):
    corpus = build(tmp_path, "b a b\nc b a\n\nd")
    assert corpus.types == [*SPECIALS, "b", "a", "c", "d"]
    assert corpus.counts.tolist() == [0, 0, 0, 3, 2, 1, 1] and corpus.counts.dtype == np.int64
    assert text_of(corpus) == ["b a b", "c b a", "d"]
    assert corpus.offsets.tolist() == [0, 3, 6, 7] and corpus.lengths.tolist() == [3, 3, 1]
    assert corpus.n_tokens == 7


def test_what_is_told_about_a_corpus(tmp_path):
    corpus = build(tmp_path, "b a\n\nb a", "", meta={"mine": 1})
    meta = corpus.meta
    assert meta["mine"] == 1
    wanted = {"n_tokens": 4, "n_pieces": 2, "n_documents": 2, "n_types": 5}
    assert {name: meta[name] for name in wanted} == wanted
    assert meta["problems"]["empty_files"] == ["1.txt"]
    assert meta["problems"]["duplicate_paragraphs"] == 1
    assert meta["excluded"] == {"documents": 0, "tokens": 0, "by_file": {}}
    paths = [tmp_path / "0.txt", tmp_path / "1.txt"]
    check_settings(tmp_path, meta, settings_of(paths, lang="xx", max_tokens=8))
    assert set(meta["files"]) == {*files_in(tmp_path / "corpus")} - {"meta.json"}


def test_files_are_mixed_by_document(tmp_path):
    corpus = build(tmp_path, "a1\na2\n\na3", "b1\n\nb2\n\nb3", "c1")
    assert text_of(corpus) == ["a1", "a2", "b1", "c1", "a3", "b2", "b3"]


def test_every_format_together(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    with gzip.open(tmp_path / "in/a.txt.gz", "wt") as file:
        file.write("plain text")
    (tmp_path / "in/b.jsonl").write_text('{"text": "a record"}\n')
    docs = [Doc(Vocab(), words=["as it is", "\n", "a\nb"])]
    DocBin(docs=docs).to_disk(tmp_path / "in/c.spacy")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"typed in")))
    corpus = build_corpus([tmp_path / "in", "-"], tmp_path / "corpus", lang="en", max_tokens=8)
    assert text_of(corpus) == ["plain text", "a record", "as it is", "a b", "typed in"]
    assert "as it is" in corpus.types and "a b" in corpus.types
    assert text_of(Corpus.open(tmp_path / "corpus")) == text_of(corpus)


@pytest.mark.parametrize(
    "unit, expected",
    [
        ("paragraph", ["One two .", "Three . Four !", "Five ."]),
        ("sentence", ["One two .", "Three .", "Four !", "Five ."]),
        ("document", ["One two . Three . Four !", "Five ."]),
    ],
)
def test_units(tmp_path, unit, expected):
    text = "One two.\nThree. Four!\n\nFive."
    assert text_of(build(tmp_path, text, lang="en", unit=unit, max_tokens=99)) == expected


def test_long_paragraphs_are_cut_after_sentences(tmp_path):
    corpus = build(tmp_path, "a b . c d . e f g h i", max_tokens=7)
    assert corpus.lengths.tolist() == [6, 5]


def test_the_budget_stops_at_the_end_of_a_document(tmp_path):
    told = []
    corpus = build(tmp_path, "a b\nc\n\nd\ne f\n\ng h\n\n" * 100, budget=4, progress=told.append)
    assert text_of(corpus) == ["a b", "c", "d", "e f"]
    assert corpus.types == [*SPECIALS, *"abcdef"] and told == [6]
    assert corpus.meta["n_documents"] == 2


@pytest.mark.parametrize("budget", [None, 300, 1000, 10**6])
def test_the_number_of_processes_makes_no_difference(tmp_path, monkeypatch, budget):
    monkeypatch.setattr(building, "CHUNK_CHARACTERS", 500)
    texts = [random_text(seed, 12 + 5 * seed) for seed in range(3)]
    (tmp_path / "eval.txt").write_text(texts[1][1000:1200])
    found = []
    for n_process in (1, 2):
        corpus = build(
            tmp_path,
            *texts,
            "bad\x01 line\n" * 3,
            n_process=n_process,
            budget=budget,
            shard_tokens=200,
            exclude=[tmp_path / "eval.txt"],
        )
        found.append(files_in(tmp_path / "corpus"))
        assert corpus.meta["excluded"]["documents"] == 1 or budget == 300
        assert corpus.n_tokens >= min(budget or 0, 1000) and corpus.lengths.max() <= 8
        assert len(corpus.shards) > 1
    assert found[0] == found[1]


def test_spawned_processes(tmp_path, monkeypatch):
    spawn = multiprocessing.get_context("spawn")
    monkeypatch.setattr(
        "concurrent.futures.process.mp.get_context", lambda *args: spawn, raising=True
    )
    text = random_text(0, 5)
    (tmp_path / "eval.txt").write_text("no such words here at all in the text")
    corpus = build(tmp_path, text, n_process=2, exclude=[tmp_path / "eval.txt"])
    assert " ".join(text_of(corpus)).split() == text.split()


def test_shards_are_read_as_one(tmp_path):
    lines = [" ".join(f"w{i * j % 7}" for j in range(1 + i % 5)) for i in range(50)]
    corpus = build(tmp_path, "\n".join(lines), shard_tokens=7)
    assert len(corpus.shards) > 10 and text_of(corpus) == lines
    assert all(len(shard) <= 7 for shard in corpus.shards)
    recoded = corpus.recoded([*SPECIALS, "w6", "new"])
    assert text_of(recoded) == lines and recoded.counts.sum() == corpus.n_tokens
    corpus.verify()
    assert not corpus.shards[0].flags.writeable


@settings(max_examples=20)
@given(lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)))
def test_any_text_comes_back(tmp_path_factory, lines):
    folder = tmp_path_factory.mktemp("corpus")
    joined = "\n".join(lines).removeprefix("\ufeff")
    if not joined.split():
        with pytest.raises(CtxvecError, match="holds no words"):
            build(folder, joined)
        return
    corpus = build(folder, joined, max_tokens=1000)
    assert "".join("".join(text_of(corpus)).split()) == "".join(joined.split())
    assert Corpus.open(folder / "corpus").types == corpus.types


@pytest.mark.parametrize("texts", [[], [""], ["   \n\n", ""]])
def test_an_empty_corpus_is_an_error(tmp_path, texts):
    with pytest.raises(CtxvecError, match="holds no words"):
        build(tmp_path, *texts)
    assert not list(tmp_path.glob("corpus*"))


def test_evaluation_text_is_left_out(tmp_path):
    sentence = "The quick brown fox doesn't jump over John's lazy dog any more today ."
    tokenised = sentence.replace("doesn't", "does n't").replace("John's", "John 's")
    (tmp_path / "dev.conll").write_text("\n".join(f"{w}\tO" for w in tokenised.split()))
    texts = [f"Keep this.\n\nNot\n{sentence}\nThis.\n\n{sentence[:50]} is kept."]
    corpus = build(tmp_path, *texts, exclude=[tmp_path / "*.conll"], max_tokens=99, lang="en")
    assert text_of(corpus)[0] == "Keep this ." and len(corpus.lengths) == 2
    name = f"{tmp_path.name}/dev.conll"
    counts = {"documents": 1, "tokens": 19}
    assert corpus.meta["excluded"] == {**counts, "by_file": {name: counts}}
    assert corpus.meta["settings"]["exclude"][0][0] == "dev.conll"
    with pytest.raises(CtxvecError, match="left out as evaluation text: 1"):
        build(tmp_path, sentence, exclude=[tmp_path / "dev.conll"])
    with pytest.raises(CtxvecError, match="No file in"):
        build(tmp_path, sentence, exclude=[tmp_path / "missing"])


def test_problems_are_counted(tmp_path):
    lines = [f"line {i}".encode() for i in range(300)]
    lines += [b"\xff", b"\x01 control", b"x" * 100_001, b"nul \0", b"line 1"]
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    corpus = build_corpus([tmp_path / "a.txt"], tmp_path / "corpus", lang="xx", max_tokens=8)
    assert corpus.meta["problems"] == {
        "not_utf8": 1,
        "nul_bytes": 1,
        "bad_record": 0,
        "too_long": 1,
        "control_characters": 1,
        "empty_files": [],
        "places": {
            "not_utf8": ["a.txt, line 301"],
            "nul_bytes": ["a.txt, line 304"],
            "too_long": ["a.txt, line 303"],
            "control_characters": ["a.txt, line 302"],
        },
        "duplicate_paragraphs": 1,
    }


@pytest.mark.parametrize("n_process", [1, 2])
def test_nothing_is_left_of_a_build_that_fails(tmp_path, n_process):
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"text " * 1000)[:40])
    (tmp_path / "a.txt").write_text("fine")
    with pytest.raises(CtxvecError, match=r"b\.txt\.gz"):
        build_corpus([tmp_path], tmp_path / "corpus", lang="xx", max_tokens=8, n_process=n_process)
    assert not list(tmp_path.glob("corpus*"))


def test_a_build_that_fails_leaves_the_old_corpus(tmp_path):
    build(tmp_path, "old")
    with pytest.raises(CtxvecError):
        build(tmp_path, "")
    assert text_of(Corpus.open(tmp_path / "corpus")) == ["old"]
    assert text_of(build(tmp_path, "new")) == ["new"]


KILLED = """
import os, sys
from spacy_ctxvec.text.building import build_corpus
build_corpus([sys.argv[1]], sys.argv[2], lang="xx", max_tokens=8, progress=lambda n: os._exit(9))
"""


def test_a_build_that_was_killed(tmp_path):
    (tmp_path / "a.txt").write_text("some text")
    command = [sys.executable, "-c", KILLED, tmp_path / "a.txt", tmp_path / "corpus"]
    assert subprocess.run(command).returncode == 9
    new = tmp_path / "corpus.new"
    assert new.exists() and not (tmp_path / "corpus").exists()
    (new / "ids-00007.npy").write_bytes(b"left")
    corpus = build(tmp_path, "some text")
    assert not new.exists() and len(files_in(tmp_path / "corpus")) == 5
    assert text_of(corpus) == ["some text"]


def test_a_corpus_is_there_until_its_successor_is(tmp_path):
    """Whenever a build is killed."""
    folder, old = tmp_path / "corpus", tmp_path / "corpus.old"
    with new_folder(folder) as new:
        (new / "meta.json").write_text("first")
    folder.rename(old)  # killed between the two
    with pytest.raises(ZeroDivisionError), new_folder(folder):
        1 / 0  # noqa: B018
    assert (folder / "meta.json").read_text() == "first"
    with new_folder(folder) as new:
        (new / "meta.json").write_text("second")
    assert (folder / "meta.json").read_text() == "second"
    assert list(tmp_path.iterdir()) == [folder]


def test_other_folders_are_not_overwritten(tmp_path):
    (tmp_path / "corpus").mkdir()
    assert text_of(build(tmp_path, "into an empty folder")) == ["into an empty folder"]
    pipeline = spacy.blank("xx")  # it has a meta.json, as a corpus has
    pipeline.to_disk(tmp_path / "pipeline")
    pipeline.to_disk(tmp_path / "other.new")
    for folder in ("pipeline", "other", "0.txt"):
        with pytest.raises(CtxvecError, match="something else than a corpus"):
            build_corpus([tmp_path / "0.txt"], tmp_path / folder, lang="xx", max_tokens=8)
    assert spacy.load(tmp_path / "pipeline") and spacy.load(tmp_path / "other.new")


def test_a_linked_folder_stays_where_it_is(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "corpus").symlink_to(tmp_path / "elsewhere")
    assert text_of(build(tmp_path, "some text")) == ["some text"]
    assert (tmp_path / "elsewhere/types.json").exists()
    assert (tmp_path / "corpus").is_symlink()


@pytest.mark.parametrize("name", ["ids-00001.npy", "types.json", "counts.npy", "offsets.npy"])
def test_files_that_are_cut_off_or_gone_are_told(tmp_path, name):
    build(tmp_path, "a b c\nd e f", shard_tokens=3)
    path = tmp_path / "corpus" / name
    data = path.read_bytes()
    path.write_bytes(data[:-1])
    message = f"{name} is not what was.*size in bytes {len(data)}; found: {len(data) - 1}.*again"
    with pytest.raises(CtxvecError, match=message):
        Corpus.open(tmp_path / "corpus")
    path.unlink()
    with pytest.raises(CtxvecError, match=f"{name}.*no such file"):
        Corpus.open(tmp_path / "corpus")


@pytest.mark.parametrize("name", ["ids-00001.npy", "types.json", "counts.npy", "offsets.npy"])
def test_files_that_cannot_be_read_are_told(tmp_path, name):
    build(tmp_path, "a b c\nd e f", shard_tokens=3)
    path = tmp_path / "corpus" / name
    path.write_bytes(bytes(path.stat().st_size))
    with pytest.raises(CtxvecError, match=f"{name} is not what was written.*again"):
        Corpus.open(tmp_path / "corpus")


def test_changed_content_is_found_by_its_checksum(tmp_path):
    build(tmp_path, "a b c\nd e f", shard_tokens=3)
    path = tmp_path / "corpus/ids-00001.npy"
    data = bytearray(path.read_bytes())
    data[-4] ^= 1
    path.write_bytes(data)
    corpus = Corpus.open(tmp_path / "corpus")
    with pytest.raises(CtxvecError, match=r"ids-00001\.npy.*checksum"):
        corpus.verify()


@pytest.mark.parametrize(
    "content, message",
    [
        (None, "There is no corpus in"),
        ("{", "meta.json is not what was written"),
        ("[]", "format 2; found: None"),
        ('{"n_tokens": 5, "n_pieces": 1}', "format 2; found: None.*build the corpus again"),
    ],
)
def test_folders_that_are_no_corpus(tmp_path, content, message):
    if content is not None:
        (tmp_path / "meta.json").write_text(content)
    with pytest.raises(CtxvecError, match=message):
        Corpus.open(tmp_path)


RSS = """
import resource, sys
from spacy_ctxvec.text.building import build_corpus
corpus = build_corpus(["-"], sys.argv[1], lang="xx", max_tokens=64, n_process=int(sys.argv[2]))
for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
    print(resource.getrusage(who).ru_maxrss // 1024)
print(corpus.n_tokens)
"""


def peak_mebibytes(folder: Path, n_tokens: int, n_process: int) -> list[int]:
    """Of the process and of its workers, for a stream of words that never stop being new."""
    rng = np.random.default_rng(0)
    command = [sys.executable, "-c", RSS, folder / "corpus", str(n_process)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin and process.stdout
        for _ in range(n_tokens // 10_000):
            rows = rng.zipf(1.3, size=(100, 100)) % 10_000_000
            process.stdin.write(b"\n".join(b" ".join(b"%x" % i for i in row) for row in rows))
            process.stdin.write(b"\n\n")
        process.stdin.close()
        found = [int(line) for line in process.stdout]
    assert found.pop() == n_tokens
    return found


@pytest.mark.slow
@pytest.mark.parametrize("n_process", [1, 2])
def test_memory_stays_flat(tmp_path, n_process):
    small = peak_mebibytes(tmp_path, 5_000_000, n_process)
    large = peak_mebibytes(tmp_path, 20_000_000, n_process)
    assert all(b < a + 250 for a, b in zip(small, large)), (small, large)


def test_json_of_types_is_one_word_a_line(tmp_path):
    build(tmp_path, "b b a")
    path = tmp_path / "corpus/types.json"
    assert path.read_text().split("\n")[2:4] == ['"b",', '"a"']
    assert json.loads(path.read_text()) == [*SPECIALS, "b", "a"]
