"""One forward pass of the encoder that waits for the gradients of its listeners.

spaCy lets the last listener run the backward pass, so the encoder learns nothing where that one
is frozen or finds no gold annotation. Here every listener reports to the pending batch, which
goes back through the encoder once: when all have reported, when the pipe's update is finished,
or at the latest when the next batch comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from threading import get_ident
from typing import Any, Protocol

from spacy.tokens import Doc
from thinc.api import Optimizer

from ..types import Floats3d


class Owner(Protocol):
    """The component whose encoder ran."""

    def forget(self, batch: PendingBatch) -> None: ...

    def step(self, sgd: Optimizer) -> None: ...

    def record_loss(self, loss: float) -> None: ...


class PendingBatch:
    """outputs: one (n_tokens, n_layers, width) a doc, shared by all listeners.
    backprop: the encoder's backward pass; None where it is frozen.
    expected: ids of all listeners of the component.
    """

    def __init__(
        self,
        owner: Owner,
        docs: Sequence[Doc],
        outputs: Sequence[Floats3d],
        backprop: Callable[[Sequence[Floats3d]], Any] | None,
        expected: Iterable[int],
    ):
        self.outputs = outputs
        self.sgd: Optimizer | None = None
        self._owner = owner
        self._docs = docs
        self._key = _key(docs)
        self._backprop = backprop
        self._expected = set(expected)
        self._seen: set[int] = set()
        self._gradient: list[Floats3d] | None = None
        self._flushed = False
        self._thread = get_ident()

    @property
    def has_reports(self) -> bool:
        return bool(self._seen)

    @property
    def is_of_this_thread(self) -> bool:
        """Whether the forward pass ran in the thread that asks."""
        return self._thread == get_ident()

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy of the component in another process waits for nothing."""
        return _no_batch, ()

    def matches(self, docs: Sequence[Doc]) -> bool:
        """Whether `docs` have the same words in the same order as the docs of this batch."""
        return _key(docs) == self._key

    def holds_any(self, docs: Sequence[Doc]) -> bool:
        """Whether one of `docs` is a doc of this batch, and not just equal to one."""
        own = {id(doc) for doc in self._docs}
        return any(id(doc) in own for doc in docs)

    def receive(self, listener_id: int, d_outputs: Sequence[Floats3d] | None) -> None:
        """Take the gradient of one listener; None from one that sends none."""
        if self._flushed or listener_id in self._seen:
            return
        self._seen.add(listener_id)
        if d_outputs is not None and self._backprop is not None:
            self._add(d_outputs)
        if self._seen >= self._expected:
            self.flush()

    def _add(self, d_outputs: Sequence[Floats3d]) -> None:
        if self._gradient is None:
            self._gradient = [array.copy() for array in d_outputs]  # callers may reuse theirs
            return
        for total, array in zip(self._gradient, d_outputs):
            total += array

    def flush(self) -> None:
        """Run the backward pass with what has been reported, once, and free the graph."""
        if self._flushed:
            return
        self._flushed = True
        if self._backprop is not None and self._gradient is not None:
            squared = sum((array**2).sum() for array in self._gradient)
            self._backprop(self._gradient)
            self._owner.record_loss(float(squared))  # last: a GPU is waited for here
        self.outputs = self._docs = []
        self._gradient = self._backprop = None
        self._owner.forget(self)
        if self.sgd is not None:
            self._owner.step(self.sgd)


def _no_batch() -> None:
    return None


def _key(docs: Sequence[Doc]) -> list[bytes]:
    return [doc.to_array("ORTH").tobytes() for doc in docs]
