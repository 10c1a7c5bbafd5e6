"""The loop that all trainings share: steps, evaluations, checkpoints, signals, and their ends."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import srsly
from torch import Tensor, nn
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from .. import errors
from ..nn.memory import keep_freed_memory
from ..nn.parallel import one_thread
from .checkpoint import load_checkpoint, save_checkpoint
from .interrupting import StopRequests
from .optimizing import make_optimizer, rate_factor
from .position import Position
from .training_config import TrainingConfig
from .workers import Workers

PROGRESS = ("step", "tokens", "seconds", "best", "best_weights", "evaluations_since_best")

Portion = TypeVar("Portion")
"""What one step reads."""
Config = TypeVar("Config", bound=TrainingConfig)


class Trainer(ABC, Generic[Portion, Config]):
    """Modules and their optimizer, trained on portions of some text.

    The training is a function of the text and the config: `resume` continues to the same weights,
    unless `hours` bounds it.

    modules: what is trained, by the names that checkpoints hold their weights under
    total_tokens: the length of the run
    """

    measures: ClassVar[tuple[str, ...]]
    """What progress shows of the last evaluation."""
    loss_name = "loss"

    def __init__(
        self,
        modules: Mapping[str, nn.Module],
        config: Config,
        total_tokens: int,
        workers: Workers,
    ):
        self.workers = workers
        self.modules = {name: module.to(workers.device) for name, module in modules.items()}
        self.config = config
        self.total_tokens = total_tokens
        self.parameters = [p for module in modules.values() for p in module.parameters()]
        self.optimizer = make_optimizer(
            config.optimizer,
            self.parameters,
            learn_rate=config.learn_rate,
            beta2=config.beta2,
            weight_decay=config.weight_decay,
        )
        self.position = Position()
        self.step = 0
        self.tokens = 0
        self.seconds = 0.0
        self.best = math.inf
        self.best_weights: dict[str, dict[str, Tensor]] | None = None
        self.evaluations_since_best = 0
        self.evaluates = False  # whether an evaluation follows the step just made

    # What the kinds of training differ in

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """Of the whole run, about."""

    @abstractmethod
    def portions(self, start: Position) -> Iterator[tuple[Portion, Position]]:
        """What the steps from `start` on read, and the position after each, for ever."""

    @abstractmethod
    def backward(self, portion: Portion) -> tuple[float, int]:
        """Accumulate the gradients of a portion; its loss, and the tokens in it."""

    @abstractmethod
    def words(self, portion: Portion) -> dict[str, Any]:
        """What a portion says, for people who look into a step that failed."""

    @abstractmethod
    def error_of(self, record: Mapping[str, Any]) -> float:
        """What an evaluation is judged by: the lower, the better."""

    @abstractmethod
    def scores_of(self, record: Mapping[str, Any]) -> dict[str, float | None]:
        """What an evaluation found, by the names that loggers are told."""

    def undo(self) -> None:
        """Forget what `backward` changed besides gradients: the step failed."""

    def carried(self) -> Any:
        """What a checkpoint needs besides weights and position, of this process."""

    def continue_from(self, carried: Sequence[Any]) -> None:
        """Take up what `carried` returned, of all processes by rank."""

    def note(self, found: Mapping[str, Any]) -> None:
        """Called after an evaluation, with what it found."""

    def rate_factor(self) -> float:
        """What the learning rate is multiplied with now."""
        return rate_factor(self.config.schedule, self.config.warmup, self.done)

    # What they share

    def train(
        self,
        *,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
        tick: Callable[[], None] = lambda: None,
    ) -> bool:
        """Train to the end, with a checkpoint now and then and after the last step.

        `report` gets a record of every evaluation, with what `evaluate` returned. `tick` is called
        after every step; it has to be quick.
        Returns whether the end was reached: False after SIGINT or SIGTERM, the checkpoint written.
        """
        keep_freed_memory()
        # Where two things run at once, each has a core; more threads would wait for it.
        with one_thread(), StopRequests() as stop:
            self._train(checkpoint, evaluate, report, tick, stop)
        finished = bool(self.workers.largest([self.is_finished])[0])
        if finished and self.best_weights is not None:
            for name, module in self.modules.items():
                module.load_state_dict(self.best_weights[name])
        return finished

    @property
    def done(self) -> float:
        """The part of the run that is behind, 0 to 1."""
        parts = [self.tokens / self.total_tokens]
        if self.config.hours:
            parts.append(self.seconds / (3600 * self.config.hours))
        return min(1.0, max(parts))

    @property
    def is_finished(self) -> bool:
        patience = self.config.patience
        return self.done >= 1 or bool(patience and self.evaluations_since_best >= patience)

    def _train(
        self,
        checkpoint: Path,
        evaluate: Callable[[], dict[str, Any]],
        report: Callable[[dict[str, Any]], None],
        tick: Callable[[], None],
        stop: StopRequests,
    ) -> None:
        saved = started = time.monotonic()
        seen_before, seconds_before = self.tokens, self.seconds
        losses: list[float] = []
        portions = self.portions(self.position)
        while not self._should_end(stop):
            portion, after = next(portions)
            try:
                losses.append(self.train_step(portion, after))
            except errors.CtxvecError:
                self._keep_evidence(checkpoint, portion)
                raise
            self.seconds = seconds_before + time.monotonic() - started
            tick()
            if self.evaluates:
                if self.workers.is_first:
                    speed = (self.tokens - seen_before) / (time.monotonic() - started)
                    found = evaluate()
                    report(self._record(losses, speed) | found)
                    self._judge(found)
                losses = []
            if self._is_due(time.monotonic() - saved):
                self.save(checkpoint)
                saved = time.monotonic()
        self.save(checkpoint)

    def _should_end(self, stop: StopRequests) -> bool:
        """The same answer in all processes, and the same time on their clocks."""
        ends = self.is_finished or stop.requested
        ended, self.seconds = self.workers.largest([ends, self.seconds])
        return bool(ended)

    def _is_due(self, seconds: float) -> bool:
        return bool(self.workers.largest([seconds > self.config.checkpoint_seconds])[0])

    def _record(self, losses: list[float], speed: float) -> dict[str, Any]:
        return {
            "step": self.step,
            "tokens": self.tokens,
            "done": round(self.done, 4),
            "seconds": round(self.seconds, 1),
            self.loss_name: round(sum(losses) / len(losses), 4),
            "learn_rate": self.config.learn_rate * self.rate_factor(),
            "tokens_per_second": round(speed),
        }

    def _judge(self, found: dict[str, Any]) -> None:
        self.note(found)
        error = self.error_of(found)
        if error >= self.best:
            self.evaluations_since_best += 1
            return
        self.best, self.evaluations_since_best = error, 0
        if self.config.patience:
            self.best_weights = {
                name: {key: tensor.clone() for key, tensor in module.state_dict().items()}
                for name, module in self.modules.items()
            }

    def _keep_evidence(self, checkpoint: Path, portion: Portion) -> None:
        """Save the weights from before a step that failed, and the words that it was to read."""
        self.save(checkpoint)
        evidence = {"step": self.step, "position": asdict(self.position), **self.words(portion)}
        rank = "" if self.workers.is_first else f"_{self.workers.rank}"  # it read other rows
        srsly.write_json(checkpoint.with_name(f"failed_batch{rank}.json"), evidence)

    def train_step(self, portion: Portion, after: Position) -> float:
        """One step, after which the training stands at `after`; its loss."""
        for parameters in self.optimizer.param_groups:
            parameters["lr"] = self.config.learn_rate * self.rate_factor()
        self.optimizer.zero_grad(set_to_none=False)
        loss, n_tokens = self.backward(portion)
        norm = self.clip_gradients()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.undo()
            raise errors.CtxvecError(
                errors.LOSS_NOT_FINITE.format(loss=loss, norm=norm, step=self.step)
            )
        self.optimizer.step()
        self.step += 1
        self.tokens += self.workers.total(n_tokens)
        every, epoch = self.config.evaluate_every, self.position.epoch
        self.evaluates = self.step % every == 0 if every else after.epoch > epoch
        self.position = after
        return loss

    def clip_gradients(self) -> float:
        """Their norm, before it is made to be at most `grad_clip`."""
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        norm = get_total_norm(gradients)
        if norm > self.config.grad_clip:
            clip_grads_with_norm_(self.parameters, self.config.grad_clip, norm)
        return norm.item()

    def save(self, path: Path) -> None:
        """Write everything that training goes on from; the first process does it for all."""
        carried = self.workers.gathered(self.carried())
        if not self.workers.is_first:
            return
        save_checkpoint(
            path,
            {
                **{name: module.state_dict() for name, module in self.modules.items()},
                "optimizer": self.optimizer.state_dict(),
                "carried_state": carried,
                "position": asdict(self.position),
                **{name: getattr(self, name) for name in PROGRESS},
            },
        )

    def resume(self, path: Path) -> None:
        """Continue from what `save` wrote, with the same sizes."""
        state = load_checkpoint(path)
        try:
            for name, module in self.modules.items():
                module.load_state_dict(state[name])
            self.optimizer.load_state_dict(state["optimizer"])
            self.position = Position(**state["position"])
            self.continue_from(state["carried_state"])
            for name in PROGRESS:
                setattr(self, name, state[name])
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            message = errors.BAD_CHECKPOINT.format(path=path, error=error)
            raise errors.MalformedModelError(message) from error
