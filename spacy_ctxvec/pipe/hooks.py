"""`vector`, `similarity` and their like for Docs, Spans and Tokens, from contextual vectors.

Without these hooks spaCy reads the static table, and calls two tokens of the same spelling equal
before it looks at any vector. The hooks hold no data: they look at the Doc when they are called.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from spacy.tokens import Doc, Span, Token

from .. import errors
from ..types import FloatArray
from .storage import first_component, output_rows


def install(doc: Doc, *, replace: bool) -> None:
    """
    replace: also hooks that somebody else has put there since
    """
    shared = {"has_vector": has_vector, "vector_norm": vector_norm, "similarity": similarity}
    for hooks, vector in (
        (doc.user_hooks, doc_vector),
        (doc.user_span_hooks, span_vector),
        (doc.user_token_hooks, token_vector),
    ):
        ours = {"vector": vector, **shared}
        hooks.update(ours if replace else {**ours, **hooks})


def remove(doc: Doc) -> None:
    ours = {doc_vector, span_vector, token_vector, has_vector, vector_norm, similarity}
    for installed in (doc.user_hooks, doc.user_span_hooks, doc.user_token_hooks):
        for name in [name for name, hook in installed.items() if hook in ours]:
            del installed[name]


def token_vector(token: Token) -> FloatArray:
    """The output row of the token, (width,)."""
    return _rows(token.doc)[token.i]


def span_vector(span: Span) -> FloatArray:
    """The mean over the span's words, (width,); of a one-word span, that word's vector."""
    return _mean(_rows(span.doc)[span.start : span.end], _is_word(span.doc)[span.start : span.end])


def doc_vector(doc: Doc) -> FloatArray:
    """The mean over the words of the Doc, (width,)."""
    return _mean(_rows(doc), _is_word(doc))


def has_vector(item: Doc | Span | Token) -> bool:
    return bool(np.any(np.asarray(item.vector)))


def vector_norm(item: Doc | Span | Token) -> float:
    return float(np.linalg.norm(np.asarray(item.vector)))


def similarity(item: Any, other: Any) -> float:
    """Cosine of the two vectors; 0 where one of them has none."""
    ours, theirs = np.asarray(item.vector), np.asarray(other.vector)
    if ours.shape != theirs.shape:
        widths = {"found": len(theirs), "expected": len(ours)}
        raise errors.CtxvecError(errors.OTHER_WIDTH.format(**widths))
    norms = np.linalg.norm(ours) * np.linalg.norm(theirs)
    return float(np.dot(ours, theirs) / norms) if norms else 0.0


def _rows(doc: Doc) -> FloatArray:
    return output_rows(doc, first_component(doc))


def _is_word(doc: Doc) -> np.ndarray:
    return np.array([not token.is_space for token in doc], dtype=bool)


def _mean(rows: FloatArray, is_word: np.ndarray) -> FloatArray:
    words = rows[is_word]
    return words.mean(axis=0) if len(words) else np.zeros(rows.shape[1], dtype="float32")
