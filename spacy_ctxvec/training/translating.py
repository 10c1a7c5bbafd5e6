"""Sentences through a translation model, and how good its translations are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from spacy.strings import get_string_id

from .. import errors
from ..formats.word_table import WordTable
from ..nn.beam import SearchSettings, replace_unknown, translate
from ..nn.nmt import UNK, Translator
from ..nn.placing import placed_on
from ..text.pair_corpus import PairCorpus
from ..text.subwords import joined, word_groups
from ..types import FloatArray
from .pair_batches import PairReader

SENTENCES = 64  # translated at once, and
PADDED_WORDS = 1 << 13  # so many words of them, when all are as long as the longest
POOL = 4096  # sentences sorted by length together
Sentences = list[list[str]]


@dataclass(frozen=True)
class Translation:
    """A sentence and what it was translated to, in words.

    score: log-probability of the translation, as the search ranks it
    attention (n_words, n_source): what each word was made looking at, the mean of its pieces
    """

    source: list[str]
    words: list[str]
    score: float
    attention: FloatArray


@dataclass(frozen=True)
class Quality:
    """On held-out pairs: perplexity of the target, its end included; BLEU of translations (0 to
    100) and how that was computed; the share of target words that the model does not know."""

    perplexity: float
    bleu: float
    signature: str
    unknown_rate: float
    n_pairs: int


def check_width(found: int, model: Translator) -> None:
    """CtxvecError where static vectors of this width are not what the model reads."""
    expected = model.config.encoder.input_width
    if found != expected:
        raise errors.CtxvecError(errors.STATIC_WIDTH.format(found=found, expected=expected))


def word_vectors(table: WordTable, words: Sequence[str]) -> FloatArray:
    """Vectors (n_words, width), zeros for words without one."""
    return table.find(word_keys(words))[0]


def word_keys(words: Sequence[str]) -> NDArray[np.uint64]:
    """What a table of vectors knows words by, (n_words,)."""
    return np.array([get_string_id(word) for word in words], dtype=np.uint64)


def translations(
    model: Translator,
    target_words: Sequence[str],
    sentences: Sequence[list[str]],
    table: WordTable,
    search: SearchSettings,
    *,
    copy_unknown: bool = True,
) -> Iterator[Translation]:
    """The best translation of each sentence, in order; an empty one for an empty sentence.

    target_words: of the model, marks first
    table: the static vectors of words
    copy_unknown: put the source word that was looked at most where the model knows no word
    """
    for start in range(0, len(sentences), POOL):
        pool = sentences[start : start + POOL]
        found: dict[int, Translation] = {}
        by_length = sorted(range(len(pool)), key=lambda i: len(pool[i]))
        for numbers in _groups(by_length, [len(pool[i]) for i in by_length]):
            batch = [pool[i] for i in numbers]
            made = _batch(model, target_words, batch, table, search, copy_unknown)
            found.update(zip(numbers, made))
        yield from (found[i] for i in range(len(pool)))


def _groups(numbers: Sequence[int], lengths: Sequence[int]) -> Iterator[Sequence[int]]:
    """Sentences to be translated at once; `lengths` are theirs, and do not fall."""
    first = 0
    for i, length in enumerate(lengths):
        n = i - first + 1
        if n > SENTENCES or (n > 1 and n * length > PADDED_WORDS):
            yield numbers[first:i]
            first = i
    yield numbers[first:]


def _batch(
    model: Translator,
    target_words: Sequence[str],
    sentences: Sequence[list[str]],
    table: WordTable,
    search: SearchSettings,
    copy_unknown: bool,
) -> Iterator[Translation]:
    words = [word for sentence in sentences for word in sentence]
    lengths = np.array([len(sentence) for sentence in sentences])
    vectors = placed_on(word_vectors(table, words), model.encoder.device)
    check_width(vectors.shape[1], model)
    results = translate(model, vectors, lengths, search)
    for sentence, hypotheses in zip(sentences, results):
        best = hypotheses[0]
        made = [target_words[i] for i in best.words]
        if copy_unknown:
            made = replace_unknown(made, best.attention, sentence, unknown=target_words[UNK])
        rows = [best.attention[group].mean(axis=0) for group in word_groups(made)]
        attention = np.stack(rows) if rows else best.attention
        yield Translation(sentence, joined(made), best.score, attention)


@torch.no_grad()
def evaluate_translation(
    model: Translator,
    target_words: Sequence[str],
    pairs: PairCorpus,
    table: WordTable,
    search: SearchSettings,
) -> Quality:
    """Held-out perplexity and BLEU. The pairs must be `recoded` over the target types of training,
    and cut as those are (`text.subwords`); perplexity is then that of pieces, BLEU that of words.

    Translations and references are compared as they were tokenised and, where the model reads
    lower-cased text, lower-cased.
    """
    vectors = word_vectors(table, pairs.source.types)
    n_words = len(target_words)
    reader = PairReader(pairs, vectors, n_words, batch_pairs=SENTENCES)
    nll, n_tokens, n_unknown = 0.0, 0, 0
    for numbers in reader.in_order():
        batch = reader.read(numbers)
        sources = placed_on(batch.vectors, model.encoder.device)
        loss = model.loss(sources, batch.lengths, batch.targets)
        nll, n_tokens = nll + loss.nll, n_tokens + loss.n_tokens
        n_unknown += int((batch.targets == UNK).sum())
    sources, references = sentences_of(pairs, range(len(pairs)))
    made = translations(model, target_words, sources, table, search)
    bleu, signature = bleu_of([t.words for t in made], references)
    return Quality(
        perplexity=math.exp(nll / n_tokens),
        bleu=bleu,
        signature=signature,
        unknown_rate=n_unknown / pairs.target.n_tokens,
        n_pairs=len(pairs),
    )


def sentences_of(pairs: PairCorpus, numbers: Sequence[int]) -> tuple[Sentences, Sentences]:
    """The words of some pairs, source and target, whatever pieces the latter are cut into."""
    source, target = (
        [[side.types[i] for i in side.piece(number)] for number in numbers]
        for side in (pairs.source, pairs.target.uncut or pairs.target)
    )
    return source, target


def bleu_of(
    translated: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> tuple[float, str]:
    """BLEU (0 to 100) of tokenised translations, and sacrebleu's signature of how it is computed.

    CtxvecError without sacrebleu.
    """
    metric = bleu_metric()
    score = metric.corpus_score(
        [" ".join(words) for words in translated], [[" ".join(words) for words in references]]
    )
    return score.score, str(metric.get_signature())


def bleu_metric() -> Any:
    """Of tokenised text; CtxvecError without sacrebleu."""
    try:
        from sacrebleu.metrics.bleu import BLEU
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_BLEU.format(error=error)) from error
    return BLEU(tokenize="none", force=True)
