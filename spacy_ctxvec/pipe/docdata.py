"""`doc._.ctxvec`: how users read what a `ctxvec` component has left on a Doc."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import numpy as np
from spacy.tokens import Doc, Span, Token

from .. import errors
from ..types import FloatArray, Floats2d
from . import hooks, storage


def annotate(
    doc: Doc,
    component: str,
    layers: FloatArray | None,
    output: Floats2d,
    *,
    listeners: Iterable[int],
    store: storage.Store,
    dtype: str,
    tensor: bool,
    waiting: storage.Waiting,
) -> None:
    """Put the data of one component on a Doc, as set by `store` and `dtype`.

    layers (n_tokens, n_layers, width), output (n_tokens, width): float32, on the host; no layers
        where neither listeners nor `store` want them
    listeners: ids of the listeners that will read the layers
    tensor: write `doc.tensor`, if this is the first component on the Doc
    waiting: gets what listeners are to read
    """
    is_first = storage.put(
        doc, component, layers, output, listeners=listeners, store=store, dtype=dtype,
        waiting=waiting,
    )  # fmt: skip
    if is_first:
        hooks.install(doc, replace=True)
    if is_first and tensor:
        doc.tensor = output
        storage.mark_tensor(doc, component)


def clear(doc: Doc, *, tensor: bool) -> None:
    """Take everything off a Doc that `annotate` put there."""
    storage.drop(doc)
    hooks.remove(doc)
    if tensor:
        doc.tensor = np.zeros((0,), dtype="float32")


def attach(doc: Doc) -> Doc:
    """Put vectors and similarities back on a Doc that came from bytes, a DocBin or a worker.

    The first use of `doc._.ctxvec` does the same. Needs a Doc that kept its user data.
    """
    install_extensions()
    storage.first_component(doc)
    hooks.install(doc, replace=False)
    return doc


class CtxvecData:
    """The vectors of one component on one Doc, Span or Token."""

    def __init__(self, doc: Doc, component: str, start: int, end: int):
        self._doc = doc
        self._rows = slice(start, end)
        self.component = component

    def __getitem__(self, component: str) -> CtxvecData:
        """The same tokens in another `ctxvec` component of the pipeline."""
        storage.entry_of(self._doc, component)
        return CtxvecData(self._doc, component, self._rows.start, self._rows.stop)

    def __iter__(self) -> Iterator[str]:
        """The names of the `ctxvec` components that have seen the Doc."""
        return iter(storage.components(self._doc))

    @property
    def layers(self) -> FloatArray:
        """Every layer, raw: float32 (n_tokens, n_layers, width); layer 0 is the token layer."""
        return storage.layer_rows(self._doc, self.component)[self._rows]

    @property
    def output(self) -> FloatArray:
        """One vector a token, by the `output` setting: float32 (n_tokens, width)."""
        return storage.output_rows(self._doc, self.component)[self._rows]

    def layer(self, which: int | Literal["token", "top"]) -> FloatArray:
        """One layer, (n_tokens, width): by index, negative ones from the top, or by name."""
        layers = self.layers
        index = {"token": 0, "top": -1}.get(which) if isinstance(which, str) else which
        if index is None or not -layers.shape[1] <= index < layers.shape[1]:
            expected = f'"token", "top" or 0 to {layers.shape[1] - 1}'
            raise errors.CtxvecError(errors.NO_SUCH_LAYER.format(found=which, expected=expected))
        return layers[:, index]

    def __repr__(self) -> str:
        return f"CtxvecData({self.component!r}, tokens {self._rows.start}:{self._rows.stop})"


def install_extensions() -> None:
    """Make `doc._.ctxvec`, `span._.ctxvec` and `token._.ctxvec` known in this process.

    Also silences W109, with which spaCy says that saved Docs lose their hooks: ours come back.
    """
    if Doc.has_extension("ctxvec"):
        return
    warnings.filterwarnings("ignore", message=r"\[W109\]")
    getters: list[tuple[Any, Any]] = [(Doc, _of_doc), (Span, _of_span), (Token, _of_token)]
    for kind, getter in getters:
        kind.set_extension("ctxvec", getter=getter)


def _of_doc(doc: Doc) -> CtxvecData:
    return _view(doc, 0, len(doc))


def _of_span(span: Span) -> CtxvecData:
    return _view(span.doc, span.start, span.end)


def _of_token(token: Token) -> CtxvecData:
    return _view(token.doc, token.i, token.i + 1)


def _view(doc: Doc, start: int, end: int) -> CtxvecData:
    attach(doc)
    return CtxvecData(doc, storage.first_component(doc), start, end)
