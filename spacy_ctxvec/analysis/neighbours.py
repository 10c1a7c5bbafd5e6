"""Nearest words across Docs, and how far the occurrences of one spelling lie apart.

A table of static vectors gives every occurrence of a spelling one vector; here the differences
between occurrences are what is measured. All similarities are exact cosines of output vectors,
the numbers of `token.similarity`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from spacy.tokens import Doc, Token

from ..pipe import docdata
from ..types import FloatArray, IntArray

BLOCK = 512
MAX_COMPARED = 100
ENOUGH_OCCURRENCES = 4


class WordVectors:
    """The words of some Docs, punctuation and white space left out, with vectors of length 1.

    tokens: (n_words) in the order of the text
    units: (n_words, width)
    """

    def __init__(self, docs: Sequence[Doc], component: str | None = None):
        docdata.install_extensions()
        self.tokens: list[Token] = []
        units = []
        for doc in docs:
            words = [token for token in doc if not (token.is_punct or token.is_space)]
            if not words:
                continue
            data = doc._.ctxvec if component is None else doc._.ctxvec[component]
            units.append(data.output[[token.i for token in words]])
            self.tokens += words
        rows = np.concatenate(units) if units else np.zeros((0, 1), dtype="float32")
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        self.units: FloatArray = rows / np.maximum(norms, 1e-12)
        self._spelling = np.array([token.lower for token in self.tokens], dtype=np.uint64)

    def __len__(self) -> int:
        return len(self.tokens)

    def similarities(self, rows: Sequence[int]) -> FloatArray:
        """Cosine of each word with each other, (n, n)."""
        units = self.units[list(rows)]
        return units @ units.T

    def nearest(
        self, rows: Sequence[int], k: int, *, other_words: bool = False
    ) -> list[list[Neighbour]]:
        """The `k` nearest words of each word, nearest first, never the word itself.

        other_words: leave out words of the same spelling, upper and lower case alike, and name
            each spelling once, by its nearest occurrence.
        """
        found: list[list[Neighbour]] = []
        for start in range(0, len(rows), BLOCK):
            block = np.array(rows[start : start + BLOCK])
            cosines = self.units[block] @ self.units.T
            cosines[np.arange(len(block)), block] = -np.inf
            if other_words:
                cosines[self._spelling[block][:, None] == self._spelling] = -np.inf
            found += [self._best(cosine, k, once=other_words) for cosine in cosines]
        return found

    def _best(self, cosines: FloatArray, k: int, *, once: bool) -> list[Neighbour]:
        """cosines (n_words,): minus infinity for words that do not count."""
        best: list[Neighbour] = []
        seen: set[int] = set()
        for row in np.argsort(-cosines, kind="stable").tolist():
            if len(best) == k or cosines[row] == -np.inf:
                break
            spelling = int(self._spelling[row])
            if not (once and spelling in seen):
                best.append(Neighbour(row, float(cosines[row])))
            seen.add(spelling)
        return best


@dataclass(frozen=True)
class Neighbour:
    """A word by its row in `WordVectors`, and its cosine with the word asked about."""

    row: int
    similarity: float


@dataclass(frozen=True)
class SameWord:
    """Occurrences of one spelling, ordered so that those alike stand together.

    rows: where they are in `WordVectors`; the first `n_first` form one group, the rest another
    similarities: (n, n), in the order of `rows`
    separation: mean similarity within the groups less that between them
    """

    text: str
    rows: list[int]
    n_first: int
    similarities: FloatArray
    separation: float


def telling_words(words: WordVectors, n: int, *, max_shown: int = 8) -> list[SameWord]:
    """The `n` words of a text whose occurrences fall apart most clearly into two groups.

    Words that occur four times or more go first: of fewer, one odd occurrence makes a group. Of a
    very frequent word, `max_shown` occurrences are taken, spread over both groups.
    """
    places: defaultdict[str, list[int]] = defaultdict(list)
    for row, token in enumerate(words.tokens):
        if token.is_alpha and not token.is_stop and len(token) > 2:
            places[token.text].append(row)
    candidates = [
        same_word(words, text, rows[:MAX_COMPARED], max_shown)
        for text, rows in places.items()
        if len(rows) > 1
    ]
    candidates.sort(key=lambda w: (-min(len(w.rows), ENOUGH_OCCURRENCES), -w.separation))
    return candidates[:n]


def same_word(words: WordVectors, text: str, rows: Sequence[int], max_shown: int = 8) -> SameWord:
    """Compare occurrences of one word, two or more, and cut them in two where they differ most."""
    similarities = words.similarities(rows)
    order = _along_main_difference(similarities)
    if len(order) > max_shown:
        order = order[np.linspace(0, len(order) - 1, max_shown).round().astype(int)]
    similarities = similarities[np.ix_(order, order)]
    smallest = 2 if len(order) >= ENOUGH_OCCURRENCES else 1
    cuts = range(smallest, len(order) - smallest + 1)
    separation, cut = max((_separation(similarities, cut), cut) for cut in cuts)
    return SameWord(text, [rows[i] for i in order], cut, similarities, separation)


def _along_main_difference(similarities: FloatArray) -> IntArray:
    """Positions sorted by the first principal coordinate of a similarity matrix (n, n)."""
    centred = similarities - similarities.mean(axis=0)
    centred = centred - centred.mean(axis=1, keepdims=True)
    main = np.linalg.eigh(centred.astype("float64"))[1][:, -1]
    if main[0] > 0:  # a sign of our own choice: the occurrence that comes first leads
        main = -main
    return np.argsort(main, kind="stable")


def _separation(similarities: FloatArray, cut: int) -> float:
    """Mean similarity within the two groups [:cut] and [cut:], less the mean between them."""
    group = np.arange(len(similarities)) < cut
    same = group[:, None] == group
    between = float(similarities[~same].mean())
    np.fill_diagonal(same, False)
    within = float(similarities[same].mean()) if same.any() else 1.0
    return within - between
