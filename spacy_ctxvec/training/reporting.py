"""What a run tells while it goes on: its log and curve, its progress, and loggers of spaCy.

A logger is named in the config as for `spacy train`, in a block [pretrain.logger]:

    [pretrain.logger]
    @loggers = "spacy.ConsoleLogger.v3"
"""

from __future__ import annotations

import datetime
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import srsly

from .. import errors
from .curve import CURVE, LOG, draw_curve, read_log

if TYPE_CHECKING:
    from spacy.language import Language

    from ..nn.architectures import EncoderConfig
    from .running import Progress
    from .trainer import Trainer

LogStep = Callable[[dict[str, Any] | None], None]
SetupLogger = Callable[["Language", IO[str], IO[str]], tuple[LogStep, Callable[[], None]]]

TICK_SECONDS = 1.0
TICKS = 10  # that a speed is measured over


class Reports:
    """Everything that is told of a run, from its start to its end, however that comes.

    setup: of the logger, as `resolve_logger` returns it. Only the first of several processes that
        train together has anything to tell.
    make_nlp: the pipeline that the logger is given (`stand_in`)
    """

    def __init__(
        self,
        trainer: Trainer[Any, Any],
        work: Path,
        progress: Progress,
        setup: SetupLogger | None,
        make_nlp: Callable[[], Language],
    ):
        self.make_nlp = make_nlp
        self.trainer = trainer
        self.work = work
        self.progress = progress
        self.setup = setup if trainer.workers.is_first else None
        self.past = [r for r in read_log(work / LOG) if r["step"] <= trainer.step]
        self.ticker = Ticker(trainer, progress.tick, self.past[-1] if self.past else {})
        self.log_step: LogStep = lambda info: None
        self.finalize: Callable[[], None] = lambda: None

    def __enter__(self) -> Reports:
        if self.setup is not None:
            # Standard output is for the records of --json.
            self.log_step, self.finalize = self.setup(self.make_nlp(), sys.stderr, sys.stderr)
        return self

    def __exit__(self, *exception: object) -> None:
        self.finalize()
        if not self.trainer.workers.is_first:
            return
        try:
            draw_curve(self.work / LOG, self.work / CURVE)
        except (errors.CtxvecError, OSError) as error:
            self.progress.advice(str(error))

    def record(self, record: dict[str, Any]) -> None:
        """Of an evaluation."""
        record = {"time": datetime.datetime.now().isoformat(timespec="seconds"), **record}
        append_record(self.work / LOG, record)
        self.past.append(record)
        self.progress.training(record)
        self.log_step(logger_info(self.past, self.trainer))
        self.ticker.restart(record)

    def tick(self) -> None:
        """After every step."""
        self.ticker()
        if not self.trainer.evaluates:
            self.log_step(None)


class Ticker:
    """Tells, about once a second, how far a training is; to be called after every step.

    `tell` gets `tokens`, `done` (0 to 1), `tokens_per_second` of the last seconds, and what the
    last evaluation measured, None where there was none.
    """

    def __init__(
        self,
        trainer: Trainer[Any, Any],
        tell: Callable[[dict[str, Any]], None],
        last: Mapping[str, Any],
    ):
        self.trainer = trainer
        self.tell = tell
        self.samples: deque[tuple[float, int]] = deque(maxlen=TICKS + 1)
        self.restart(last)

    def restart(self, last: Mapping[str, Any]) -> None:
        """Measure the speed from now on: the time of an evaluation is not that of training.

        last: its record
        """
        self.measured = {name: last.get(name) for name in self.trainer.measures}
        self.samples.clear()
        self.samples.append((time.monotonic(), self.trainer.tokens))

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self.samples[-1][0] < TICK_SECONDS:
            return
        self.samples.append((now, self.trainer.tokens))
        since, before = self.samples[0]
        speed = (self.trainer.tokens - before) / (now - since)
        self.tell(
            {
                "tokens": self.trainer.tokens,
                "done": self.trainer.done,
                "tokens_per_second": round(speed),
                **self.measured,
            }
        )


