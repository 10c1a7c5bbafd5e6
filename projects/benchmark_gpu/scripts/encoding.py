"""Words in, layers out, without a gradient: the encoder as a frozen component runs it."""

from __future__ import annotations

from collections.abc import Sequence

import neighbours  # noqa: F401
import numpy as np
from spacy.language import Language

# isort: split
from group import Group, lstm_passes
from prepare import SIZES, random_model

from spacy_ctxvec.analysis.benchmark import docs_of, encoder_passes
from spacy_ctxvec.cli.opening import first_encoder, pipeline_around
from spacy_ctxvec.layers.encoder import ensure_weights, shim_of

BATCH_SIZE = 128


def original_elmo() -> Language:
    """A pipeline around an encoder of the sizes of ELMo's original model, random weights."""
    return pipeline_around(random_model("original", SIZES["original"]))


def encoding(nlp: Language, sentences: Sequence[Sequence[str]], n_words: int) -> Group:
    """The first encoder of a pipeline; the layers stay where they were computed."""
    model = first_encoder(nlp).model
    ensure_weights(model)
    docs = docs_of(sentences, n_words)
    lengths = np.array([len(doc) for doc in docs])
    passes = lstm_passes(shim_of(model).module, lengths, BATCH_SIZE, backward=False)
    for name, run in encoder_passes(model, docs, BATCH_SIZE).items():
        passes[f"encoder, {name}"] = run
    return Group(passes, n_words, BATCH_SIZE)
