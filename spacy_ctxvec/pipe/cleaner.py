"""`ctxvec_cleaner`: frees the memory of Docs that have been through all components."""

from __future__ import annotations

from spacy.tokens import Doc

from . import docdata


class CtxvecCleaner:
    """Evaluation keeps every processed Doc; so whatever hangs on one is kept for all of them."""

    def __init__(self, *, tensor: bool):
        self.tensor = tensor

    def __call__(self, doc: Doc) -> Doc:
        docdata.clear(doc, tensor=self.tensor)
        return doc
