"""Adaptation of a model to a domain: its language-model training goes on with text from there.

The words of the old softmax keep their places, rows and biases, and frequent words of the domain
are put behind them. So the perplexities before and after the training are those of one vocabulary.
"""

from __future__ import annotations

import copy
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import srsly
import torch
from torch import Tensor, nn

from .. import errors
from ..formats.detect import load_model
from ..formats.native import EncoderModel, read_json_object
from ..formats.variants import cold
from ..nn.adaptive_softmax import AdaptiveSoftmax, AnySoftmax
from ..nn.softmax import WordSoftmax, log_frequencies, log_sum_exp
from ..text.corpus import SPECIALS, UNKNOWN_ID, Corpus
from ..types import IntArray
from .card import adapted_card
from .lm import LMTrainer, word_counts
from .lm_config import LMTrainingConfig
from .perplexity import Perplexity, evaluate
from .pretrain import (
    PretrainConfig,
    bilm_sizes,
    language_model_run,
    language_of,
    load_language_model,
    model_folder,
    model_info,
    start_softmax,
    write_model,
)
from .running import CHECKPOINT, Progress, train_in
from .workers import Workers

START = "start.json"
LEAST_COUNT = 3  # of a new word in the domain text; from fewer, little can be learned
OLD, EXTENDED, NEW = "old", "with new words", "new"
TRAINING = LMTrainingConfig(
    epochs=3.0,
    batch_tokens=1024,
    learn_rate=1e-3,
    warmup=0.1,
    dropout=0.1,
    evaluate_every=100,
)


@dataclass(frozen=True)
class AdaptConfig:
    """What to adapt to what.

    model: a model folder, or what `load_model` reads if the softmax is new
    text, heldout, exclude: files, patterns and folders, as `find_files` takes them
    lang, name: by default those of the model, its name with `_adapted` after it
    new_words: how many words of the domain the softmax gains at most, the most frequent ones that
        it lacks
    new_softmax: start a softmax anew, over the words of the domain alone
    """

    model: Path
    text: list[str]
    heldout: list[str]
    exclude: list[str] = field(default_factory=list)
    lang: str | None = None
    name: str | None = None
    unit: str = "paragraph"
    max_tokens: int = 256
    new_words: int = 5000
    new_softmax: bool = False
    training: LMTrainingConfig = TRAINING


@dataclass(frozen=True)
class Comparison:
    """Held-out perplexities over one vocabulary; there is none before if the softmax was new."""

    n_words: int
    before: Perplexity | None
    after: Perplexity

    def rounded(self) -> dict[str, Any]:
        """As a plain record."""
        before = self.before and self.before.rounded()
        return {"n_words": self.n_words, "before": before, "after": self.after.rounded()}


