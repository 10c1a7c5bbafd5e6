"""A worker that reads by ctxvec: SENTENCES MODEL PRECISION [cold]; MODEL may be en_sm.

cold: the spellings of all words are read anew in each batch
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


def layers(sentences):
    return model.predict([Doc(nlp.vocab, words=words) for words in sentences])


def read(sentences):
    if "cold" in how:
        shim_of(model).inputs.forget()
    layers(sentences)


def vectors(sentences):
    return np.concatenate([rows.mean(axis=1) for rows in layers(sentences)])


turns.serve(read, vectors)
