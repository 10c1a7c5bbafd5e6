"""Evaluation sets in the formats in which they come."""

from __future__ import annotations

import bz2
import json

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.evaluation_texts import evaluation_text
from spacy_ctxvec.text.exclusion import plain_words

SENTENCES = [
    ["He", "saw", "Mecca", "'s", "crane", "yesterday", "."],
    ["It", "fell", "in", "2015", "."],
]
WORDS = [*SENTENCES[0], *SENTENCES[1]]
EXPECTED = plain_words(" ".join(WORDS))


def words_of(path, text: str) -> list[str]:
    path.write_text(text, "utf8")
    return plain_words(evaluation_text(path))


def columns(row, separator: str = "\t") -> str:
    """One line a token, by `row(sentence number, token number, word)`."""
    return "\n\n".join(
        "\n".join(separator.join(row(s, i, word)) for i, word in enumerate(sentence))
        for s, sentence in enumerate(SENTENCES)
    )


@pytest.mark.parametrize("ending", ["conll", "txt", "iob", "tsv"])
@pytest.mark.parametrize("separator", ["\t", " "])
def test_words_in_the_first_column(tmp_path, ending, separator):
    text = columns(lambda s, i, word: [word, "B-LOC" if word == "Mecca" else "O"], separator)
    assert words_of(tmp_path / f"a.{ending}", text + "\n\n") == EXPECTED


def test_conll_2003_with_document_marks(tmp_path):
    text = "-DOCSTART- -X- O O\n\n" + columns(lambda s, i, word: [word, "NN", "I-NP", "O"], " ")
    assert words_of(tmp_path / "a.txt", text) == ["docstart", *EXPECTED]


def test_conllu(tmp_path):
    row = columns(lambda s, i, w: [str(i + 1), w, w.lower(), "X", "_", "_", "0", "dep", "_", "_"])
    text = f"# newdoc id = x\n# text = He saw\n{row}\n"
    assert words_of(tmp_path / "a.conllu", text) == EXPECTED


def test_conll_2012(tmp_path):
    text = columns(lambda s, i, w: ["wsj/1", f"wsj/1-{s}", str(i), w, "NN", "(S*", "-", "-"])
    assert words_of(tmp_path / "a.conll", text) == EXPECTED


def test_coreference_columns_without_blank_lines(tmp_path):
    text = "\n".join(f"{i}\t{word}\t_" for i, word in enumerate(WORDS))
    text = f"# begin document \n{text}\n# end document\n"
    assert words_of(tmp_path / "a.conll", text) == EXPECTED


def test_a_hashtag_is_a_word(tmp_path):
    text = "#begin document (x); part 000\nSee\tO\n#news\tO\n\n# \tO\nnow\tO\n"
    assert words_of(tmp_path / "a.conll", text) == ["see", "news", "now"]


@pytest.mark.parametrize("ending", ["txt", "tsv", "csv", "", "de"])
def test_running_text_and_tables_stay_as_they_are(tmp_path, ending):
    text = 'id\ttext\n1\tHe saw Mecca\'s crane, "yesterday".\n\n2\tIt fell in 2015.\n'
    path = tmp_path / ("a." + ending if ending else "a")
    assert words_of(path, text) == plain_words(text)


def test_compressed_text(tmp_path):
    path = tmp_path / "a.txt.bz2"
    path.write_bytes(bz2.compress(" ".join(WORDS).encode()))
    assert plain_words(evaluation_text(path)) == EXPECTED


def test_all_strings_of_json(tmp_path):
    value = {"data": [{"context": "He saw\nMecca\u2019s", "n": [1, None, True]}, ["crane", "fell"]]}
    expected = ["he", "saw", "mecca", "s", "crane", "fell"]
    assert words_of(tmp_path / "a.json", json.dumps(value)) == expected
    assert words_of(tmp_path / "b.json", '"He saw"') == ["he", "saw"]
    lines = f"{json.dumps(value)}\n\n{json.dumps(['again'])}\n"
    assert words_of(tmp_path / "a.jsonl", lines) == [*expected, "again"]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_broken_json_is_named(tmp_path, name):
    with pytest.raises(CtxvecError, match=f"evaluation text .*{name} as JSON"):
        words_of(tmp_path / name, '{"text": ')


def test_markup_without_tags(tmp_path):
    text = "<corpus>\n<wf lemma='he'>He</wf>\n<wf>saw</wf>\n<wf>A&amp;B</wf></corpus>"
    assert words_of(tmp_path / "a.xml", text) == ["he", "saw", "a", "b"]


def test_the_leaves_of_trees(tmp_path):
    text = "(2 (1 He) (2 (2 saw) (3 Mecca)))\n(3 (2 It) (2 fell))\n"
    assert words_of(tmp_path / "a.txt", text) == ["he", "saw", "mecca", "it", "fell"]


def test_docbin(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = [Doc(vocab, words=sentence) for sentence in SENTENCES]
    DocBin(docs=docs).to_disk(tmp_path / "a.spacy")
    assert plain_words(evaluation_text(tmp_path / "a.spacy")) == EXPECTED


@pytest.mark.parametrize("name", ["a.txt", "a.conll", "a.jsonl", "a.xml"])
def test_an_empty_file_has_no_text(tmp_path, name):
    assert words_of(tmp_path / name, "") == []


def test_bytes_that_are_no_utf8_do_no_harm(tmp_path):
    (tmp_path / "a.txt").write_bytes("Mecca Ümläut crane".encode("latin1"))
    assert plain_words(evaluation_text(tmp_path / "a.txt"))[-1] == "crane"
