"""One text read by one encoder: what `spacy ctxvec demo` prints and shows as a page."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import torch
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span, Token

from .. import errors
from ..pipe.component import Ctxvec
from ..text.windows import ends_sentence
from .facts import encoder_facts
from .neighbours import Neighbour, SameWord, WordVectors, telling_words

N_WORDS = 8
N_OCCURRENCES = 6
N_NEIGHBOURS = 5
MIN_TIMED_WORDS = 5_000
MAX_TIMED_SECONDS = 10.0
TIMED_BATCH = 64
N_ANNOTATED = 12
N_PARSED = 4
HANDY = range(5, 17)  # tokens of a sentence
ENTITIES, DEPENDENCIES = "doc.ents", "token.dep"


@dataclass(frozen=True)
class Speed:
    """Tokeniser and encoder together, after a warm-up; so the words' own vectors are cached."""

    words_per_second: float
    n_words: int
    threads: int


@dataclass(frozen=True)
class Nearest:
    """The words of other spelling that are nearest to the word in row `row`."""

    row: int
    neighbours: list[Neighbour]


@dataclass(frozen=True)
class Overview:
    """All that is shown of a text. Rows are those of `words`; docs have sentences.

    annotated: the first paragraphs with entities and dependencies, where the pipeline finds any
    """

    source: str
    docs: list[Doc]
    words: WordVectors
    same_words: list[SameWord]
    nearest: list[Nearest]
    speed: Speed
    facts: dict[str, Any]
    annotated: list[Doc]


def split_paragraphs(text: str) -> list[str]:
    """The paragraphs of a text, each on one line: the context that the encoder sees.

    Paragraphs end at blank lines. A text that has none may be wrapped, or hold a paragraph a
    line; there one ends with every line that ends a sentence.
    """
    blocks = re.split(r"\n\s*\n", text.strip())
    if len(blocks) == 1:
        blocks = [[]]
        for line in text.splitlines():
            blocks[-1].append(line)
            if ends_sentence(line.rstrip()[-1:]):
                blocks.append([])
        blocks = [" ".join(lines) for lines in blocks]
    paragraphs = [" ".join(block.split()) for block in blocks]
    return [paragraph for paragraph in paragraphs if paragraph]


def look_at(
    nlp: Language, encoder: Ctxvec, paragraphs: Sequence[str], source: str, limit: int
) -> Overview:
    """Read at most `limit` tokens of a text with the component `encoder` of `nlp` alone, and the
    beginning of it with the whole pipeline."""
    docs = _tokenised(nlp, paragraphs, limit)
    with nlp.select_pipes(enable=encoder.name):
        docs = list(nlp.pipe(docs))
        words = WordVectors(docs, encoder.name)
        if len(words) < 2:
            message = errors.DEMO_TOO_SHORT.format(source=source, found=len(words))
            raise errors.CtxvecError(message)
        speed = measure_speed(nlp, docs)
    sentencizer = Sentencizer()
    for doc in docs:
        sentencizer(doc)
    same_words = telling_words(words, N_WORDS, max_shown=N_OCCURRENCES)
    nearest = _nearest(words, same_words)
    facts = encoder_facts(encoder)
    return Overview(source, docs, words, same_words, nearest, speed, facts, annotated(nlp, docs))


def annotated(nlp: Language, docs: Sequence[Doc]) -> list[Doc]:
    """The first paragraphs, read by the whole pipeline; none where it annotates nothing shown."""
    if not {ENTITIES, DEPENDENCIES} & assigned(nlp):
        return []
    found = list(nlp.pipe(doc.text for doc in docs[:N_ANNOTATED]))
    for doc in found:
        if not doc.has_annotation("SENT_START"):
            Sentencizer()(doc)
    return found


def assigned(nlp: Language) -> set[str]:
    """What the components of a pipeline assign, as spaCy says it."""
    return {name for pipe in nlp.pipe_names for name in nlp.get_pipe_meta(pipe).assigns}


def _tokenised(nlp: Language, paragraphs: Sequence[str], limit: int) -> list[Doc]:
    docs: list[Doc] = []
    left = limit
    for paragraph in paragraphs:
        doc = nlp.make_doc(paragraph[: nlp.max_length])
        docs.append(doc if len(doc) <= left else doc[:left].as_doc())
        left -= len(docs[-1])
        if not left:
            break
    return docs


