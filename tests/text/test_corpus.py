"""The tokenised corpus: reading, building, recoding."""

from __future__ import annotations

import bz2
import gzip
import lzma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.corpus import (
    SPECIALS,
    Corpus,
    build_corpus,
    read_paragraphs,
    spacy_tokenizer,
)

TEXT = "A first line.\n\n  \nEine zweite Zeile mit Ümläuten.\n"
OPENERS = {"txt": open, "gz": gzip.open, "bz2": bz2.open, "xz": lzma.open}


@pytest.mark.parametrize("suffix", OPENERS)
def test_plain_and_compressed_files(tmp_path, suffix):
    path = tmp_path / f"text.{suffix}"
    with OPENERS[suffix](path, "wt", encoding="utf8") as file:
        file.write(TEXT)
    assert list(read_paragraphs([path])) == ["A first line.", "Eine zweite Zeile mit Ümläuten."]


def test_files_take_turns(tmp_path):
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path, n in zip(paths, (1, 3, 2)):
        path.write_text("\n".join(f"{path.name}{i}" for i in range(n)), "utf8")
    assert list(read_paragraphs(paths)) == ["a0", "b0", "c0", "b1", "c1", "b2"]


def damaged(suffix: str) -> bytes:
    data = {"gz": gzip, "bz2": bz2, "xz": lzma}[suffix].compress(TEXT.encode() * 50)
    middle = len(data) // 2
    return data[:middle] + bytes(255 - byte for byte in data[middle : middle + 8]) + data[middle:]


@pytest.mark.parametrize(
    "name, data",
    [
        ("latin.txt", "Ümläut".encode("latin1")),
        ("not.gz", b"plain text"),
        ("not.bz2", b"plain text"),
        ("not.xz", b"plain text"),
        ("cut.gz", gzip.compress(TEXT.encode() * 50)[:60]),
        ("cut.bz2", bz2.compress(TEXT.encode() * 50)[:60]),
        ("cut.xz", lzma.compress(TEXT.encode() * 50)[:60]),
        ("damaged.gz", damaged("gz")),
        ("damaged.bz2", damaged("bz2")),
        ("damaged.xz", damaged("xz")),
        ("missing.txt", None),
    ],
)
def test_unreadable_files_are_named(tmp_path, name, data):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(CtxvecError, match=f"Cannot read .*{name} as UTF-8 text"):
        list(read_paragraphs([path]))


def build(folder, lines, **kwargs) -> Corpus:
    return build_corpus(lines, str.split, folder, **{"max_tokens": 8, **kwargs})


def text_of(corpus: Corpus) -> list[str]:
    return [corpus.types[i] for i in corpus.ids]


def test_types_are_sorted_by_frequency_after_the_specials(tmp_path):
    corpus = build(tmp_path, ["b a b", "c b a"])
    assert corpus.types == [*SPECIALS, "b", "a", "c"]
    assert corpus.counts.tolist() == [0, 0, 0, 3, 2, 1]
    assert text_of(corpus) == ["b", "a", "b", "c", "b", "a"]
    assert corpus.offsets.tolist() == [0, 3, 6]
    assert corpus.piece(1).tolist() == [5, 3, 4]


def test_what_was_built_is_what_is_opened(tmp_path):
    built = build(tmp_path, ["b a b", "c b a"], meta={"lang": "en"})
    opened = Corpus.open(tmp_path)
    assert opened.types == built.types and opened.meta == built.meta
    assert opened.meta == {"lang": "en", "n_tokens": 6, "n_pieces": 2}
    assert np.array_equal(opened.ids, built.ids) and opened.ids.dtype == np.int32


def test_long_paragraphs_are_cut_after_sentences(tmp_path):
    corpus = build(tmp_path, ["a b . c d . e f g h i"], max_tokens=7)
    assert np.diff(corpus.offsets).tolist() == [6, 5]


def test_the_budget_stops_reading(tmp_path):
    told = []
    corpus = build(tmp_path, ("a b c" for _ in range(100)), budget=7, progress=told.append)
    assert len(corpus.ids) == 9 and told == [3, 3, 3]


@pytest.mark.parametrize("lines", [[], [""], ["   ", ""]])
def test_an_empty_corpus_is_an_error(tmp_path, lines):
    with pytest.raises(CtxvecError, match="holds no words"):
        build(tmp_path / "corpus", lines)
    assert not (tmp_path / "corpus").exists()


def test_recoded_over_the_types_of_another_corpus(tmp_path):
    train = build(tmp_path / "train", ["b a b b a c"])
    heldout = build(tmp_path / "heldout", ["a z a b y a"])
    recoded = heldout.recoded(train.types)
    assert recoded.types[: len(train.types)] == train.types
    assert text_of(recoded) == text_of(heldout)
    assert recoded.counts[recoded.types.index("a")] == 3
    assert recoded.counts[recoded.types.index("c")] == 0
    assert recoded.counts.sum() == heldout.counts.sum()
    assert np.array_equal(recoded.offsets, heldout.offsets)


@given(lines=st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=8))
def test_any_text_comes_back(tmp_path_factory, lines):
    words = [word for line in lines for word in line.split()]
    folder = tmp_path_factory.mktemp("corpus")
    if not words:
        with pytest.raises(CtxvecError):
            build(folder, lines)
        return
    assert text_of(build(folder, lines)) == words


@pytest.mark.parametrize("word", ["a\u2028b", "a\x85b", "a\x0bb", "\\n"])
def test_words_with_line_breaks_of_other_tokenizers(tmp_path, word):
    corpus = build_corpus([word], lambda text: [text, "end"], tmp_path, max_tokens=8)
    assert text_of(corpus) == [word, "end"]


def test_spacy_tokens_without_white_space():
    assert spacy_tokenizer("en")("It's  a \t test.") == ["It", "'s", "a", "test", "."]
