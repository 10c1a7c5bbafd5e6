"""Cross-validation over documents: the sentences of one document never stand on both sides.

A Wikipedia article repeats its own names, so a split by sentence would measure memory.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from conll import Sentence

from spacy_ctxvec.errors import CtxvecError


@dataclass(frozen=True)
class Split:
    """Training, dev and test sentences of one fold."""

    train: list[Sentence]
    dev: list[Sentence]
    test: list[Sentence]


def number_documents(sentences: Sequence[Sentence], starts: Sequence[int]) -> list[Sentence]:
    """Number the documents of a file without marks by the sentences they start at.

    sentences (Sequence[Sentence]): The sentences of the file.
    starts (Sequence[int]): Index of each document's first sentence, ascending, from 0.
    RETURNS (list[Sentence]): The same sentences with their documents, from 0.
    """
    if list(starts) != sorted(set(starts)) or not starts or starts[0] != 0:
        raise CtxvecError(f"Document starts must ascend from 0, found {list(starts)[:5]}...")
    if starts[-1] >= len(sentences):
        raise CtxvecError(
            f"A document starts at sentence {starts[-1]}, the file has {len(sentences)} sentences: "
            "it is not the file that the list of documents was made for."
        )
    openings = set(starts)
    document = -1
    numbered = []
    for i, sentence in enumerate(sentences):
        document += i in openings
        numbered.append(Sentence(sentence.words, sentence.entities, document))
    return numbered


def document_folds(sentences: Sequence[Sentence], n_folds: int, seed: int = 0) -> list[set[int]]:
    """Deal documents to folds of nearly equal token counts: largest first, to the lightest fold.

    sentences (Sequence[Sentence]): All sentences of the corpus.
    n_folds (int): How many folds.
    seed (int): Decides between documents of equal size.
    RETURNS (list[set[int]]): Document numbers of each fold.
    """
    sizes = Counter[int]()
    for sentence in sentences:
        sizes[sentence.document] += len(sentence.words)
    if len(sizes) < n_folds:
        raise CtxvecError(f"{n_folds} folds need as many documents, found {len(sizes)}.")
    folds: list[set[int]] = [set() for _ in range(n_folds)]
    weights = [0] * n_folds
    for document in sorted(_shuffled(sizes, seed), key=lambda d: -sizes[d]):
        lightest = weights.index(min(weights))
        folds[lightest].add(document)
        weights[lightest] += sizes[document]
    return folds


def split_fold(
    sentences: Sequence[Sentence], test: set[int], dev_share: float, seed: int = 0
) -> Split:
    """Hold out the test documents; of the rest, whole documents make dev until it is big enough."""
    rest = [s for s in sentences if s.document not in test]
    sizes = Counter(s.document for s in rest)
    dev: set[int] = set()
    for document in _shuffled(sizes, seed):
        if sum(sizes[d] for d in dev) >= dev_share * len(rest):
            break
        dev.add(document)
    return Split(
        train=[s for s in rest if s.document not in dev],
        dev=[s for s in rest if s.document in dev],
        test=[s for s in sentences if s.document in test],
    )


def _shuffled(documents: Iterable[int], seed: int) -> list[int]:
    order = sorted(documents)
    random.Random(seed).shuffle(order)
    return order
