"""`spacy-ctxvec.Listener.v1`: the tok2vec of a component that listens to a shared encoder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from spacy.tokens import Doc
from thinc.api import Maxout, Model

from .. import errors
from ..nn.parallel import can_share, run_all
from ..types import FloatArray, Floats2d, Floats3d
from . import scalar_mix
from .batching import cut, in_parts, joined
from .scalar_mix import Mix
from .settings import Unsaved

logger = logging.getLogger("spacy")
STATE = "ctxvec_listener"
PIECE = 500


class Upstream(Protocol):
    """What a listener needs to know of the component that it listens to."""

    name: str

    @property
    def rehearses(self) -> bool: ...

    def layer_statistics(self) -> tuple[FloatArray, FloatArray]: ...

    def offer(self, docs: Sequence[Doc]) -> None: ...


class Batch(Protocol):
    """One forward pass of the encoder that waits for gradients."""

    @property
    def outputs(self) -> Sequence[Floats3d]: ...

    def matches(self, docs: Sequence[Doc]) -> bool: ...

    def receive(self, listener_id: int, d_outputs: Sequence[Floats3d] | None) -> None: ...


@dataclass(eq=False)
class ListenerState(Unsaved):
    """How a listener is linked. Nothing of it is saved, copied or sent to another process but
    `read`, which fetches a Doc's layers and is all that prediction needs."""

    upstream: Upstream | None = None
    read: Callable[[Doc, int], FloatArray | None] | None = None
    listener_id: int = 0
    batch: Batch | None = None
    sample: Sequence[Doc] = ()
    warned: bool = False

    def __deepcopy__(self, memo: Any) -> ListenerState:
        return ListenerState(read=self.read)

    def __reduce__(self) -> tuple[Any, ...]:
        return ListenerState, (None, self.read)


@dataclass
class ListenerSettings(Unsaved):
    """See `Listener_v1`; `width` is that of the encoder's layers."""

    upstream: str
    grad_factor: float
    width: int


def Listener_v1(
    width: int,
    mix: Mix,
    upstream: str = "*",
    grad_factor: float = 1.0,
    projection: int | None = None,
) -> Model[list[Doc], list[Floats2d]]:
    """Vectors of a shared `ctxvec` component, through a mix that belongs to this listener.

    width (int): Width of the encoder's layers, `${components.ctxvec.model.width}`.
    mix (Model[Floats3d, Floats2d]): How the layers become one vector.
    upstream (str): Name of the component listened to; "*" for the one before this component.
    grad_factor (float): Weight of this listener's gradient where the encoder is trained; 0 sends
        none. It weighs listeners against each other and is not a learning rate.
    projection (Optional[int]): Width of a maxout layer after the mix, by default none.
    RETURNS (Model[List[Doc], List[Floats2d]]): (n_tokens, projection or width) for each doc.
    """
    # Only nO is a dimension: what replaces a listener must have the same ones, or the pipeline
    # around it could not be loaded again.
    attrs = {STATE: ListenerState(), "settings": ListenerSettings(upstream, grad_factor, width)}
    return Model(
        "ctxvec_listener",
        forward,
        init=init,
        dims={"nO": projection or width},
        layers=head(width, mix, projection),
        attrs=attrs,
    )


def head(width: int, mix: Mix, projection: int | None) -> list[Model[Any, Any]]:
    """The layers behind the encoder: a mix, and perhaps a maxout layer."""
    if projection is None:
        return [mix]
    maxout = Maxout(nO=projection, nI=width, nP=3, normalize=True, dropout=0.0)
    return [mix, maxout]


def run_head(
    head_layers: Sequence[Model[Any, Any]], layers: Sequence[Floats3d], is_train: bool
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], list[Floats3d]]]:
    """Apply the layers of a `head` to all docs at once."""
    ops = head_layers[0].ops
    lengths = [len(array) for array in layers]
    arrays = [ops.asarray3f(array) for array in layers]
    if not is_train:
        return cut(_predict(head_layers, arrays), lengths), partial(_no_backprop, [])
    Y, callbacks = joined(arrays), []
    for layer in head_layers:
        Y, callback = layer(Y, is_train)
        callbacks.append(callback)

    def backprop(dY: Sequence[Floats2d]) -> list[Floats3d]:
        gradient = ops.xp.concatenate([ops.asarray2f(array) for array in dY])
        for callback in reversed(callbacks):
            gradient = callback(gradient)
        return cut(gradient, lengths)

    return cut(Y, lengths), backprop


