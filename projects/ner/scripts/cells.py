"""One cell of the grid: a corpus, a fold, a system and a seed, and where its result lies.

A result is one JSON file, written under another name and renamed when complete. So a file that is
there is a finished cell, and an interrupted cell leaves nothing that could be taken for one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import srsly
from thinc.api import Config

from spacy_ctxvec.errors import CtxvecError

PROJECT = Path(__file__).resolve().parent.parent
SYSTEMS = ("hash", "hash_glove", "ctxvec")
CORPORA = ("wikigold", "wnut17")


@dataclass(frozen=True, order=True)
class Cell:
    """A training run. The order of the fields is the order of work: seed 0 of everything first."""

    seed: int
    system: str
    corpus: str
    fold: int

    @property
    def name(self) -> str:
        return f"{self.corpus}-{self.fold}-{self.system}-{self.seed}"


@dataclass(frozen=True)
class Workdir:
    """The working folder: corpora, vectors, results (below `results`) and trainings in progress."""

    root: Path
    results: str = "cells"

    @property
    def vectors(self) -> Path:
        return self.root / "vectors"

    def corpus(self, cell: Cell) -> Path:
        return self.root / "corpus" / cell.corpus / str(cell.fold)

    def training(self, cell: Cell) -> Path:
        return self.root / "training" / self.results / cell.name

    def result(self, cell: Cell) -> Path:
        return self.root / self.results / f"{cell.name}.json"

    def folds(self, corpus: str) -> list[int]:
        """The folds that `convert` has written, in order."""
        folder = self.root / "corpus" / corpus
        if not folder.is_dir():
            raise CtxvecError(
                f"Expected converted data in {folder}, found none. Run `convert` first."
            )
        return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())


def grid_cells(
    workdir: Workdir, corpora: Iterable[str], systems: Iterable[str], seeds: Iterable[int]
) -> list[Cell]:
    """All cells of the grid, in the order of work."""
    folds = {corpus: workdir.folds(corpus) for corpus in corpora}
    return sorted(
        Cell(seed=seed, system=system, corpus=corpus, fold=fold)
        for corpus in folds
        for fold in folds[corpus]
        for system in systems
        for seed in seeds
    )


def cell_config(cell: Cell, workdir: Workdir, settings: Mapping[str, Any]) -> Config:
    """Merge the shared settings with the system's own and with those of this run.

    cell (Cell): The cell.
    workdir (Workdir): Where its data lies.
    settings (Mapping[str, Any]): Dotted names of `[training]`, as `max_steps` or
        `optimizer.learn_rate`; those that are None are left as they are.
    RETURNS (Config): The config, variables not yet filled in.
    """
    base = Config().from_disk(PROJECT / "configs" / "base.cfg", interpolate=False)
    own = Config().from_disk(PROJECT / "configs" / f"ner_{cell.system}.cfg", interpolate=False)
    config = base.merge(own)
    config["system"]["seed"] = cell.seed
    config["paths"]["train"] = str(workdir.corpus(cell) / "train.spacy")
    config["paths"]["dev"] = str(workdir.corpus(cell) / "dev.spacy")
    if cell.system == "hash_glove":
        config["paths"]["vectors"] = str(workdir.vectors)
    for name, value in settings.items():
        if value is not None:
            _set(config["training"], name.split("."), value)
    return config


def fingerprint(config: Config) -> str:
    """What a result depends on beside data: the settings without paths, and the weights of the
    encoder. All folds of a corpus have one.

    A finished cell whose fingerprint is another one belongs to other settings and is done again.
    """
    content = config.copy()
    content.pop("paths")
    digest = hashlib.sha256(content.to_str(interpolate=False).encode("utf-8"))
    if "ctxvec" in config["components"]:
        digest.update(_shipped_weights())
    return digest.hexdigest()[:16]


def data_digest(config: Config) -> str:
    """What a result depends on beside settings: the examples, and static vectors."""
    paths = {name: Path(path) for name, path in config["paths"].items() if path}
    files = [paths["train"], paths["dev"], paths["dev"].with_name("test.spacy")]
    files += [paths["vectors"] / "vocab" / "vectors"] if "vectors" in paths else []
    digest = hashlib.sha256()
    for file in filter(Path.is_file, files):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def is_done(path: Path, **expected: str) -> bool:
    """Whether the file holds a result that says this of what it comes from."""
    return path.is_file() and expected.items() <= read_json(path).items()


def read_json(path: Path) -> Any:
    """Read a JSON file; what is in it is known to those who wrote it."""
    return srsly.read_json(path)


def write_atomically(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file so that it is either whole or not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    srsly.write_json(partial, dict(content))
    os.replace(partial, path)


def _set(section: dict[str, Any], names: list[str], value: object) -> None:
    for name in names[:-1]:
        section = section[name]
    if names[-1] not in section:
        raise CtxvecError(f"configs/base.cfg has no setting {'.'.join(names)} in [training].")
    section[names[-1]] = value


def _shipped_weights() -> bytes:
    """A digest of the English model that `init = "en_sm"` reads."""
    digest = hashlib.sha256()
    folder = files("spacy_ctxvec") / "assets" / "en_sm"
    if folder.is_dir():
        for entry in sorted(folder.iterdir(), key=lambda e: e.name):
            if entry.name.endswith(".safetensors"):
                digest.update(entry.read_bytes())
    return digest.digest()