def append_record(path: Path, record: dict[str, Any]) -> None:
    """Add a line to a log, on a line of its own even if a kill cut off the one before."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            file.write(b"" if file.read(1) == b"\n" else b"\n")
        file.write(srsly.json_dumps(record).encode("utf8") + b"\n")


def resolve_logger(block: dict[str, Any]) -> SetupLogger | None:
    """The logger of a block [pretrain.logger]; None if it is empty.

    CtxvecError for a logger that is not known, whose settings are wrong, or that needs a package
    which is not installed.
    """
    if not block:
        return None
    from spacy.util import registry

    try:
        setup = registry.resolve({"logger": block})["logger"]
    except (ImportError, TypeError, ValueError) as error:
        raise errors.CtxvecError(errors.BAD_LOGGER.format(error=error)) from error
    if isinstance(setup, dict):
        raise errors.CtxvecError(errors.BAD_LOGGER.format(error="it has no @loggers"))
    return setup


def stand_in(
    lang: str, block: str, settings: Any, trainer: Trainer[Any, Any], sizes: EncoderConfig
) -> Language:
    """A pipeline that tells loggers of the run: the encoder without its weights, and in its config
    the settings that they read or store.

    block, settings: of the config file, and what it holds besides the sizes of the encoder
    [training] has the settings of the training and, as loggers know them, `max_steps` (about, since
    the run is bounded by tokens), `eval_frequency` and `score_weights`, which makes the one column
    of the console: it would show perplexities times 100.
    """
    import spacy

    from ..pipe.encoder_config import encoder_block

    nlp = spacy.blank(lang)
    config = trainer.config
    nlp.add_pipe("ctxvec", config={"frozen": False, "model": encoder_block(sizes)})
    nlp.config["training"] = {
        **asdict(config),
        "max_steps": trainer.n_steps,
        "eval_frequency": config.evaluate_every,
        "score_weights": {"speed": 0.0},
    }
    others = ("model", "training", "logger", "text_folder")
    nlp.config[block] = {k: v for k, v in asdict(settings).items() if k not in others}
    return nlp


def logger_info(records: Sequence[Mapping[str, Any]], trainer: Trainer[Any, Any]) -> dict[str, Any]:
    """The last of the records, as spaCy's loggers expect it:

    epoch (int): Passes over the corpus that are complete.
    step (int): Steps made.
    words (int): Tokens seen, each counted once.
    seconds (int): Time of training, that before a resumption included.
    losses (Dict[str, float]): {"ctxvec": mean since the last evaluation, in nats a prediction}. Of
        a sampled softmax it does not compare with the perplexities.
    score (float): Higher is better. Of a language model, minus the geometric mean of the held-out
        perplexities of its directions; of a translation model, BLEU. -inf where nothing was
        measured.
    other_scores (Dict[str, float]): Of a language model `perplexity/forward`,
        `perplexity/backward`, both also with `_marks` for sentence marks, and `unknown_rate`, the
        share of held-out tokens the softmax has no word for, 0 to 1. Of any `learn_rate`, and
        `speed`, tokens a second since the run was last started.
    checkpoints (List[Tuple[float, int]]): Score and step of all evaluations, this one the last.
    """
    record = records[-1]
    scores = {**trainer.scores_of(record), "learn_rate": record["learn_rate"]}
    scores["speed"] = record["tokens_per_second"]
    return {
        "epoch": trainer.position.epoch,
        "step": record["step"],
        "words": record["tokens"],
        "seconds": int(record["seconds"]),
        "losses": {"ctxvec": record[trainer.loss_name]},
        "score": -trainer.error_of(record),
        "other_scores": {name: value for name, value in scores.items() if value is not None},
        "checkpoints": [(-trainer.error_of(r), r["step"]) for r in records],
    }