class Adaptation:
    """One run, in the working folder `work`, which is laid out as that of `pretrain` is.

    CtxvecError where the model cannot be read or has no softmax.
    """

    def __init__(self, config: AdaptConfig, work: Path):
        self.config = config
        self.work = work
        self.folder = model_folder(config.model)
        self.softmax: AnySoftmax | None = None
        self.words: list[str] = []
        if config.new_softmax:
            self.encoder = load_model(self.folder)
        else:
            self.encoder, self.softmax, self.words = load_language_model(self.folder)
        if bilm_sizes(self.encoder, self.folder).warm:
            self.encoder = cold(self.encoder)  # its state is that of the weights as they were
        self.sizes = bilm_sizes(self.encoder, self.folder)
        if isinstance(self.softmax, AdaptiveSoftmax) and config.new_words:
            raise errors.CtxvecError(errors.ADAPTIVE_WORDS.format(path=self.folder))
        self.pretraining = self._pretraining()

    def run(
        self, progress: Progress | None = None, *, n_process: int = 1, gpu_id: int = -1
    ) -> Path | None:
        """Run, or continue; see `pretrain`.

        RETURNS (Optional[Path]): The model folder, whose info has the perplexities before and
            after under `adaptation`; None if the run was stopped.
        """
        progress = progress or Progress()
        parts = (self.pretraining, self.work, progress, self.build_trainer, self.finish)
        run = language_model_run(*parts, vocabulary=self.words)
        return train_in(self.work, run, progress, n_process=n_process, gpu_id=gpu_id)

    def build_trainer(self, config: PretrainConfig, train: Corpus, workers: Workers) -> LMTrainer:
        """A trainer of the old encoder, and of a softmax that goes on or begins."""
        if workers.is_first:
            self._check_start()
        torch.manual_seed(config.training.seed)
        softmax = self.first_softmax(train)
        return LMTrainer(self.encoder.build(), softmax, train, config.training, workers)

    def first_softmax(self, train: Corpus) -> AnySoftmax:
        """The softmax that training starts from; its words are the first types of `train`."""
        if self.softmax is None:
            n_words = min(self.pretraining.n_words, _n_frequent(train, len(SPECIALS)))
            return start_softmax(self.pretraining, word_counts(train, n_words))
        if isinstance(self.softmax, AdaptiveSoftmax):
            return copy.deepcopy(self.softmax)
        n_old = len(self.words)
        n_words = min(n_old + self.config.new_words, _n_frequent(train, n_old))
        counts = word_counts(train, n_words)
        return extended(self.softmax, counts[[UNKNOWN_ID, *range(n_old, n_words)]])

    def finish(
        self, config: PretrainConfig, trainer: LMTrainer, heldout: Corpus, folder: Path
    ) -> Path:
        """Measure, and write the model folder."""
        found = self.compare(trainer, heldout)
        after = list(found.values())[-1].after
        trainer.measure_layers(heldout, config.training.eval_tokens)
        adaptation = {
            "source": self.encoder.info.get("name", self.folder.name),
            "tokens": trainer.tokens,
            "new_words": trainer.softmax.n_words - len(self.words),
            "vocabularies": {name: one.rounded() for name, one in found.items()},
        }
        info = {**self.encoder.info, **model_info(config, trainer, after), "adaptation": adaptation}
        info["tokens_seen"] += self.encoder.info.get("tokens_seen", 0)
        return write_model(config, trainer, info, adapted_card, folder)

    def compare(self, trainer: LMTrainer, heldout: Corpus) -> dict[str, Comparison]:
        """Held-out perplexities by vocabulary, that of the trained softmax last."""
        after = evaluate(trainer.model, trainer.softmax, heldout)
        n_old, n_now, device = len(self.words), trainer.softmax.n_words, trainer.model.device
        if self.softmax is None:
            return {NEW: Comparison(n_now, None, after)}
        model = self.encoder.build().to(device)
        before = evaluate(model, self.softmax.to(device), heldout)
        if n_old == n_now:
            return {OLD: Comparison(n_old, before, after)}
        assert isinstance(trainer.softmax, WordSoftmax)  # words are added to no other
        folded = evaluate(trainer.model, Folded(trainer.softmax, n_old), heldout)
        first = evaluate(model, self.first_softmax(trainer.corpus).to(device), heldout)
        return {
            OLD: Comparison(n_old, before, folded),
            EXTENDED: Comparison(n_now, first, after),
        }

    def _pretraining(self) -> PretrainConfig:
        """The run in the terms of `pretrain`."""
        config, info = self.config, self.encoder.info
        return PretrainConfig(
            name=config.name or f"{info.get('name', self.folder.name)}_adapted",
            lang=language_of(self.encoder, self.folder, config.lang),
            text_folder=Path(),
            train=config.text,
            heldout=config.heldout,
            licence=info.get("licence", "not stated"),
            sources=[],
            exclude=config.exclude,
            unit=config.unit,
            max_tokens=config.max_tokens,
            dtype=self.encoder.dtype,
            model=self.sizes,
            training=config.training,
        )

    def _check_start(self) -> None:
        """Note what the run starts from; CtxvecError if its checkpoint began with another thing."""
        path = self.work / START
        start = {
            "model": _checksum(self.encoder),
            "new_words": self.config.new_words,
            "new_softmax": self.config.new_softmax,
        }
        if (self.work / CHECKPOINT).exists():
            began = read_json_object(path) if path.exists() else {}
            for name, expected in start.items():
                if began.get(name) != expected:
                    message = errors.OTHER_START.format(
                        folder=self.work, field=name, found=began.get(name), expected=expected
                    )
                    raise errors.CtxvecError(message)
        srsly.write_json(path, start)


def extended(softmax: WordSoftmax, counts: IntArray) -> WordSoftmax:
    """A copy of a softmax with new words behind the old ones.

    counts (1 + n_new,): of the words that stay unknown, together, and of each new word

    The new words were unknown up to now. So each has the unknown word's row, and their biases
    divide what it had by relative frequency: old words keep their probabilities, whatever the
    context is, and the sum of the others stays what the unknown word had.
    """
    new = copy.deepcopy(softmax)
    shares = softmax.bias.data[UNKNOWN_ID] + log_frequencies(counts).to(softmax.bias.device)
    row = softmax.weight.data[UNKNOWN_ID]
    new.weight = nn.Parameter(torch.cat([softmax.weight.data, row.repeat(len(counts) - 1, 1)]))
    new.bias = nn.Parameter(torch.cat([softmax.bias.data, shares[1:]]))
    new.bias.data[UNKNOWN_ID] = shares[0]
    return new


class Folded:
    """A softmax over its first `n_words` words: what it gives to all others is the unknown word's.

    So a model with new words is compared with what it was when it had none.
    """

    def __init__(self, softmax: WordSoftmax, n_words: int):
        self.softmax = softmax
        self.n_words = n_words

    def full_losses(self, direction: int, hidden: Tensor, targets: Tensor) -> Tensor:
        """Negative log-likelihood of targets (n,), given hidden (n, input_width)."""
        losses = self.softmax.full_losses(direction, hidden, targets)
        is_unknown = targets == UNKNOWN_ID
        x = self.softmax.project(direction, hidden[is_unknown])
        ids = torch.tensor([UNKNOWN_ID, *range(self.n_words, self.softmax.n_words)])
        own = self.softmax.rows(ids.to(targets.device))
        every = self.softmax.weight, self.softmax.bias
        losses[is_unknown] = log_sum_exp(x, *every) - log_sum_exp(x, *own)
        return losses


def _n_frequent(corpus: Corpus, n_known: int) -> int:
    """How many types there are up to the last new one that is frequent enough.

    Types behind the known ones stand by falling frequency (`Corpus.recoded`).
    """
    return n_known + int((corpus.counts[n_known:] >= LEAST_COUNT).sum())


def _checksum(model: EncoderModel) -> str:
    crc = 0
    for name in sorted(model.weights):
        crc = zlib.crc32(model.weights[name].contiguous().numpy().tobytes(), crc)
    return f"{crc:08x}"
