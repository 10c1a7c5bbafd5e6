"""A worker that reads by ctxvec: SENTENCES MODEL PRECISION [cold] [alone]; MODEL may be en_sm.

cold: the spellings of all words are read anew in each batch
alone: no pipeline, the encoder itself, batch by batch
"""

import sys

import numpy as np
import turns
from spacy.tokens import Doc

from spacy_ctxvec.cli.opening import first_encoder, open_pipeline
from spacy_ctxvec.layers.encoder import ensure_weights, shim_of

_, _, name, precision, *how = sys.argv
nlp = open_pipeline(None if name == "en_sm" else name)
model = first_encoder(nlp).model
ensure_weights(model)
shim_of(model).module.set_precision(precision)


def docs_of(sentences):
    for words in sentences:
        if "cold" in how:
            shim_of(model).inputs.forget()
        yield Doc(nlp.vocab, words=words)


def pipe(sentences, batch_size):
    for _ in nlp.pipe(docs_of(sentences), batch_size=batch_size):
        pass


def layers(sentences):
    return model.predict(list(docs_of(sentences)))


def vectors(sentences):
    return np.concatenate([rows.mean(axis=1) for rows in layers(sentences)])


turns.serve(turns.batch_by_batch(layers) if "alone" in how else pipe, vectors)
