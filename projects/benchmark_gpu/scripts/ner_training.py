"""Updates of NER on the shipped encoder, frozen or tuned: forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import neighbours  # noqa: F401
import numpy as np
from spacy.language import Language

# isort: split
from epochs import BATCH, begin, encoder_ner, one_epoch
from group import Group, dtypes_on, lstm_passes

from spacy_ctxvec.analysis.benchmark import Pass, docs_of
from spacy_ctxvec.cli.opening import first_encoder
from spacy_ctxvec.layers.encoder import shim_of

NO_CACHE: dict[str, Any] = {"feature_cache": {"max_mb": 0}}


def ner_training(sentences: Sequence[Sequence[str]], n_words: int) -> Group:
    """An encoder that learns computes in float32; a frozen one in every precision."""
    docs = docs_of(sentences, n_words)
    words = [[token.text for token in doc] for doc in docs]
    tuned = encoder_ner("finetune", frozen=False)
    epochs = {"NER, tuned encoder": epochs_of(tuned, words)}
    module = shim_of(first_encoder(tuned).model).module
    for precision in dtypes_on(module.device):
        frozen = encoder_ner("frozen", **NO_CACHE)
        shim_of(first_encoder(frozen).model).module.set_precision(precision)
        epochs[f"NER, frozen encoder, {precision}"] = epochs_of(frozen, words)
    epochs["NER, frozen encoder, layers kept"] = epochs_of(encoder_ner("frozen"), words)
    lengths = np.array([len(doc) for doc in docs])
    passes = {}
    for backward in (True, False):
        passes |= lstm_passes(module, lengths, BATCH, backward=backward)
    return Group(passes | epochs, n_words, BATCH)


def epochs_of(nlp: Language, sentences: list[list[str]]) -> Pass:
    """Each call is one epoch more, in an order of its own."""
    trained, numbers = begin(nlp, sentences), count()
    return lambda: one_epoch(*trained, next(numbers))