def measure_speed(nlp: Language, docs: Sequence[Doc]) -> Speed:
    """Time `nlp` on the texts of `docs`, repeated if they are short, in batches of one size."""
    texts = _repeated(docs)
    batches = [texts[i : i + TIMED_BATCH] for i in range(0, len(texts), TIMED_BATCH)]
    list(nlp.pipe(batches[0]))
    n_words = 0
    seconds = 0.0
    start = time.perf_counter()
    for batch in batches:
        n_words += sum(map(len, nlp.pipe(batch)))
        seconds = time.perf_counter() - start
        if seconds > MAX_TIMED_SECONDS:
            break
    return Speed(n_words / seconds, n_words, torch.get_num_threads())


def _repeated(docs: Sequence[Doc]) -> list[str]:
    texts: list[str] = []
    n_words = 0
    for doc in cycle(docs):
        if n_words >= MIN_TIMED_WORDS:
            break
        texts.append(doc.text)
        n_words += len(doc)
    return texts


def _nearest(words: WordVectors, same_words: Sequence[SameWord]) -> list[Nearest]:
    """Of each word that was compared, the first occurrence of either group."""
    rows = [word.rows[place] for word in same_words for place in (0, -1)]
    if not rows:
        longest = sorted(range(len(words)), key=lambda row: -len(words.tokens[row]))
        rows = longest[:N_WORDS]
    found = words.nearest(rows, N_NEIGHBOURS, other_words=True)
    return [Nearest(row, neighbours) for row, neighbours in zip(rows, found)]


def entities(docs: Sequence[Doc]) -> list[Span]:
    """All of them, in the order of the text."""
    return [entity for doc in docs for entity in doc.ents]


def parsed_sentences(docs: Sequence[Doc]) -> list[Span]:
    """Some sentences whose parse is easily looked at: neither short nor long, where there are."""
    found = [sentence for doc in docs if doc.has_annotation("DEP") for sentence in doc.sents]
    handy = [sentence for sentence in found if len(sentence) in HANDY]
    return (handy or found)[:N_PARSED]


def in_context(token: Token, width: int) -> tuple[str, str, str]:
    """A token with the rest of its sentence to the left and right, `width` characters at most."""
    sentence = token.sent
    before = token.doc[sentence.start : token.i].text_with_ws
    after = token.whitespace_ + token.doc[token.i + 1 : sentence.end].text
    left = max(0, width - len(token)) // 2
    left = max(left, width - len(token) - len(after))
    right = max(0, width - len(token) - min(left, len(before)))
    return _clip(before[::-1], left)[::-1], token.text, _clip(after, right)


def _clip(text: str, width: int) -> str:
    """The beginning of a text, cut after a word where there is one."""
    if len(text) <= width:
        return text
    cut = text[: max(0, width - 1)]
    at = cut.rfind(" ")
    return (cut[: at + 1] if at > 0 else cut) + "…"


def as_data(overview: Overview) -> dict[str, Any]:
    """The same as plain data, for --json."""
    words = overview.words
    return {
        "source": overview.source,
        "words": len(words),
        "same_words": [_same_word_data(words, word) for word in overview.same_words],
        "nearest": [
            {**_place(words, nearest.row), "neighbours": _neighbour_data(words, nearest)}
            for nearest in overview.nearest
        ],
        "words_per_second": round(overview.speed.words_per_second),
        "timed_words": overview.speed.n_words,
        "threads": overview.speed.threads,
        "model": overview.facts,
        "entities": [
            {"text": found.text, "label": found.label_, "sentence": found.sent.text.strip()}
            for found in entities(overview.annotated)
        ],
        "parses": [_parse_data(sentence) for sentence in parsed_sentences(overview.annotated)],
    }


def _parse_data(sentence: Span) -> list[dict[str, Any]]:
    """Of each token what it is, and the number of its head in the sentence."""
    return [
        {
            "token": token.text,
            "tag": token.tag_,
            "lemma": token.lemma_,
            "dep": token.dep_,
            "head": token.head.i - sentence.start,
        }
        for token in sentence
    ]


def _same_word_data(words: WordVectors, word: SameWord) -> dict[str, Any]:
    return {
        "word": word.text,
        "occurrences": [_place(words, row) for row in word.rows],
        "n_first_group": word.n_first,
        "separation": round(word.separation, 4),
        "similarities": [[round(float(s), 4) for s in line] for line in word.similarities],
    }


def _neighbour_data(words: WordVectors, nearest: Nearest) -> list[dict[str, Any]]:
    return [
        {**_place(words, found.row), "similarity": round(found.similarity, 4)}
        for found in nearest.neighbours
    ]


def _place(words: WordVectors, row: int) -> dict[str, Any]:
    token = words.tokens[row]
    return {"token": token.text, "sentence": token.sent.text.strip()}
