"""From parallel text to an MT-LSTM: a translation model is trained, its encoder is CoVe's.

The working folder (`training.running`) holds the text as `pairs/` and `heldout/`, and the pieces
that target words are cut into.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import srsly
import torch

from .. import __version__, errors
from ..checks import check, check_count, is_count
from ..formats.native import DTYPES, EncoderModel, read_json_object, replace_file
from ..formats.translator import MARKS, TranslationModel, save_translation_model
from ..formats.word_table import WordTable
from ..nn.beam import SearchSettings
from ..nn.mtlstm import MTLSTMConfig
from ..nn.nmt import NMTConfig, Translator
from ..text.corpus import SPECIALS, Corpus
from ..text.lines import Problems
from ..text.pair_corpus import PairCorpus, build_pair_corpus
from ..text.parallel import PairSource, find_sources, read_pairs
from ..text.settings import check_settings, pair_settings_of
from ..text.subwords import Subwords
from ..types import IntArray
from .card import translation_card
from .nmt import NMTTrainer
from .nmt_config import NMTTrainingConfig
from .pretrain import problem_lines
from .reporting import stand_in
from .running import CHECKPOINT, Progress, Run, train_in
from .translating import (
    Quality,
    bleu_metric,
    evaluate_translation,
    sentences_of,
    translations,
    word_keys,
    word_vectors,
)
from .workers import Workers

LONGEST_HELDOUT = 200  # words of a side; longer pairs are left out of held-out text, and counted
STATISTICS_PAIRS = 1000
SAMPLES = 10
LENGTH_PENALTY = 1.0
START = "start.json"
SUBWORDS = "subwords.txt"  # a piece a line


@dataclass(frozen=True)
class NMTRunConfig:
    """One training, as written in its config file.

    train, heldout: files with both sides, or [source, target], two line-aligned files; relative to
        `text_folder`. Without `heldout`, a part of `train` is, told by the source sentence.
    vectors: a saved pipeline with static vectors of the source language
    max_tokens: pairs with more on either side are left out
    n_target_words, min_count: the target words that the model knows: so many of the most frequent
        ones, each seen so often
    subwords: whether target words are cut into about `n_target_words` pieces, settled when the run
        begins, so that those of known characters are known; `min_count` plays no part then
    """

    name: str
    source_lang: str
    target_lang: str
    text_folder: Path
    train: list[Any]
    vectors: str
    licence: str
    sources: list[str]
    heldout: list[Any] = field(default_factory=list)
    columns: list[int] = field(default_factory=lambda: [0, 1])
    lower: bool = True
    max_tokens: int = 50
    n_target_words: int = 50_000
    min_count: int = 2
    subwords: bool = False
    hidden_width: int = 300
    n_layers: int = 2
    target_width: int = 300
    tied: bool = False
    attention_bias: bool = False
    dtype: str = "float16"
    training: NMTTrainingConfig = field(default_factory=NMTTrainingConfig)
    logger: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check(self, "dtype", self.dtype in DTYPES, " or ".join(DTYPES))
        for name in ("lower", "subwords"):
            check(self, name, isinstance(getattr(self, name), bool), "true or false")
        for name in ("train", "heldout"):
            check(self, name, isinstance(getattr(self, name), list), "a list of files")
        two = len(self.columns) == 2 and all(is_count(column, 0) for column in self.columns)
        check(self, "columns", two, "two numbers from 0 on: of the source and of the target")
        for name in ("max_tokens", "n_target_words", "min_count"):
            check_count(self, name, 1)


@dataclass(frozen=True)
class Texts:
    """What a run reads. vectors: of the source language, all there are."""

    train: PairCorpus
    heldout: PairCorpus
    vectors: WordTable


NMTRun = Run[Texts, NMTTrainer]


def train_nmt(
    config: NMTRunConfig,
    work: Path,
    progress: Progress | None = None,
    *,
    n_process: int = 1,
    gpu_id: int = -1,
) -> Path | None:
    """Run, or continue, the training that `config` describes; see `train_in`."""
    bleu_metric()  # better missed now than after an epoch
    progress = progress or Progress()
    search = SearchSettings(beam=config.training.beam, max_length=config.training.max_length)
    run = NMTRun(
        logger=config.logger,
        prepare=lambda n: prepare(config, work, progress, n_process=n),
        build=lambda texts, workers: begin(config, texts, workers, work),
        evaluate=lambda trainer, texts: _rounded(quality(trainer, texts, search)),
        finish=lambda trainer, texts, folder: finish(config, trainer, texts, folder),
        stand_in=lambda trainer: stand_in(
            config.source_lang, "train_nmt", config, trainer, trainer.model.config.encoder
        ),
    )
    return train_in(work, run, progress, n_process=n_process, gpu_id=gpu_id)


def prepare(config: NMTRunConfig, work: Path, progress: Progress, *, n_process: int = 1) -> Texts:
    """The pairs, built where they are missing, the held-out ones over the types of the others.

    No sentence that is held out is among the sources of training.
    """
    vectors = read_vectors(config.vectors)
    whole = bool(config.heldout)
    train = _pairs(
        config, work / "pairs", config.train, progress, n_process=n_process,
        part=None if whole else "train", max_tokens=config.max_tokens,
        exclude_sources=heldout_sources(config),
    )  # fmt: skip
    heldout = _pairs(
        config, work / "heldout", config.heldout or config.train, progress, n_process=n_process,
        part=None if whole else "dev", max_tokens=LONGEST_HELDOUT,
    )  # fmt: skip
    if config.subwords:
        subwords = _subwords(config, work, train.target)
        train, heldout = (
            replace(pairs, target=subwords.cut(pairs.target)) for pairs in (train, heldout)
        )
    return Texts(train, heldout.recoded(train.source.types, train.target.types), vectors)


def _subwords(config: NMTRunConfig, work: Path, target: Corpus) -> Subwords:
    """The pieces that the run in the working folder has begun with, or those for a new one."""
    path = work / SUBWORDS
    if not (path.exists() and (work / CHECKPOINT).exists()):
        counts = {word: n for word, n in zip(target.types, target.counts.tolist()) if n}
        pieces = Subwords.learn(counts, config.n_target_words).pieces
        replace_file(path, "".join(f"{piece}\n" for piece in pieces).encode("utf8"))
    return Subwords(path.read_text("utf8").split("\n")[:-1])


def heldout_sources(config: NMTRunConfig) -> frozenset[str]:
    """The source sentences of the held-out files."""
    files = [_source(config.text_folder, name) for name in config.heldout]
    pairs = read_pairs(files, Problems(), columns=(config.columns[0], config.columns[1]))
    return frozenset(pair.source for pair in pairs)


def read_vectors(name: str) -> WordTable:
    """The static vectors of a saved or installed pipeline."""
    import spacy

    from ..layers.static_words import table_of

    try:
        vocab = spacy.load(name).vocab
    except (ImportError, OSError, ValueError) as error:
        message = errors.NO_VECTORS_PIPELINE.format(path=name, error=error)
        raise errors.CtxvecError(message) from error
    if not len(vocab.vectors):
        message = errors.NO_VECTORS_PIPELINE.format(path=name, error="it holds no vectors")
        raise errors.CtxvecError(message)
    return table_of(vocab)


def begin(config: NMTRunConfig, texts: Texts, workers: Workers, work: Path) -> NMTTrainer:
    """A trainer; CtxvecError if the checkpoint in `work` began with other vectors or pieces."""
    found: dict[str, Any] = {"vectors": f"{zlib.crc32(texts.vectors.to_bytes()):08x}"}
    if config.subwords:
        found["n_target_words"] = config.n_target_words
    if (work / CHECKPOINT).exists():
        began = read_json_object(work / START) if (work / START).exists() else {}
        for field, expected in found.items():
            if began.get(field) != expected:
                message = errors.OTHER_START.format(
                    folder=work, field=field, found=began.get(field), expected=expected
                )
                raise errors.CtxvecError(message)
    srsly.write_json(work / START, found)
    return build_trainer(config, texts, workers)


def build_trainer(config: NMTRunConfig, texts: Texts, workers: Workers | None = None) -> NMTTrainer:
    """A trainer of new, random weights."""
    torch.manual_seed(config.training.seed)
    encoder = MTLSTMConfig(texts.vectors.width, config.hidden_width, config.n_layers)
    model = Translator(
        NMTConfig(
            n_target_words=len(MARKS) + n_known_words(config, texts.train.target.counts),
            target_width=config.target_width,
            tied=config.tied,
            encoder=encoder,
            attention_bias=config.attention_bias,
            dropout=config.training.dropout,
        )
    )
    vectors = word_vectors(texts.vectors, texts.train.source.types)
    return NMTTrainer(model, texts.train, vectors, config.training, workers)


def n_known_words(config: NMTRunConfig, counts: IntArray) -> int:
    """How many words of the target side the model knows; counts (n_types,) fall, marks first."""
    if config.subwords:
        return len(counts) - len(SPECIALS)
    frequent = int((counts[len(SPECIALS) :] >= config.min_count).sum())
    return max(1, min(config.n_target_words, frequent))


def known_words(trainer: NMTTrainer) -> list[str]:
    """The target words of the model, marks first."""
    n_words = trainer.model.config.n_target_words - len(MARKS)
    types = trainer.pairs.target.types[len(SPECIALS) :]
    return [*MARKS, *types[:n_words]]


def quality(trainer: NMTTrainer, texts: Texts, search: SearchSettings) -> Quality:
    words = known_words(trainer)
    return evaluate_translation(trainer.model, words, texts.heldout, texts.vectors, search)


def final_search(config: NMTRunConfig) -> SearchSettings:
    """What the model card's BLEU is measured with."""
    return SearchSettings(max_length=config.training.max_length, length_penalty=LENGTH_PENALTY)


