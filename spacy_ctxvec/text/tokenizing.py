"""Documents to words in spaCy's way, a chunk of documents at a time, compactly returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import errors
from .exclusion import Exclusion
from .sources import Document, Paragraph
from .windows import window_ends

if TYPE_CHECKING:
    from spacy.tokens import Doc

UNITS = ("paragraph", "sentence", "document")
Hashes = NDArray[np.uint64]
# spaCy keeps every word that it has seen; beyond this many it starts anew, or memory would grow.
MAX_LEXEMES = 400_000


@dataclass(frozen=True)
class Tokenized:
    """The words of some documents.

    `words` are the distinct ones in order of first appearance, `ids` (n_tokens,) rows of them,
    `lengths` (n_pieces,) the tokens of each piece, `pieces` (n_documents,) the pieces of each
    document, `paragraphs` a 64-bit hash of each paragraph. `excluded` are the documents left out:
    the number of the evaluation file that each shares most with, and its tokens.
    """

    words: list[str]
    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]
    pieces: NDArray[np.int32]
    paragraphs: Hashes
    excluded: list[tuple[int, int]]

    def until(self, n_tokens: int) -> Tokenized:
        """The first documents, as many as it takes to have `n_tokens` tokens or more.

        `paragraphs` and `excluded` stay those of all documents.
        """
        piece_ends = np.cumsum(self.pieces)
        token_ends = np.cumsum(self.lengths, dtype=np.int64)[piece_ends - 1]
        last = int(np.searchsorted(token_ends, n_tokens))
        if last + 1 >= len(self.pieces):
            return self
        ids = self.ids[: token_ends[last]]
        return Tokenized(
            words=self.words[: ids.max() + 1],
            ids=ids,
            lengths=self.lengths[: piece_ends[last]],
            pieces=self.pieces[: last + 1],
            paragraphs=self.paragraphs,
            excluded=self.excluded,
        )


class ChunkTokenizer:
    """spaCy's blank pipeline for `lang`, cutting documents to pieces of `max_tokens` at most.

    A piece is one paragraph, one sentence (spaCy's `sentencizer`) or all words of a document, by
    `unit`; longer ones are cut, after the end of a sentence if there is one.
    """

    def __init__(self, lang: str, unit: str, max_tokens: int, exclusion: Exclusion | None = None):
        if unit not in UNITS:
            raise errors.CtxvecError(errors.BAD_UNIT.format(found=unit, expected=", ".join(UNITS)))
        if max_tokens < 1:
            raise errors.CtxvecError(errors.EMPTY_WINDOW.format(found=max_tokens))
        self.lang = lang
        self.unit = unit
        self.max_tokens = max_tokens
        self.exclusion = exclusion
        self._start()

    def _start(self) -> None:
        self.nlp = blank_pipeline(self.lang)
        self.vocab = self.nlp.vocab
        self.sentencizer: Any = self.nlp.add_pipe("sentencizer")

    def __call__(self, documents: Sequence[Document]) -> Tokenized:
        if len(self.vocab) > MAX_LEXEMES:
            self._start()
        pieces: list[Hashes] = []
        n_pieces: list[int] = []
        paragraphs: list[int] = []
        excluded: list[tuple[int, int]] = []
        for document in documents:
            own = list(self._pieces(document))
            file = self.exclusion.most_shared(document) if self.exclusion else None
            if file is not None:
                excluded.append((file, sum(map(len, own))))
            elif own:
                pieces += own
                n_pieces.append(len(own))
                paragraphs += map(paragraph_hash, document)
        return Tokenized(
            *distinct_words(pieces, self.vocab.strings),
            lengths=np.array([len(piece) for piece in pieces], dtype=np.int32),
            pieces=np.array(n_pieces, dtype=np.int32),
            paragraphs=np.array(paragraphs, dtype=np.uint64),
            excluded=excluded,
        )

    def _pieces(self, document: Document) -> Iterator[Hashes]:
        units = (part for paragraph in document for part in self._parts(paragraph))
        if self.unit == "document":
            units = iter([np.concatenate([np.empty(0, np.uint64), *units])])
        for unit in units:
            start = 0
            for end in self._cuts(unit):
                yield unit[start:end]
                start = end

    def _parts(self, paragraph: Paragraph) -> list[Hashes]:
        """spaCy's ids of the words of a paragraph, or of each of its sentences."""
        from spacy.attrs import IS_SPACE, ORTH, SENT_START
        from spacy.tokens import Doc

        if isinstance(paragraph, str):
            doc = self.nlp.tokenizer(paragraph)
        else:
            doc = Doc(self.vocab, words=paragraph)
        if self.unit != "sentence":
            return [word_ids(doc)]
        table = self.sentencizer(doc).to_array([ORTH, IS_SPACE, SENT_START])
        starts = np.flatnonzero(table[:, 2] == 1)
        return [part[part[:, 1] == 0, 0] for part in np.split(table, starts[1:])]

    def _cuts(self, unit: Hashes) -> list[int]:
        if len(unit) <= self.max_tokens:  # nearly always, and it needs no strings
            return [len(unit)] if len(unit) else []
        words = [self.vocab.strings[key] for key in unit.tolist()]
        return window_ends(words, self.max_tokens)


def blank_pipeline(lang: str) -> Any:
    """`spacy.blank`, whose tokenizer knows again as many words as its vocabulary may hold.

    spaCy's own limit of 10,000 is right for a service; through a large text it analyses every rarer
    word each time anew, and takes several times as long.
    """
    import spacy

    try:
        nlp = spacy.blank(lang)
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_LANGUAGE.format(found=lang, error=error)) from error
    if hasattr(nlp.tokenizer, "max_cache_size"):  # some languages' tokenizers are of other kinds
        nlp.tokenizer.max_cache_size = MAX_LEXEMES
    return nlp


def word_ids(doc: Doc, attribute: str = "ORTH") -> Hashes:
    """spaCy's ids of the words of a Doc, or of an attribute of them; white space is left out."""
    table = doc.to_array([attribute, "IS_SPACE"])
    return table[table[:, 1] == 0, 0]


def distinct_words(pieces: Sequence[Hashes], strings: Any) -> tuple[list[str], NDArray[np.int32]]:
    """The distinct words in order of first appearance, and the row of each token's word."""
    if not pieces:
        return [], np.empty(0, dtype=np.int32)
    hashes, first, inverse = np.unique(
        np.concatenate(pieces), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    row = np.empty(len(order), dtype=np.int32)
    row[order] = np.arange(len(order), dtype=np.int32)
    return [strings[key] for key in hashes[order].tolist()], row[inverse]


def paragraph_hash(paragraph: Paragraph) -> int:
    text = paragraph if isinstance(paragraph, str) else " ".join(paragraph)
    return hash64(text.encode("utf8"))


def hash64(data: bytes) -> int:
    """64 bits that depend on `data` alone."""
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def n_duplicates(hashes: Sequence[Hashes]) -> int:
    """How many of the texts with these hashes are copies of an earlier one."""
    every = np.concatenate([np.empty(0, np.uint64), *hashes])
    every.sort()  # in place: of a large text, they are hundreds of megabytes
    return int((every[1:] == every[:-1]).sum())
