"""Documents of every format, found and mixed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import sys
from itertools import islice
from pathlib import Path

import pytest
import spacy
import zstandard
from spacy.tokens import Doc, DocBin

from spacy_ctxvec import errors
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text import sources
from spacy_ctxvec.text.lines import Problems
from spacy_ctxvec.text.sources import find_files, mixed_documents, read_documents

TEXT = "A first line.\n\n  \nEine zweite Zeile mit Ümläuten.\nA third.\n"
DOCUMENTS = [["A first line."], ["Eine zweite Zeile mit Ümläuten.", "A third."]]
OPENERS = {
    "txt": open,
    "gz": gzip.open,
    "bz2": bz2.open,
    "xz": lzma.open,
    "zst": zstandard.open,
}


def read(path: Path) -> list[sources.Document]:
    return list(read_documents(path, Problems()))


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf8")
    return path


@pytest.mark.parametrize("suffix", OPENERS)
def test_blank_lines_part_documents(tmp_path, suffix):
    path = tmp_path / f"text.{suffix}"
    with OPENERS[suffix](path, "wt", encoding="utf8") as file:
        file.write(TEXT)
    assert read(path) == DOCUMENTS


def test_standard_input_is_plain_text(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert read(Path("-")) == DOCUMENTS


def test_text_without_blank_lines_is_cut_every_thousand_paragraphs(tmp_path):
    path = write(tmp_path / "text.txt", "\n".join(map(str, range(2500))))
    documents = read(path)
    assert [len(document) for document in documents] == [1000, 1000, 500]
    assert [int(str(line)) for document in documents for line in document] == list(range(2500))


@pytest.mark.parametrize("suffix", ["txt", "gz", "zst"])
def test_each_record_is_a_document(tmp_path, suffix):
    records = [{"text": "One.\nTwo.\n\nThree.", "id": 1}, {"text": " "}, {"text": "Ümläut"}]
    path = tmp_path / ("a.jsonl" if suffix == "txt" else f"a.jsonl.{suffix}")
    with OPENERS[suffix](path, "wt", encoding="utf8") as file:
        file.write("\n".join(map(json.dumps, records)) + "\n\n")
    assert read(path) == [["One.", "Two.", "Three."], ["Ümläut"]]


@pytest.mark.parametrize(
    "line",
    [
        '{"text": ',
        '{"body": "x"}',
        '{"text": 3}',
        '["text"]',
        "3",
        '{"text": "\\ud800"}',
        '{"text": "a\\u0000b"}',
        "[" * 100_000,
    ],
)
def test_bad_records_are_counted(tmp_path, line):
    good = [json.dumps({"text": f"text {i}"}) for i in range(150)]
    path = write(tmp_path / "a.jsonl", "\n".join([*good[:9], line, *good[9:]]))
    problems = Problems()
    assert len(list(read_documents(path, problems))) == 150
    assert problems.counts == {"bad_record": 1}
    assert problems.places == {"bad_record": ["a.jsonl, line 10"]}
    write(path, "\n".join([*good[:50], line]))
    with pytest.raises(CtxvecError, match=r'1 of 51 lines.*first in line 51.*"text"'):
        read(path)


def test_a_record_may_be_longer_than_a_paragraph(tmp_path):
    book = "\n".join(["word " * 1000] * 100 + ["x" * 100_001])
    path = write(tmp_path / "a.jsonl", json.dumps({"text": book}))
    problems = Problems()
    (document,) = read_documents(path, problems)
    assert len(document) == 100
    assert problems.as_dict()["places"] == {"too_long": ["a.jsonl, line 1"]}


def test_the_words_of_a_docbin_stay_as_they_are_but_for_white_space(tmp_path):
    vocab = spacy.blank("en").vocab
    words = ["do", "n't", " ", "New York", "\n\n", "a\nb", "end", "\n"]
    docs = [Doc(vocab, words=words), Doc(vocab), Doc(vocab, words=["\t"]), Doc(vocab, words=["x"])]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    assert read(tmp_path / "a.spacy") == [[["do", "n't", "New York"], ["a b", "end"]], [["x"]]]


@pytest.mark.parametrize("data", [b"", b"no docbin", b"\x00\xff"])
def test_a_broken_docbin_is_named(tmp_path, data):
    (tmp_path / "a.spacy").write_bytes(data)
    with pytest.raises(CtxvecError, match=r"Cannot read .*a\.spacy as a DocBin"):
        read(tmp_path / "a.spacy")


def test_files_without_text_are_named(tmp_path):
    paths = [write(tmp_path / name, text) for name, text in [("a", ""), ("b", "x"), ("c", "\n \n")]]
    problems = Problems()
    assert list(mixed_documents(paths, problems)) == [["x"]]
    assert problems.empty_files == ["a", "c"]


def numbered(folder: Path, sizes: dict[str, int]) -> list[Path]:
    """Files with as many documents as `sizes` says."""
    return [
        write(folder / name, "\n\n".join(f"{name}{i}" for i in range(n)))
        for name, n in sizes.items()
    ]


def test_files_take_turns_by_document(tmp_path):
    paths = numbered(tmp_path, {"a": 1, "b": 3, "c": 2})
    mixed = [document[0] for document in mixed_documents(paths, Problems())]
    assert mixed == ["a0", "b0", "c0", "b1", "c1", "b2"]


def test_more_files_than_may_be_open(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "MAX_OPEN_FILES", 2)
    paths = numbered(tmp_path, {"a": 3, "b": 1, "c": 1, "d": 0, "e": 2})
    mixed = [document[0] for document in mixed_documents(paths, Problems())]
    assert mixed == ["a0", "b0", "a1", "e0", "a2", "e1", "c0"]  # d, without any, makes room for b


@pytest.mark.parametrize("n", [1, 63, 64, 65, 128, 200])
def test_every_document_of_many_files_comes_once(tmp_path, n):
    paths = numbered(tmp_path, {f"{i}_": 1 + i % 3 for i in range(n)})
    mixed = [str(document[0]) for document in mixed_documents(paths, Problems())]
    assert sorted(mixed) == sorted(f"{i}_{k}" for i in range(n) for k in range(1 + i % 3))


def test_only_so_many_files_are_open(tmp_path, monkeypatch):
    started = []
    real = sources.read_documents
    monkeypatch.setattr(sources, "MAX_OPEN_FILES", 3)
    monkeypatch.setattr(
        sources, "read_documents", lambda path, p: started.append(path.name) or real(path, p)
    )
    paths = numbered(tmp_path, {str(i): 2 for i in range(9)})
    assert len(list(islice(mixed_documents(paths, Problems()), 4))) == 4
    assert started == ["0", "3", "6"]  # spread over the whole list


@pytest.fixture
def tree(tmp_path) -> Path:
    names = ["b.txt", "a.txt.bz2", "c.md", "sub/d.jsonl", "sub/e.spacy", "sub/f.gz", "[x].txt"]
    for name in names:
        write(tmp_path / name, "x")
    return tmp_path


def names(found: list[Path], folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in found]


def test_find_files_globs_and_folders(tree):
    def find(*patterns, **kwargs):
        return names(find_files(patterns, tree, **kwargs), tree)

    assert find("c.md", "b.txt") == ["c.md", "b.txt"]
    assert find("*.txt*") == ["[x].txt", "a.txt.bz2", "b.txt"]
    assert find("**/*.jsonl", tree / "b.txt") == ["sub/d.jsonl", "b.txt"]
    assert find("b.txt", "*.txt") == ["b.txt", "[x].txt"]
    assert find("[x].txt") == ["[x].txt"]
    assert find("sub") == ["sub/d.jsonl", "sub/e.spacy", "sub/f.gz"]
    assert find(".") == ["[x].txt", "a.txt.bz2", "b.txt", *find("sub")]
    assert find(".", endings=None) == ["[x].txt", "a.txt.bz2", "b.txt", "c.md", *find("sub")]
    assert find_files(["-"], tree) == [Path("-")]
    assert find() == []


def test_brackets_in_the_name_of_the_folder(tmp_path):
    folder = tmp_path / "[old] text"
    write(folder / "a.txt", "x")
    assert names(find_files(["*.txt", "."], folder), folder) == ["a.txt"]


@pytest.mark.parametrize("pattern", ["none.txt", "*.zip", "empty"])
def test_patterns_that_match_nothing(tree, pattern):
    (tree / "empty").mkdir()
    with pytest.raises(CtxvecError, match=r"No file in .* matches \["):
        find_files(["b.txt", pattern], tree)
    with pytest.raises(CtxvecError, match="--text"):
        find_files([pattern], tree, message=errors.NO_TEXT_FILES)