def finish(config: NMTRunConfig, trainer: NMTTrainer, texts: Texts, folder: Path) -> Path:
    """Measure, and write the model folder with its translation model and its card."""
    found = quality(trainer, texts, final_search(config))
    measure_layers(trainer)
    info = {
        "name": config.name,
        "lang": config.source_lang,
        "tokenization": f'spacy.blank("{config.source_lang}"), without white space'
        + ", lower-cased" * config.lower,
        "lower": config.lower,
        "licence": config.licence,
        "made_with": f"spacy-ctxvec {__version__}",
        "tokens_seen": trainer.tokens,
        "translation": asdict(found),
    }
    words = known_words(trainer)
    vectors = vectors_of_types(texts.vectors, trainer.pairs.source.types)
    encoder = trainer.model.encoder
    model = TranslationModel(
        EncoderModel(encoder.config, dict(encoder.state_dict()), info, vectors),
        trainer.model,
        words,
        {key: getattr(config, key) for key in ("source_lang", "target_lang", "lower")},
    )
    card = translation_card(config, model, texts.train, samples(trainer, texts, words))
    save_translation_model(model, folder, dtype=config.dtype, card=card)
    return folder


@torch.no_grad()
def measure_layers(trainer: NMTTrainer) -> None:
    """Store mean and deviation of every number of every layer over some of the training text."""
    layers = []
    batches = trainer.reader.in_order()
    n_batches = min(len(batches), max(1, STATISTICS_PAIRS // trainer.config.batch_pairs))
    for number in np.linspace(0, len(batches) - 1, n_batches, dtype=int):
        vectors, lengths = trainer.reader.sources(batches[number])
        encoder = trainer.model.encoder
        layers.append(encoder(vectors.to(encoder.device), np.arange(lengths.sum()), lengths))
    trainer.model.encoder.set_statistics(torch.cat(layers))


def samples(trainer: NMTTrainer, texts: Texts, words: Sequence[str]) -> list[dict[str, str]]:
    """Some held-out sentences, evenly chosen, with their translations and references."""
    pairs = texts.heldout
    numbers = np.linspace(0, len(pairs) - 1, min(SAMPLES, len(pairs)), dtype=int).tolist()
    chosen, references = sentences_of(pairs, numbers)
    made = translations(
        trainer.model,
        words,
        chosen,
        texts.vectors,
        SearchSettings(length_penalty=LENGTH_PENALTY),
    )
    return [
        {"source": " ".join(t.source), "translation": " ".join(t.words), "reference": " ".join(r)}
        for t, r in zip(made, references)
    ]


def vectors_of_types(table: WordTable, types: Sequence[str]) -> WordTable:
    """The vectors of the words of a corpus alone, in half precision."""
    keys = word_keys(types[len(SPECIALS) :])
    vectors, has_vector = table.find(keys)
    rows = vectors[has_vector].astype(np.float16)
    return WordTable.of(keys[has_vector], np.arange(len(rows)), rows)


def _pairs(
    config: NMTRunConfig,
    folder: Path,
    names: list[Any],
    progress: Progress,
    *,
    n_process: int,
    part: str | None,
    max_tokens: int,
    exclude_sources: frozenset[str] = frozenset(),
) -> PairCorpus:
    """The pairs in `folder`, built if they are missing, checked if they are there."""
    sources = [_source(config.text_folder, name) for name in names]
    settings = {
        "source_lang": config.source_lang,
        "target_lang": config.target_lang,
        "lower": config.lower,
        "max_tokens": max_tokens,
        "columns": (config.columns[0], config.columns[1]),
        "part": part,
        "exclude_sources": exclude_sources,
    }
    if (folder / "meta.json").exists():
        pairs = PairCorpus.open(folder)
        check_settings(folder, pairs.meta, pair_settings_of(find_sources(sources), **settings))
        return pairs
    pairs = build_pair_corpus(
        sources,
        folder,
        n_process=n_process,
        progress=lambda n_pairs: progress.corpus(folder.name, n_pairs),
        **settings,
    )
    for line in problem_lines(pairs.meta):
        progress.problems(f"{folder.name}: {line}")
    return pairs


def _source(folder: Path, name: Any) -> PairSource:
    """A name of the config, which is relative to the text folder."""
    if isinstance(name, str):
        return str(folder / name)
    if isinstance(name, list) and len(name) == 2:
        return str(folder / name[0]), str(folder / name[1])
    raise errors.CtxvecError(errors.BAD_PAIR_SOURCE.format(found=name))


def _rounded(found: Quality) -> dict[str, Any]:
    record = {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(found).items()}
    record.pop("signature")
    return record
