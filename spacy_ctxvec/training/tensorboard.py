"""A logger for TensorBoard.

spaCy imports the modules of all registered loggers in every `spacy.blank`, so this one imports next
to nothing before it is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pathlib import Path

    from spacy.language import Language

    from .reporting import LogStep, SetupLogger

AXES = {"tokens": "words", "step": "step"}  # as the info for loggers calls them


def TensorBoard_v1(log_dir: Path, per: Literal["tokens", "step"] = "tokens") -> SetupLogger:
    """A logger that writes losses and scores of every evaluation for TensorBoard.

    log_dir (Path): Folder to write to, one for each run. A resumed run goes on in it.
    per (str): What the curves are drawn against: tokens seen, so that runs with different batches
        compare, or steps.
    RETURNS (Callable): The logger, for [pretrain.logger] or the [training.logger] of spaCy.

    CtxvecError if TensorBoard is not installed, or for another `per`.
    """
    from .. import errors

    if per not in AXES:  # spaCy does not check it
        message = errors.UNKNOWN_AXIS.format(found=per, expected=", ".join(AXES))
        raise errors.CtxvecError(message)
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_TENSORBOARD.format(error=error)) from error

    def setup_logger(
        nlp: Language, stdout: IO[str] = sys.stdout, stderr: IO[str] = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        curves = _TensorBoard(lambda at: SummaryWriter(str(log_dir), purge_step=at), per)
        return curves.log_step, curves.finalize

    return setup_logger


class _TensorBoard:
    """open_writer: from the first place on the axis; what was written behind it by a run that was
    killed is hidden."""

    def __init__(self, open_writer: Callable[[int], Any], per: str):
        self.open_writer = open_writer
        self.axis = AXES[per]
        self.writer: Any = None

    def log_step(self, info: dict[str, Any] | None) -> None:
        if info is None:
            return
        at = info[self.axis]
        self.writer = self.writer or self.open_writer(at)
        for name, value in scalars(info):
            self.writer.add_scalar(name, value, at)
        self.writer.flush()

    def finalize(self) -> None:
        if self.writer is not None:
            self.writer.close()


def scalars(info: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Name and value of every number among the losses and scores, nested ones with a slash."""
    losses = {f"loss/{name}": value for name, value in info["losses"].items()}
    nested = [{"score": info["score"]}, losses, info["other_scores"]]
    while nested:
        for name, value in nested.pop(0).items():
            if isinstance(value, Mapping):
                nested.append({f"{name}/{key}": one for key, one in value.items()})
            elif isinstance(value, int | float):
                yield name, float(value)
