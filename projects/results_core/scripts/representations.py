"""What heads read: the same tagger, parser, NER and classifier on several representations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import neighbours  # noqa: F401
from thinc.api import Config

# isort: split
from cells import PROJECT as NER_PROJECT
from parsing import parser_config
from systems import HEADS, head_config, static_beside
from trainings import CLASSES, ENTITIES, PARSE, Training, complete

from spacy_ctxvec.errors import CtxvecError


@dataclass(frozen=True)
class System:
    """One representation.

    encoder: name of the encoder, "" for none; all but `SHIPPED` come from folders
    mode: of the scalar mix of its layers
    static: name of the static vectors, "" for none; all but `GLOVE` come from folders
    hashes: whether hash embeddings are read too
    tuned: whether the encoder learns with the heads, layer by layer from the top
    """

    title: str
    encoder: str = ""
    mode: str = "learned"
    static: str = ""
    hashes: bool = False
    tuned: bool = False

    @property
    def folders(self) -> set[str]:
        """Names of what does not come with the project."""
        return {self.encoder, self.static} - {"", SHIPPED, GLOVE}


BASELINE = "hash_glove"
SHIPPED, GLOVE = "en_sm", "glove"
SYSTEMS = {
    "hash": System("HashEmbedCNN", hashes=True),
    "hash_glove": System("HashEmbedCNN + GloVe", static=GLOVE, hashes=True),
    "hash_floret": System("HashEmbedCNN + floret", static="floret", hashes=True),
    "top": System("biLM, top layer", SHIPPED, "top"),
    "mean": System("biLM, mean of the layers", SHIPPED, "mean"),
    "mix": System("biLM, learned mix", SHIPPED),
    "tuned": System("biLM, learned mix, tuned", SHIPPED, tuned=True),
    "forward": System("biLM, forward half, learned mix", "forward"),
    "backward": System("biLM, backward half, learned mix", "backward"),
    "mix_glove": System("biLM, learned mix + GloVe", SHIPPED, static=GLOVE),
    "all": System(
        "biLM, learned mix + GloVe + hash embeddings", SHIPPED, static=GLOVE, hashes=True
    ),
    "cove_glove": System("CoVe, learned mix + GloVe", "cove", static=GLOVE),
    "transformer": System("transformer, learned mix", "transformer"),
    "transformer_tuned": System("transformer, learned mix, tuned", "transformer", tuned=True),
}
FOLDERS = tuple(sorted(set().union(*(system.folders for system in SYSTEMS.values()))))
"""The names of `Folders`."""
Folders = Mapping[str, Path]
"""Encoders, as model folders, and pipelines of static vectors, by name."""
TASKS = {
    "wikigold": ENTITIES,
    "wnut17": ENTITIES,
    "bc5cdr": ENTITIES,
    "ewt": PARSE,
    "emobank": CLASSES,
}
MIX = "spacy-ctxvec.ScalarMix.v1"
LISTENER = "spacy-ctxvec.Listener.v1"
HASH = {
    "@architectures": "spacy.MultiHashEmbed.v2",
    "width": 96,
    "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
    "rows": [2000, 1000, 1000, 1000],
    "include_static_vectors": False,
}
# Their sizes come with their weights.
OTHER_ENCODERS: dict[str, dict[str, Any]] = {
    "transformer": {
        "@architectures": "spacy-ctxvec.TransformerLayers.v1",
        "width": 0, "n_layers": 0, "settings": {},
    },
    "cove": {
        "@architectures": "spacy-ctxvec.CoVe.v1",
        "width": 0, "input_width": 0, "n_layers": 0,
    },
}  # fmt: skip
CACHE_MB = {"transformer": 4000, "": 1500}
"""By encoder, "" for the others: as much as the layers of train and dev take. Scores are the same
without, and later."""
# The heads learn alone at first, and the encoder at a tenth of their rate.
TUNED = {"frozen": True, "learn_rate_factor": 0.1}
UNFREEZING = {
    "@callbacks": "spacy-ctxvec.gradual_unfreezing.v1",
    "components": {"ctxvec": 300},
    "layer_steps": 200,
}


def available(folders: Folders) -> dict[str, System]:
    """The systems that all is there for."""
    unknown = [name for name in folders if name not in FOLDERS]
    if unknown:
        raise CtxvecError(f"{unknown[0]}: expected one of {', '.join(FOLDERS)}.")
    return {name: system for name, system in SYSTEMS.items() if system.folders <= folders.keys()}


def training(
    corpus: str,
    fold: int,
    system: str,
    seed: int,
    root: Path,
    vectors: Path,
    settings: Sequence[str] = (),
    folders: Folders | None = None,
) -> Training:
    """One training.

    corpus, fold: the data is in ROOT/corpus/CORPUS/FOLD
    root: the working folder
    vectors: a pipeline of GloVe vectors
    settings: NAME=VALUE of `[training]`
    folders: what else the system reads
    """
    data = root / "corpus" / corpus / str(fold)
    known, sources = SYSTEMS[system], {SHIPPED: Path(SHIPPED), GLOVE: vectors, **(folders or {})}
    config = system_config(TASKS[corpus], known)
    if known.static:
        config["paths"]["vectors"] = str(sources[known.static].resolve())
        config["initialize"]["vectors"] = "${paths.vectors}"
    encoder = sources[known.encoder] if known.encoder else None
    config = complete(config, data, seed, encoder, settings)
    result = root / "cells" / f"{corpus}-{fold}-{system}-{seed}.json"
    return Training(config, data, TASKS[corpus], result)


def system_config(task: str, system: System) -> Config:
    """The heads of a task on one representation, without data, vectors and weights."""
    reads_encoder = bool(system.encoder)
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
            block["mode"] = system.mode
        if "pretrained_vectors" in block:
            block["pretrained_vectors"] = bool(system.static)
    if reads_encoder:
        if system.static:
            _put_static_beside(config, {"hash": HASH} if system.hashes else {})
        component = config["components"]["ctxvec"]
        component["feature_cache"] = {"max_mb": CACHE_MB.get(system.encoder, CACHE_MB[""])}
        if system.encoder in OTHER_ENCODERS:
            component["model"] = dict(OTHER_ENCODERS[system.encoder])
        if system.tuned:
            _tune(config)
    return config


def _tune(config: Config) -> None:
    config["components"]["ctxvec"].update(TUNED)
    config["training"]["before_update"] = UNFREEZING
    for block in _blocks(config["components"]):
        if block.get("@architectures") == LISTENER:
            block["grad_factor"] = 1.0


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
