"""Pretraining from raw text to a model folder: corpus, training, held-out perplexity, card.

The working folder holds `corpus/`, `heldout/`, `checkpoint.pt`, `log.jsonl` and, in the end,
`model/`. Running again with the same settings continues from the last checkpoint.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import srsly
import torch

from .. import __version__, errors
from ..formats.native import EncoderModel, save_native
from ..nn.bilm import BiLM, BiLMConfig
from ..nn.softmax import WordSoftmax
from ..text.corpus import Corpus, build_corpus, read_paragraphs, spacy_tokenizer
from .card import model_card
from .lm import LMTrainer, LMTrainingConfig
from .perplexity import Perplexity, evaluate

CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True)
class PretrainConfig:
    """One pretraining run, as written in its config file.

    `train` and `heldout` are files, or patterns for files, relative to `text_folder`.
    """

    name: str
    lang: str
    text_folder: Path
    train: list[str]
    heldout: list[str]
    licence: str
    sources: list[str]
    corpus_tokens: int = 30_000_000
    max_tokens: int = 64
    n_words: int = 40_000
    softmax_width: int = 128
    model: BiLMConfig = field(default_factory=BiLMConfig)
    training: LMTrainingConfig = field(default_factory=LMTrainingConfig)


@dataclass(frozen=True)
class Progress:
    """Where the run tells how far it is; the default tells nobody."""

    corpus: Callable[[str, int], None] = lambda what, n_tokens: None
    training: Callable[[dict[str, Any]], None] = lambda record: None


def pretrain(config: PretrainConfig, work: Path, progress: Progress | None = None) -> Path:
    """Run, or continue, the pretraining that `config` describes; returns the model folder."""
    progress = progress or Progress()
    work.mkdir(parents=True, exist_ok=True)
    train = _corpus(config, "corpus", config.train, work, progress)
    heldout = _corpus(config, "heldout", config.heldout, work, progress).recoded(train.types)
    trainer = build_trainer(config, train)
    checkpoint = work / CHECKPOINT
    if checkpoint.exists():
        trainer.resume(checkpoint)

    def report(record: dict[str, Any]) -> None:
        record = {"time": datetime.datetime.now().isoformat(timespec="seconds"), **record}
        srsly.write_jsonl(work / "log.jsonl", [record], append=True, append_new_line=False)
        progress.training(record)

    def measure() -> dict[str, Any]:
        return rounded(
            evaluate(trainer.model, trainer.softmax, heldout, config.training.eval_tokens)
        )

    trainer.train(checkpoint=checkpoint, evaluate=measure, report=report)
    return finish(config, trainer, heldout, work / "model")


def build_trainer(config: PretrainConfig, train: Corpus) -> LMTrainer:
    torch.manual_seed(config.training.seed)
    softmax = WordSoftmax(
        input_width=config.model.token_width,
        width=config.softmax_width,
        n_words=min(config.n_words, len(train.types)),
    )
    return LMTrainer(BiLM(config.model), softmax, train, config.training)


def finish(config: PretrainConfig, trainer: LMTrainer, heldout: Corpus, folder: Path) -> Path:
    """Measure, and write the model folder with its card."""
    perplexity = evaluate(trainer.model, trainer.softmax, heldout)
    trainer.measure_layers(heldout, config.training.eval_tokens)
    info = {
        "name": config.name,
        "lang": config.lang,
        "tokenization": f'spacy.blank("{config.lang}"), without white space',
        "licence": config.licence,
        "made_with": f"spacy-ctxvec {__version__}",
        "tokens_seen": trainer.tokens,
        "perplexity": rounded(perplexity),
    }
    model = EncoderModel(config.model, trainer.model.state_dict(), info)
    save_native(model, folder, dtype="float16", card=model_card(config, model))
    return folder


def rounded(perplexity: Perplexity) -> dict[str, Any]:
    return {key: round(value, 4) for key, value in asdict(perplexity).items()}


def _corpus(
    config: PretrainConfig, name: str, patterns: list[str], work: Path, progress: Progress
) -> Corpus:
    folder = work / name
    paths = [path for pattern in patterns for path in sorted(config.text_folder.glob(pattern))]
    if not paths:
        raise errors.CtxvecError(
            errors.NO_TEXT_FILES.format(patterns=patterns, folder=config.text_folder)
        )
    meta = {
        "files": [path.name for path in paths],
        "lang": config.lang,
        "max_tokens": config.max_tokens,
        "budget": config.corpus_tokens,
    }
    if (folder / "meta.json").exists():
        return _checked(Corpus.open(folder), folder, meta)
    return build_corpus(
        read_paragraphs(paths),
        spacy_tokenizer(config.lang),
        folder,
        max_tokens=config.max_tokens,
        budget=config.corpus_tokens,
        meta=meta,
        progress=lambda n_tokens: progress.corpus(name, n_tokens),
    )


def _checked(corpus: Corpus, folder: Path, meta: dict[str, Any]) -> Corpus:
    """A corpus made before, if it was made with the same settings."""
    for name, expected in meta.items():
        found = corpus.meta.get(name)
        if found != expected:
            message = errors.OTHER_CORPUS.format(
                folder=folder, field=name, found=found, expected=expected
            )
            raise errors.CtxvecError(message)
    return corpus