def _predict(head_layers: Sequence[Model[Any, Any]], arrays: Sequence[Floats3d]) -> Floats2d:
    """The layers of a head one after the other, over some docs at a time: all of them joined would
    be a large block of memory, which takes longer to get than to compute. Two threads share them.
    """

    def apply(pieces: Sequence[Sequence[Floats3d]]) -> list[Floats2d]:
        found = []
        for piece in pieces:
            Y: Any = joined(piece)
            for layer in head_layers:
                Y = layer.predict(Y)
            found.append(Y)
        return found

    if not scalar_mix.is_rowwise(head_layers[0]):
        return apply([arrays])[0]
    pieces = list(in_parts(arrays, PIECE))
    half = len(pieces) // 2
    on_cpu = isinstance(arrays[0], np.ndarray)
    if half and on_cpu and can_share():
        halves = [partial(apply, pieces[:half]), partial(apply, pieces[half:])]
        done = [Y for part in run_all(halves, threads=True) for Y in part]
    else:
        done = apply(pieces)
    return done[0] if len(done) == 1 else head_layers[0].ops.xp.concatenate(done)


def state_of(model: Model[Any, Any]) -> ListenerState:
    return model.attrs[STATE]


def settings_of(model: Model[Any, Any]) -> ListenerSettings:
    return model.attrs["settings"]


def is_listener(node: Any) -> bool:
    return isinstance(node, Model) and STATE in node.attrs


def init(model: Model[Any, Any], X: Any = None, Y: Any = None) -> Model[Any, Any]:
    """Start the mix from the statistics of the encoder, unless it was loaded with its own."""
    state = state_of(model)
    mix = model.layers[0]
    if not scalar_mix.is_settled(mix):
        if state.upstream is None:
            message = errors.LISTENER_NOT_LINKED.format(upstream=settings_of(model).upstream)
            raise errors.CtxvecError(message)
        scalar_mix.settle(mix, *state.upstream.layer_statistics())
    for layer in model.layers[1:]:
        layer.initialize()
    state.sample = list(X) if X is not None else ()
    return model


def forward(
    model: Model[Any, Any], docs: Sequence[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], list[Doc]]]:
    """Take the layers from the pending batch while training, and otherwise from the Docs."""
    if not docs:
        return [], partial(_no_backprop, docs)
    batch = _matching_batch(model, docs) if is_train else None
    layers = batch.outputs if batch is not None else _read_docs(model, docs, is_train)
    Y, backprop_head = run_head(model.layers, layers, is_train)

    def backprop(dY: Sequence[Floats2d]) -> list[Doc]:
        d_layers = backprop_head(dY)
        if batch is not None:
            factor = settings_of(model).grad_factor
            batch.receive(model.id, [factor * d for d in d_layers] if factor else None)
        return list(docs)

    return Y, backprop


def _matching_batch(model: Model[Any, Any], docs: Sequence[Doc]) -> Batch | None:
    state = state_of(model)
    if state.upstream is not None and state.upstream.rehearses:
        # spaCy shuffles the components that rehearse, so the encoder's turn may be still to come.
        state.upstream.offer(docs)
    return state.batch if state.batch is not None and state.batch.matches(docs) else None


def _read_docs(model: Model[Any, Any], docs: Sequence[Doc], is_train: bool) -> list[FloatArray]:
    """The layers that the encoder has left on the Docs; zeros for a Doc without, and a warning."""
    state = state_of(model)
    distinct = {id(doc): doc for doc in docs}  # a Doc may come twice, and can be read once
    read = {key: state.read(doc, model.id) if state.read else None for key, doc in distinct.items()}
    layers = [read[id(doc)] for doc in docs]
    found = [array for array in layers if array is not None]
    if len(found) == len(docs):
        state.sample = ()
        return found
    if is_train:
        message = errors.NOTHING_TO_LISTEN_TO.format(upstream=_upstream_name(model))
        raise errors.CtxvecError(message)
    _warn_once(model, docs)
    shape = model.layers[0].get_param("mean").shape
    return [
        np.zeros((len(doc), *shape), dtype="float32") if array is None else array
        for doc, array in zip(docs, layers)
    ]


def _warn_once(model: Model[Any, Any], docs: Sequence[Doc]) -> None:
    """While a pipeline is initialised its sample of docs has no vectors yet; else it should."""
    state = state_of(model)
    initialising = all(any(doc is seen for seen in state.sample) for doc in docs)
    if not initialising and not state.warned:
        logger.warning(errors.PREDICTS_FROM_ZEROS.format(upstream=_upstream_name(model)))
        state.warned = True


def _upstream_name(model: Model[Any, Any]) -> str:
    upstream = state_of(model).upstream
    return upstream.name if upstream else settings_of(model).upstream


def _no_backprop(docs: Sequence[Doc], dY: Any) -> list[Doc]:
    return list(docs)
