"""A worker of spaCy's pipelines, SENTENCES SYSTEM: HashEmbedCNN alone, or NER whose weights are
random, on HashEmbedCNN (`ner`) or on the shipped ctxvec (`ner-float32` and other precisions)."""

import sys
from pathlib import Path

import spacy
import turns
from spacy.tokens import Doc

from spacy_ctxvec.analysis.benchmark import hash_embed_cnn

CONFIG = Path(__file__).parents[3] / "configs" / "ner_frozen.cfg"
system = sys.argv[2]


def ner():
    """The default NER of spaCy, and that of the shipped config; as fast as with other weights."""
    if system == "ner":
        nlp = spacy.blank("en")
        nlp.add_pipe("ner")
    else:
        config = spacy.util.load_config(CONFIG)
        component = config["components"]["ctxvec"]
        component["model"]["precision"] = system.removeprefix("ner-")
        component["feature_cache"]["max_mb"] = 0  # every pass has the same texts
        nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    for label in ("LOC", "MISC", "ORG", "PER"):
        nlp.get_pipe("ner").add_label(label)
    nlp.initialize()
    return nlp


def docs_of(sentences):
    return [Doc(nlp.vocab, words=words) for words in sentences]


def pipe(sentences, batch_size):
    for _ in nlp.pipe(docs_of(sentences), batch_size=batch_size):
        pass


if system == "hash":
    nlp = spacy.blank("en")
    model = hash_embed_cnn(docs_of([["some", "words"]]))
    turns.serve(turns.batch_by_batch(lambda sentences: model.predict(docs_of(sentences))))
else:
    nlp = ner()
    turns.serve(pipe)
