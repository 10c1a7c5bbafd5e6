"""Where the data of `ctxvec` components lies while a Doc lives.

What stays (`store`) is in `doc.user_data`, as plain arrays by component name, so that it survives
`to_bytes`, DocBin with user data, and worker processes. The layers that listeners are still to
read are kept beside the Doc, are never serialised, and go when the last one has read them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from spacy.attrs import LENGTH  # type: ignore[import-untyped]
from spacy.tokens import Doc

from .. import errors
from ..layers.cache import ProcessLock
from ..types import FloatArray
from .process_set import ProcessSet

KEY = "ctxvec"
TOKENS = "tokens"
Store = Literal["output", "layers", "none"]


@dataclass(eq=False)
class Transient:
    """Layers (n_tokens, n_layers, width) that the listeners `unread` have not yet fetched.

    tokens: see `_tokens`
    stored: the same layers, where the Doc has them for good
    """

    layers: FloatArray
    unread: set[int]
    tokens: int
    stored: FloatArray | None


Waiting = ProcessSet[Transient]
_lock = ProcessLock()  # around every use of a `Waiting`
_transient: WeakKeyDictionary[Doc, dict[str, Transient]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LayerReader:
    """Fetches the layers of one component from a Doc; small enough to go to any process."""

    component: str

    def __call__(self, doc: Doc, listener_id: int) -> FloatArray | None:
        """(n_tokens, n_layers, width), or None where the component has not seen the Doc."""
        waiting = _transient.get(doc, {}).get(self.component)
        if waiting is None:
            entry = doc.user_data.get(KEY, {}).get(self.component, {})
            layers = entry.get("layers")
            if layers is None:
                return None
            return _unchanged(doc, layers, entry.get(TOKENS)).astype("float32", copy=False)
        waiting.unread.discard(listener_id)
        if not waiting.unread:
            _transient[doc].pop(self.component)
        return _unchanged(doc, waiting.layers, waiting.tokens)


def put(
    doc: Doc,
    component: str,
    layers: FloatArray | None,
    output: FloatArray,
    *,
    listeners: Iterable[int],
    store: Store,
    dtype: str,
    waiting: Waiting,
) -> bool:
    """Store the data of one component; True if it is the first one on this Doc.

    There need be no layers where nothing would hold them.
    waiting: gets what listeners are to read
    """
    data = doc.user_data.setdefault(KEY, {})
    tokens = _tokens(doc)
    entry: dict[str, Any] = {TOKENS: tokens}
    data[component] = entry
    if store != "none":
        entry["output"] = output.astype(dtype, copy=False)
    if store == "layers" and layers is not None:
        entry["layers"] = layers.astype(dtype)
    unread = set(listeners)
    if unread and layers is not None:
        stored = entry["layers"] if "layers" in entry and dtype == "float32" else None
        transient = Transient(layers, unread, tokens, stored)
        _transient.setdefault(doc, {})[component] = transient
        with _lock:
            waiting.add(transient)
    return next(iter(data)) == component


def leave_batches(waiting: Waiting) -> None:
    """Give all Docs whose layers are still to be read rows of their own: layers come as parts of
    their batch, and a Doc that is kept must not keep that, as where a listener never runs."""
    with _lock:
        late = list(waiting)
        waiting.clear()
    for transient in late:
        stored = transient.stored
        transient.layers = transient.layers.copy() if stored is None else stored


def drop(doc: Doc) -> None:
    doc.user_data.pop(KEY, None)
    _transient.pop(doc, None)


def mark_tensor(doc: Doc, component: str) -> None:
    """Note that `doc.tensor` holds the output of `component`."""
    doc.user_data[KEY][component]["tensor"] = True


def components(doc: Doc) -> list[str]:
    return list(doc.user_data.get(KEY, {}))


def first_component(doc: Doc) -> str:
    """The component whose vectors the Doc's own are."""
    found = components(doc)
    if not found:
        raise errors.CtxvecError(errors.NO_DATA_ON_DOC)
    return found[0]


def layer_rows(doc: Doc, component: str) -> FloatArray:
    """All layers, float32 (n_tokens, n_layers, width)."""
    waiting = _transient.get(doc, {}).get(component)
    layers = waiting.layers if waiting else entry_of(doc, component).get("layers")
    if layers is None:
        raise errors.CtxvecError(errors.LAYERS_NOT_KEPT.format(name=component))
    return _checked(doc, layers).astype("float32", copy=False)


def output_rows(doc: Doc, component: str) -> FloatArray:
    """The component's output, float32 (n_tokens, width)."""
    entry = entry_of(doc, component)
    tensor: Any = doc.tensor if entry.get("tensor") else None
    # spaCy keeps the tensor right where tokens merge; where they are split, it gets too long.
    is_there = isinstance(tensor, np.ndarray) and tensor.ndim == 2
    rows = tensor if is_there else entry.get("output")
    if rows is None:
        raise errors.CtxvecError(errors.OUTPUT_NOT_KEPT)
    return _checked(doc, rows).astype("float32", copy=False)


def entry_of(doc: Doc, component: str) -> dict[str, Any]:
    entry = doc.user_data.get(KEY, {}).get(component)
    if entry is None:
        found = ", ".join(components(doc)) or "none"
        raise errors.CtxvecError(errors.NO_SUCH_COMPONENT.format(name=component, found=found))
    return entry


def _tokens(doc: Doc) -> int:
    """A checksum of the lengths of a Doc's tokens: it changes where tokens are merged or split."""
    return zlib.crc32(doc.to_array(LENGTH).tobytes())


def _unchanged(doc: Doc, rows: FloatArray, tokens: int | None) -> FloatArray:
    """The rows, if the Doc's tokens are those that they were made for.

    tokens: the checksum of these; None on Docs that were saved without
    """
    if tokens not in (None, _tokens(doc)):
        raise errors.CtxvecError(errors.RETOKENISED)
    return _checked(doc, rows)


def _checked(doc: Doc, rows: FloatArray) -> FloatArray:
    """The same by their number alone, which takes no time however often it is done."""
    if len(rows) != len(doc):
        raise errors.CtxvecError(errors.RETOKENISED)
    return rows
