"""What heads read: the same tagger, parser, NER and classifier on several representations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import neighbours  # noqa: F401
from thinc.api import Config

# isort: split
from cells import PROJECT as NER_PROJECT
from parsing import parser_config
from systems import HEADS, head_config, static_beside
from trainings import CLASSES, ENTITIES, PARSE, Training, complete

BASELINE = "hash_glove"
SYSTEMS = {
    "hash": "HashEmbedCNN",
    "hash_glove": "HashEmbedCNN + GloVe",
    "top": "biLM, top layer",
    "mean": "biLM, mean of the layers",
    "mix": "biLM, learned mix",
    "mix_glove": "biLM, learned mix + GloVe",
    "all": "biLM, learned mix + GloVe + hash embeddings",
    "transformer": "transformer, learned mix",
}
MODES = {
    "top": "top", "mean": "mean", "mix": "learned", "mix_glove": "learned", "all": "learned",
    "transformer": "learned",
}  # fmt: skip
"""The `mode` of the scalar mix of each system with a frozen encoder."""
TRANSFORMER = "transformer"
TASKS = {
    "wikigold": ENTITIES,
    "wnut17": ENTITIES,
    "bc5cdr": ENTITIES,
    "ewt": PARSE,
    "emobank": CLASSES,
}
STATIC = ("hash_glove", "mix_glove", "all")
"""The systems that read static vectors."""
MIX = "spacy-ctxvec.ScalarMix.v1"
LISTENER = "spacy-ctxvec.Listener.v1"
HASH = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 96,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [2000, 1000, 1000, 1000],
    "include_static_vectors": False,
}
ANY_TRANSFORMER: dict[str, Any] = {
    "@architectures": "spacy-ctxvec.TransformerLayers.v1",
    "width": 0, "n_layers": 0, "settings": {},
}  # fmt: skip
"""Its sizes come with its weights."""
CACHE_MB = 1500


def training(
    corpus: str,
    fold: int,
    system: str,
    seed: int,
    root: Path,
    vectors: Path,
    settings: Sequence[str] = (),
    transformer: Path | None = None,
) -> Training:
    """One training.

    corpus, fold: the data is in ROOT/corpus/CORPUS/FOLD
    root: the working folder
    vectors: a pipeline of static vectors
    transformer: folder of the model that the system of this name reads
    settings: NAME=VALUE of `[training]`
    """
    data = root / "corpus" / corpus / str(fold)
    encoder = Path("en_sm") if system in MODES else None
    if system == TRANSFORMER:
        encoder = transformer
    config = system_config(TASKS[corpus], system, vectors)
    config = complete(config, data, seed, encoder, settings)
    result = root / "cells" / f"{corpus}-{fold}-{system}-{seed}.json"
    return Training(config, data, TASKS[corpus], result)


def system_config(task: str, system: str, vectors: Path) -> Config:
    """The heads of a task on one representation, without its data."""
    reads_encoder = system in MODES
    if task == PARSE:
        config = parser_config("en", reads_encoder)
    else:
        config = head_config(task)
        own = _ner_config("ctxvec" if reads_encoder else "hash")
        if reads_encoder:
            config["components"]["ctxvec"] = own["components"]["ctxvec"]
        tok2vec = own["components"]["ner"]["model"]["tok2vec"]
        config["components"][HEADS[task]]["model"]["tok2vec"] = tok2vec
        config["nlp"]["pipeline"] = [*(["ctxvec"] if reads_encoder else []), HEADS[task]]
    for block in _blocks(config["components"]):
        if block.get("@architectures") == MIX:
            block["mode"] = MODES[system]
        if "pretrained_vectors" in block:
            block["pretrained_vectors"] = system in STATIC
    if reads_encoder and system in STATIC:
        _put_static_beside(config, {"hash": HASH} if system == "all" else {})
    if system in STATIC:
        config["paths"]["vectors"] = str(vectors.resolve())
        config["initialize"]["vectors"] = "${paths.vectors}"
    if reads_encoder:  # the same scores, sooner
        config["components"]["ctxvec"]["feature_cache"] = {"max_mb": CACHE_MB}
    if system == TRANSFORMER:
        config["components"]["ctxvec"]["model"] = dict(ANY_TRANSFORMER)
    return config


def _put_static_beside(config: Config, sources: dict[str, Any]) -> None:
    """Static vectors, and other sources, next to every listener."""
    for block in list(_blocks(config["components"])):
        embed = block.get("embed", {})
        if embed.get("@architectures") == LISTENER:
            block["embed"] = static_beside({"listener": embed, **sources})


def _ner_config(name: str) -> Config:
    return Config().from_disk(NER_PROJECT / "configs" / f"ner_{name}.cfg", interpolate=False)


def _blocks(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every block of a config, and all below it."""
    for value in config.values():
        if isinstance(value, dict):
            yield value
            yield from _blocks(value)
