"""The systems that are compared: the same heads over static vectors, with or without encoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import neighbours
from thinc.api import Config

# isort: split
from trainings import CLASSES, ENTITIES, Training, complete, set_encoder

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
SHARED = neighbours.PROJECTS / "ner" / "configs" / "base.cfg"
BASELINE = "static"
SYSTEMS = {
    BASELINE: (),
    "static_cove": ("cove",),
    "static_bilm": ("bilm",),
    "static_both": ("cove", "bilm"),
}
TASKS = {"wikigold": ENTITIES, "sst5": CLASSES}
HEADS = {ENTITIES: "ner", CLASSES: "textcat"}
# The argument of `Concat.v1` that an encoder's listener is: any two will do, both take any tok2vec.
PLACES = {"cove": "listener", "bilm": "hash"}


def available_systems(encoders: Mapping[str, Path]) -> dict[str, dict[str, Path]]:
    """The encoders of each system, for those systems all of whose encoders are there."""
    return {
        system: {name: encoders[name] for name in names}
        for system, names in SYSTEMS.items()
        if encoders.keys() >= set(names)
    }


def system_training(
    corpus: str,
    fold: int,
    system: str,
    encoders: Mapping[str, Path],
    seed: int,
    root: Path,
    vectors: Path,
    settings: Sequence[str] = (),
) -> Training:
    """One training.

    corpus, fold: the data is in ROOT/corpus/CORPUS/FOLD
    encoders: model folders of the encoders of this system
    root: the working folder
    vectors: a pipeline of static vectors
    settings: NAME=VALUE of `[training]`
    """
    task, data = TASKS[corpus], root / "corpus" / corpus / str(fold)
    config = complete(system_config(task, encoders, vectors), data, seed, None, settings)
    result = root / "cells" / f"{corpus}-{fold}-{system}-{seed}.json"
    return Training(config, data, task, result)


def system_config(task: str, encoders: Mapping[str, Path], vectors: Path) -> Config:
    """A head over static vectors and frozen encoders, without its data."""
    config, pieces = head_config(task), _read(CONFIGS / "systems.cfg")
    tok2vec: dict[str, Any] = pieces["tok2vec"]
    listeners: dict[str, Any] = {}
    for name, folder in encoders.items():
        width = f"${{components.{name}.model.width}}"
        listeners[PLACES[name]] = {**pieces["listener"], "width": width, "upstream": name}
        config["components"][name] = pieces["components"][name]
        set_encoder(config, folder, name, path=name)
    config["components"][HEADS[task]]["model"]["tok2vec"] = {
        **tok2vec,
        "embed": static_beside(listeners),
    }
    config["nlp"]["pipeline"] = [*encoders, HEADS[task]]
    config["paths"]["vectors"] = str(vectors.resolve())
    return config


def static_beside(sources: Mapping[str, Any]) -> dict[str, Any]:
    """What embeds words: static vectors and these other sources of `Concat.v1`, reduced to the
    width of the window layers."""
    embed: dict[str, Any] = _read(CONFIGS / "systems.cfg")["tok2vec"]["embed"]
    embed["*"]["sources"].update(sources)
    return embed


def head_config(task: str) -> Config:
    """The head, and what both tasks share: batches, optimizer, budget."""
    config = _read(SHARED)
    if task == CLASSES:
        config["components"].clear()
        config["training"]["score_weights"].clear()
        config = config.merge(_read(CONFIGS / "textcat.cfg"))
    return config


def _read(path: Path) -> Config:
    return Config().from_disk(path, interpolate=False)
