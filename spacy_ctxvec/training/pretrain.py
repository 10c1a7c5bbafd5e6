"""Pretraining from raw text to a model folder: corpus, training, held-out perplexity, card.

The working folder (`training.running`) holds the text as `corpus/` and `heldout/`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__, errors
from ..assets import FOLDER
from ..checks import check
from ..formats.detect import load_model
from ..formats.native import SOFTMAX_FILE, EncoderModel, load_softmax, save_native, save_softmax
from ..nn.adaptive_softmax import AnySoftmax, new_softmax
from ..nn.architectures import architecture_of
from ..nn.bilm import BiLM, BiLMConfig
from ..text.building import build_corpus
from ..text.corpus import Corpus
from ..text.settings import check_settings, settings_of
from ..text.sources import find_files
from ..types import IntArray
from .card import model_card
from .lm import LMTrainer, word_counts
from .lm_config import LMTrainingConfig
from .perplexity import Perplexity, evaluate
from .reporting import stand_in
from .running import CHECKPOINT, MODEL, Progress, Run, train_in
from .workers import Workers

SHIPPED = "en_sm"
LONGEST_HELDOUT = 10_000  # tokens; held-out pieces are read whole, but for absurd ones
NOT_TRAINED = "0: models of ELMoForManyLangs can be read and adapted, not trained from the start"


@dataclass(frozen=True)
class PretrainConfig:
    """One pretraining run, as written in its config file.

    train, heldout, exclude: files, patterns for files or folders, relative to `text_folder`; train
        may be `-`, standard input. Training documents that share five 8-grams of words with files
        of `exclude` are left out.
    corpus_tokens: how many tokens of the text to prepare, all of it where 0
    unit, max_tokens: what is read as one piece, and its greatest length (`text.building`)
    dtype: of the encoder's weights in the model folder
    logger: a logger of spaCy that is told of the run (`training.reporting`); empty for none
    """

    name: str
    lang: str
    text_folder: Path
    train: list[str]
    heldout: list[str]
    licence: str
    sources: list[str]
    exclude: list[str] = field(default_factory=list)
    corpus_tokens: int = 0
    unit: str = "paragraph"
    max_tokens: int = 256
    n_words: int = 40_000
    softmax_width: int = 256
    dtype: str = "float16"
    model: BiLMConfig = field(default_factory=BiLMConfig)
    training: LMTrainingConfig = field(default_factory=LMTrainingConfig)
    logger: dict[str, Any] = field(default_factory=dict)


Texts = tuple[Corpus, Corpus]
"""The training corpus and the held-out one."""
LMRun = Run[Texts, LMTrainer]


def pretrain(
    config: PretrainConfig,
    work: Path,
    progress: Progress | None = None,
    *,
    n_process: int = 1,
    gpu_id: int = -1,
) -> Path | None:
    """Run, or continue, the pretraining that `config` describes; see `train_in`."""
    progress = progress or Progress()
    run = language_model_run(config, work, progress, build_trainer, finish)
    return train_in(work, run, progress, n_process=n_process, gpu_id=gpu_id)


def language_model_run(
    config: PretrainConfig,
    work: Path,
    progress: Progress,
    build: Callable[[PretrainConfig, Corpus, Workers], LMTrainer],
    finish: Callable[[PretrainConfig, LMTrainer, Corpus, Path], Path],
    *,
    vocabulary: Sequence[str] = (),
) -> LMRun:
    """A training of a language model with any start and end.

    build: makes the trainer of the training corpus
    finish: writes the model folder, from the trainer and the held-out corpus
    vocabulary: see `prepare`
    """
    return LMRun(
        logger=config.logger,
        prepare=lambda n: prepare(config, work, progress, vocabulary=vocabulary, n_process=n),
        build=lambda texts, workers: build(config, texts[0], workers),
        evaluate=lambda trainer, texts: evaluate(
            trainer.model, trainer.softmax, texts[1], config.training.eval_tokens
        ).rounded(),
        finish=lambda trainer, texts, folder: finish(config, trainer, texts[1], folder),
        stand_in=lambda trainer: stand_in(config.lang, "pretrain", config, trainer, config.model),
    )


def prepare(
    config: PretrainConfig,
    work: Path,
    progress: Progress,
    *,
    vocabulary: Sequence[str] = (),
    n_process: int = 1,
) -> tuple[Corpus, Corpus]:
    """The training corpus, and the held-out one over its types; built where they are missing.

    vocabulary: words of a model, specials first, that the types begin with; by default they are
        those of the text alone, by falling frequency
    """
    train = _corpus(
        config, work / "corpus", config.train, progress, n_process=n_process,
        budget=config.corpus_tokens or None, max_tokens=config.max_tokens, exclude=config.exclude,
    )  # fmt: skip
    heldout = _corpus(
        config, work / "heldout", config.heldout, progress, n_process=n_process,
        budget=None, max_tokens=LONGEST_HELDOUT, exclude=[],
    )  # fmt: skip
    if vocabulary:
        train = train.recoded(vocabulary)
    return train, heldout.recoded(train.types)


def build_trainer(
    config: PretrainConfig, train: Corpus, workers: Workers | None = None
) -> LMTrainer:
    """A trainer of new, random weights."""
    torch.manual_seed(config.training.seed)
    softmax = start_softmax(config, word_counts(train, min(config.n_words, len(train.types))))
    return LMTrainer(new_bilm(config.model, train), softmax, train, config.training, workers)


def new_bilm(sizes: BiLMConfig, train: Corpus) -> BiLM:
    """A biLM with random weights; one that reads words reads the most frequent ones of `train`."""
    check(sizes, "n_characters", not sizes.n_characters, NOT_TRAINED)
    check(sizes, "word_width", not sizes.word_width, NOT_TRAINED)
    if not sizes.n_words:
        return BiLM(sizes)
    words = train.types[: sizes.n_words]
    model = BiLM(replace(sizes, n_words=len(words)))
    model.word_encoder.set_words(words)
    return model


def start_softmax(config: PretrainConfig, counts: IntArray) -> AnySoftmax:
    """An untrained softmax over the words that `counts` counts, of the kind that is trained."""
    softmax = new_softmax(
        config.training.softmax,
        input_width=config.model.token_width,
        width=config.softmax_width,
        n_words=len(counts),
    )
    softmax.start_from_counts(counts)
    return softmax


def finish(config: PretrainConfig, trainer: LMTrainer, heldout: Corpus, folder: Path) -> Path:
    """Measure, and write the model folder with its softmax and its card."""
    perplexity = evaluate(trainer.model, trainer.softmax, heldout)
    trainer.measure_layers(heldout, config.training.eval_tokens)
    info = model_info(config, trainer, perplexity)
    return write_model(config, trainer, info, model_card, folder)


def model_info(
    config: PretrainConfig, trainer: LMTrainer, perplexity: Perplexity
) -> dict[str, Any]:
    """What a trained model tells of itself, as `EncoderModel.info` holds it."""
    return {
        "name": config.name,
        "lang": config.lang,
        "tokenization": f'spacy.blank("{config.lang}"), without white space',
        "licence": config.licence,
        "made_with": f"spacy-ctxvec {__version__}",
        "tokens_seen": trainer.tokens,
        "perplexity": perplexity.rounded(),
    }


def write_model(
    config: PretrainConfig,
    trainer: LMTrainer,
    info: dict[str, Any],
    make_card: Callable[[PretrainConfig, EncoderModel, Corpus], str],
    folder: Path,
) -> Path:
    """Write the trained encoder, its softmax and its card; `load_language_model` reads them."""
    model = EncoderModel(trainer.model.config, trainer.model.state_dict(), info)
    n_words = trainer.softmax.n_words
    card = make_card(replace(config, n_words=n_words), model, trainer.corpus)
    save_native(model, folder, dtype=config.dtype, card=card)
    words = trainer.corpus.types[:n_words]
    save_softmax(trainer.softmax, words, folder, dtype=config.dtype)
    return folder


def model_folder(path: Path) -> Path:
    """The model that `path` means: the shipped one by its name, that of a working folder, or what
    lies at `path` itself.

    CtxvecError for a working folder whose training has not come to its end.
    """
    if path == Path(SHIPPED) and not path.exists():
        return FOLDER / SHIPPED
    if (path / MODEL).is_dir():
        return path / MODEL
    if (path / CHECKPOINT).exists():
        raise errors.CtxvecError(errors.UNFINISHED_WORK.format(path=path, name=MODEL))
    return path


def load_language_model(folder: Path) -> tuple[EncoderModel, AnySoftmax, list[str]]:
    """The encoder of a model folder, its softmax, and the words of that, specials first.

    CtxvecError where there is no softmax, or one that does not fit the encoder.
    """
    encoder = load_model(folder)
    sizes = bilm_sizes(encoder, folder)
    softmax, words = load_softmax(folder)
    found, width = softmax.state_dict()["projections.0.weight"].shape[1], sizes.token_width
    if found != width:
        expected = f"{width}, that of the encoder"
        raise errors.malformed_model(folder / SOFTMAX_FILE, "input width", expected, found)
    return encoder, softmax, words


def bilm_sizes(model: EncoderModel, path: Path) -> BiLMConfig:
    """Of a model that has to be a biLM; CtxvecError where it is another encoder."""
    if not isinstance(model.config, BiLMConfig):
        found = errors.KINDS[architecture_of(model.config)]
        raise errors.CtxvecError(errors.NOT_A_BILM.format(path=path, found=found))
    return model.config


def language_of(model: EncoderModel, path: Path, given: str | None) -> str:
    """The language that the text of a model is tokenised in: `given`, or what the model says."""
    lang = given or model.info.get("lang")
    if not lang:
        raise errors.CtxvecError(errors.NO_MODEL_LANGUAGE.format(path=path))
    return lang


def _corpus(
    config: PretrainConfig,
    folder: Path,
    patterns: list[str],
    progress: Progress,
    *,
    n_process: int,
    budget: int | None,
    max_tokens: int,
    exclude: list[str],
) -> Corpus:
    """The corpus in `folder`, built if it is missing, checked if it is there."""
    settings = {
        "lang": config.lang,
        "unit": config.unit,
        "max_tokens": max_tokens,
        "budget": budget,
    }
    if (folder / "meta.json").exists():
        corpus = Corpus.open(folder)
        texts = _files(config, patterns), _files(config, exclude)
        check_settings(folder, corpus.meta, settings_of(texts[0], exclude=texts[1], **settings))
        return corpus
    corpus = build_corpus(
        find_files(patterns, config.text_folder, message=errors.NO_TEXT_FILES),
        folder,
        exclude=find_files(exclude, config.text_folder, endings=None, message=errors.NO_TEXT_FILES),
        n_process=n_process,
        progress=lambda n_tokens: progress.corpus(folder.name, n_tokens),
        **settings,
    )
    for line in problem_lines(corpus.meta):
        progress.problems(f"{folder.name}: {line}")
    return corpus


def _files(config: PretrainConfig, patterns: list[str]) -> list[Path] | None:
    """The files behind the patterns; None if they are gone, as they may be after the corpus is
    built, or came on standard input."""
    try:
        files = find_files(patterns, config.text_folder, endings=None)
    except errors.CtxvecError:
        return None
    return files if "-" not in patterns else None


def problem_lines(meta: dict[str, Any]) -> list[str]:
    """What was found wrong with the text of a corpus, and how much was left out, in words."""
    problems = meta["problems"]
    lines = [
        f"{name.replace('_', ' ')}: {n:,} ({', '.join(problems['places'].get(name, [])) or 'all'})"
        for name, n in problems.items()
        if isinstance(n, int) and n
    ]
    lines += [f"empty file: {name}" for name in problems["empty_files"]]
    if meta.get("excluded", {}).get("documents"):
        left_out = meta["excluded"]
        lines.append(
            f"left out for overlap with held-out and evaluation texts: {left_out['documents']:,} "
            f"documents, {left_out['tokens']:,} tokens"
        )
    return lines
