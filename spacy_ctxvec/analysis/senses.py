"""Word senses by the nearest mean of the occurrences of each sense (Peters et al. 2018, 5.3).

Corpora are in the format of Raganato et al. (2017): an XML file of sentences, and beside it a file
with a key for each marked word.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
from spacy.tokens import Doc
from spacy.vocab import Vocab

from .. import errors
from ..layers.encoder import Encoder
from ..text.archives import open_bytes
from ..types import FloatArray
from .probing import word_layers

DATA, KEYS = ".data.xml", ".gold.key.txt"


class Marked(NamedTuple):
    """A word, or a phrase, with its lemma, word class and senses: tokens `start` to `end`."""

    start: int
    end: int
    lemma: str
    pos: str
    senses: frozenset[str]


@dataclass(frozen=True)
class SenseScores:
    """Share of the test words that get a right sense, by layer, and for the most frequent sense.

    covered: the share whose lemma occurs in training; the others are left out of the scores, since
        nothing here knows their senses
    """

    layers: list[float]
    most_frequent: float
    covered: float
    n_train: int
    n_test: int


def read_senses(path: Path, max_sentences: int | None = None) -> Iterator[tuple[Doc, list[Marked]]]:
    """Sentences with their marked words. The files may be compressed."""
    vocab, keys = Vocab(), dict(_keys(path))
    try:
        root = ElementTree.fromstring(_text(path))
    except ElementTree.ParseError as error:
        message = errors.NO_SENSES.format(path=path, expected="sentences as XML", found=error)
        raise errors.CtxvecError(message) from error
    for number, sentence in enumerate(root.iter("sentence")):
        if max_sentences is not None and number >= max_sentences:
            return
        words: list[str] = []
        marked: list[Marked] = []
        for element in sentence:
            own = (element.text or "").split() or ["_"]
            senses = keys.get(element.get("id", ""))
            if element.tag == "instance" and senses:
                lemma, pos = element.get("lemma", ""), element.get("pos", "")
                marked.append(Marked(len(words), len(words) + len(own), lemma, pos, senses))
            words += own
        yield Doc(vocab, words=words), marked


def sense_scores(
    model: Encoder,
    train: Sequence[tuple[Doc, list[Marked]]],
    test: Sequence[tuple[Doc, list[Marked]]],
) -> SenseScores:
    """The nearest mean by cosine, among the senses that the lemma has in training."""
    sums: dict[tuple[str, str], dict[str, FloatArray]] = {}
    counts: dict[tuple[str, str], Counter[str]] = {}
    n_train = 0
    for word, vectors in _vectors(model, train):
        for sense in word.senses:
            known = sums.setdefault((word.lemma, word.pos), {})
            known[sense] = known.get(sense, 0) + vectors
            counts.setdefault((word.lemma, word.pos), Counter())[sense] += 1
        n_train += 1
    rights: list[list[bool]] = []
    n_test = 0
    for word, vectors in _vectors(model, test):
        n_test += 1
        known = sums.get((word.lemma, word.pos))
        if known is None:
            continue
        names = list(known)
        nearest = _nearest(np.stack([known[name] for name in names]), vectors)
        frequent = counts[word.lemma, word.pos].most_common(1)[0][0]
        rights.append([*(names[i] in word.senses for i in nearest), frequent in word.senses])
    if not rights:
        raise errors.CtxvecError(errors.NOTHING_TO_PROBE.format(found=0))
    shares = np.mean(np.array(rights), axis=0).tolist()
    return SenseScores(shares[:-1], shares[-1], len(rights) / n_test, n_train, n_test)


def _nearest(means: FloatArray, vectors: FloatArray) -> list[int]:
    """Of each layer, the sense whose mean has the greatest cosine with the word.

    means (n_senses, n_layers, width), vectors (n_layers, width)
    """
    norms = np.linalg.norm(means, axis=2) + 1e-9
    cosines = np.einsum("sjd,jd->sj", means, vectors) / norms
    return cosines.argmax(axis=0).tolist()


def _vectors(
    model: Encoder, sentences: Sequence[tuple[Doc, list[Marked]]]
) -> Iterator[tuple[Marked, FloatArray]]:
    """Each marked word with its layers (n_layers, width); of a phrase, the mean of its words."""
    having = [(doc, marked) for doc, marked in sentences if marked]
    for (_, marked), rows in zip(having, word_layers(model, [doc for doc, _ in having])):
        for word in marked:
            yield word, rows[word.start : word.end].mean(axis=0)


def _keys(path: Path) -> Iterator[tuple[str, frozenset[str]]]:
    """Senses by the id of the word."""
    if DATA not in path.name:
        message = errors.NO_SENSES.format(
            path=path, expected=f"a name with {DATA}", found=path.name
        )
        raise errors.CtxvecError(message)
    keys = path.with_name(path.name.replace(DATA, KEYS))
    for line in filter(str.strip, _text(keys).splitlines()):
        name, *senses = line.split()
        yield name, frozenset(senses)


def _text(path: Path) -> str:
    try:
        with open_bytes(path) as file:
            return file.read().decode("utf8")
    except (OSError, ValueError) as error:
        message = errors.NO_SENSES.format(path=path, expected="UTF-8 text", found=error)
        raise errors.CtxvecError(message) from error
