"""A training from its text to its model folder, in a working folder that it goes on from.

The working folder holds what the text was prepared to, `checkpoint.pt`, `log.jsonl`, `curve.png`
and, in the end, `model/`. Running again with the same settings continues from the last checkpoint.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from .curve import CURVE
from .reporting import Reports, resolve_logger
from .trainer import Trainer
from .workers import Workers, joined_workers

if TYPE_CHECKING:
    from spacy.language import Language

CHECKPOINT = "checkpoint.pt"
MODEL = "model"

Texts = TypeVar("Texts")
AnyTrainer = TypeVar("AnyTrainer", bound=Trainer[Any, Any])


@dataclass(frozen=True)
class Progress:
    """Where the run tells how far it is; the default tells nobody.

    corpus: gets the name of what is prepared, and how many tokens, or pairs, were added
    problems: gets a line for each kind of fault that was found in the text
    training: gets the record of every evaluation
    tick: gets a short one about once a second (`training.reporting.Ticker`)
    advice: gets a line on what was left undone, and why
    """

    corpus: Callable[[str, int], None] = lambda what, n: None
    problems: Callable[[str], None] = lambda line: None
    training: Callable[[dict[str, Any]], None] = lambda record: None
    tick: Callable[[dict[str, Any]], None] = lambda record: None
    advice: Callable[[str], None] = lambda line: None


@dataclass(frozen=True)
class Run(Generic[Texts, AnyTrainer]):
    """What makes one kind of training.

    logger: a block [logger] of a config file; empty for none
    prepare: reads the texts, or builds them with so many processes where they are missing
    build: makes the trainer
    evaluate: measures on held-out text
    finish: writes the model folder
    stand_in: the pipeline that loggers are given (`training.reporting.stand_in`)
    """

    logger: dict[str, Any]
    prepare: Callable[[int], Texts]
    build: Callable[[Texts, Workers], AnyTrainer]
    evaluate: Callable[[AnyTrainer, Texts], dict[str, Any]]
    finish: Callable[[AnyTrainer, Texts, Path], object]
    stand_in: Callable[[AnyTrainer], Language]


def train_in(
    work: Path,
    run: Run[Texts, AnyTrainer],
    progress: Progress | None = None,
    *,
    n_process: int = 1,
    gpu_id: int = -1,
) -> Path | None:
    """Run, or continue, a training on GPU `gpu_id` or, for -1, on the CPU. Under `torchrun`, its
    processes train together.

    RETURNS (Optional[Path]): The model folder; None if SIGINT or SIGTERM stopped the run, which
        goes on from its checkpoint when it is called again.
    """
    setup_logger = resolve_logger(run.logger)
    work.mkdir(parents=True, exist_ok=True)
    with joined_workers(gpu_id) as workers:
        texts = run.prepare(n_process) if workers.is_first else None
        workers.wait()  # the others open what the first one has built
        texts = run.prepare(1) if texts is None else texts
        trainer = run.build(texts, workers)
        checkpoint = work / CHECKPOINT
        if checkpoint.exists():
            trainer.resume(checkpoint)
        make_nlp = partial(run.stand_in, trainer)
        with Reports(trainer, work, progress or Progress(), setup_logger, make_nlp) as reports:
            finished = trainer.train(
                checkpoint=checkpoint,
                evaluate=lambda: run.evaluate(trainer, texts),
                report=reports.record,
                tick=reports.tick,
            )
        if not finished:
            return None
        if workers.is_first:
            run.finish(trainer, texts, work / MODEL)
            if (work / CURVE).exists():
                shutil.copyfile(work / CURVE, work / MODEL / CURVE)
    return work / MODEL
