"""Where the data of `ctxvec` components lies while a Doc lives.

What stays (`store`) is in `doc.user_data`, as plain arrays by component name, so that it survives
`to_bytes`, DocBin with user data, and worker processes. The layers that listeners are still to
read are kept beside the Doc, are never serialised, and go when the last one has read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from spacy.tokens import Doc

from .. import errors
from ..types import FloatArray

KEY = "ctxvec"
Store = Literal["output", "layers", "none"]


@dataclass
class Transient:
    """Layers (n_tokens, n_layers, width) that the listeners `unread` have not yet fetched."""

    layers: FloatArray
    unread: set[int]


_transient: WeakKeyDictionary[Doc, dict[str, Transient]] = WeakKeyDictionary()


@dataclass(frozen=True)
class LayerReader:
    """Fetches the layers of one component from a Doc; small enough to go to any process."""

    component: str

    def __call__(self, doc: Doc, listener_id: int) -> FloatArray | None:
        """(n_tokens, n_layers, width), or None where the component has not seen the Doc."""
        waiting = _transient.get(doc, {}).get(self.component)
        if waiting is None:
            layers = doc.user_data.get(KEY, {}).get(self.component, {}).get("layers")
            return None if layers is None else _checked(doc, layers).astype("float32", copy=False)
        waiting.unread.discard(listener_id)
        if not waiting.unread:
            _transient[doc].pop(self.component)
        return _checked(doc, waiting.layers)


def put(
    doc: Doc,
    component: str,
    layers: FloatArray | None,
    output: FloatArray,
    *,
    listeners: Iterable[int],
    store: Store,
    dtype: str,
) -> bool:
    """Store the data of one component; True if it is the first one on this Doc.

    There need be no layers where nothing would hold them.
    """
    data = doc.user_data.setdefault(KEY, {})
    data[component] = entry = {}
    if store != "none":
        entry["output"] = output.astype(dtype, copy=False)
    if store == "layers" and layers is not None:
        entry["layers"] = layers.astype(dtype)
    unread = set(listeners)
    if unread and layers is not None:
        waiting = Transient(layers, unread)
        _transient.setdefault(doc, {})[component] = waiting
    return next(iter(data)) == component


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
    output = entry.get("output")
    if output is None or len(output) != len(doc):
        tensor = doc.tensor if entry.get("tensor") else None
        if isinstance(tensor, np.ndarray) and len(tensor) == len(doc):
            return tensor.astype("float32", copy=False)  # spaCy keeps it right when tokens merge
    if output is None:
        raise errors.CtxvecError(errors.OUTPUT_NOT_KEPT)
    return _checked(doc, output).astype("float32", copy=False)


def entry_of(doc: Doc, component: str) -> dict[str, Any]:
    entry = doc.user_data.get(KEY, {}).get(component)
    if entry is None:
        found = ", ".join(components(doc)) or "none"
        raise errors.CtxvecError(errors.NO_SUCH_COMPONENT.format(name=component, found=found))
    return entry


def _checked(doc: Doc, rows: FloatArray) -> FloatArray:
    if len(rows) != len(doc):
        raise errors.CtxvecError(errors.RETOKENISED.format(found=len(rows), expected=len(doc)))
    return rows
