"""Probes of layers: they find what is there, and nothing where nothing is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spacy.tokens import Doc
from thinc.util import fix_random_seed
from toys import blank_with_encoder

from spacy_ctxvec.analysis.probing import linear_probe, word_layers
from spacy_ctxvec.analysis.senses import read_senses, sense_scores
from spacy_ctxvec.errors import CtxvecError

fix_random_seed(2)  # all random encoders look at the word before, this one more than others
NLP = blank_with_encoder()
NLP.initialize()
MODEL = NLP.get_pipe("ctxvec").model
WORDS = ("bank", "river", "money", "tree")


def docs(n: int, seed: int) -> list[Doc]:
    """Words whose tag is their spelling, and whose relation is the spelling of the word before."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        words = [WORDS[i] for i in random.integers(0, len(WORDS), size=6)]
        before = ["none", *words[:-1]]
        found.append(Doc(NLP.vocab, words=words, tags=words, deps=before, heads=[0] * 6))
    return found


def test_spelling_is_in_every_layer_and_the_word_before_in_none_but_the_upper_ones():
    train, test = docs(300, 0), docs(60, 1)
    tags = linear_probe(MODEL, train, test, lambda token: token.tag_, max_words=10_000)
    assert tags.layers[0] > 0.95 and min(tags.layers) > 0.7 and tags.n_classes == 4
    assert (tags.n_train, tags.n_test) == (1800, 360)
    before = linear_probe(MODEL, train, test, lambda token: token.dep_, max_words=10_000)
    assert before.layers[0] < 0.4 and before.layers[1] > before.layers[0] + 0.2
    assert before.most_frequent < 0.4


def test_words_without_a_label_white_space_and_a_bound():
    train = [Doc(NLP.vocab, words=["a", " ", "b"], tags=["x", "", "y"]), *docs(3, 0)]
    probe = linear_probe(MODEL, train, docs(2, 1), lambda token: token.tag_, max_words=2)
    assert (probe.n_train, probe.n_test) == (2, 12) and max(probe.layers) == 0
    with pytest.raises(CtxvecError, match="Nothing to tell apart"):
        linear_probe(MODEL, [], docs(2, 1), lambda token: token.tag_, max_words=2)


def test_layers_are_those_of_prediction():
    found = docs(3, 2)
    for got, want in zip(word_layers(MODEL, found), MODEL.predict(found), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5)


SENTENCE = (
    '<sentence id="s{i}"><wf lemma="the" pos="X">The</wf>'
    '<instance id="i{i}" lemma="bank" pos="NOUN">{word}</instance><wf lemma="x" pos="X">{next}</wf>'
    "</sentence>"
)


def write(folder: Path, name: str, rows: list[tuple[str, str, str]]) -> Path:
    """rows: the word, the one after it, and its sense."""
    sentences = [SENTENCE.format(i=i, word=w, next=n) for i, (w, n, _) in enumerate(rows)]
    path = folder / f"{name}.data.xml"
    path.write_text(f"<corpus><text>{''.join(sentences)}</text></corpus>", "utf8")
    keys = "".join(f"i{i} {sense}\n" for i, (_, _, sense) in enumerate(rows))
    (folder / f"{name}.gold.key.txt").write_text(keys, "utf8")
    return path


def test_senses_that_the_context_tells_are_found_above_the_token_layer(tmp_path: Path):
    river, money = ("bank", "river", "bank%1"), ("bank", "money", "bank%2")
    train = list(read_senses(write(tmp_path, "train", [river, river, river, money])))
    test = list(read_senses(write(tmp_path, "test", [river, money, money, money])))
    assert [word.start for _, marked in train for word in marked] == [1] * 4
    scores = sense_scores(MODEL, train, test)
    assert scores.layers[1] == scores.layers[2] == 1.0
    assert scores.most_frequent == 0.25 and scores.covered == 1.0
    assert (scores.n_train, scores.n_test) == (4, 4)


def test_phrases_and_lemmas_that_training_lacks(tmp_path: Path):
    path = write(tmp_path, "a", [("river bank", "x", "bank%1")])
    ((doc, (word,)),) = read_senses(path)
    assert [t.text for t in doc[word.start : word.end]] == ["river", "bank"]
    with pytest.raises(CtxvecError, match="Nothing to tell apart"):
        sense_scores(MODEL, [], list(read_senses(path)))


@pytest.mark.parametrize(
    ("name", "content"), [("x.data.xml", b"<corpus>"), ("x.xml", b""), ("x.data.xml", b"\xff\xfe")]
)
def test_files_that_are_none(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "x.gold.key.txt").write_bytes(b"")
    with pytest.raises(CtxvecError, match="Cannot read word senses"):
        list(read_senses(tmp_path / name))
