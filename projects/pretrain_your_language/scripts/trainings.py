"""Trainings with `spacy train` that can be stopped and started again, each in its own process.

A training is known by a fingerprint of all that its result depends on. Its result is a JSON file,
whole or not there; one with this fingerprint is not trained again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import neighbours  # noqa: F401
import typer
from thinc.api import Config

# isort: split
from cells import is_done, read_json
from write_config import set_value

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import CONFIG_FILE, VECTORS_FILE, WEIGHTS_FILE
from spacy_ctxvec.formats.transformer import is_transformer, read_transformer
from spacy_ctxvec.nn.architectures import CONFIGS
from spacy_ctxvec.pipe.encoder_config import encoder_block
from spacy_ctxvec.training.pretrain import model_folder

ENTITIES, PARSE, CLASSES = "entities", "parse", "classes"
# What a result depends on in a model folder, in that of a transformer, and in a pipeline of static
# vectors.
INPUTS = (
    WEIGHTS_FILE, VECTORS_FILE, "pytorch_model.bin", "tokenizer.json", "vocab/vectors",
    "vocab/key2row",
)  # fmt: skip


@dataclass(frozen=True)
class Training:
    """A pipeline to train and to test.

    corpus: folder with train.spacy, dev.spacy and test.spacy
    task: how it is tested, `ENTITIES`, `PARSE` or `CLASSES`
    result: the JSON file to write; config, log and model in the making lie beside it
    """

    config: Config
    corpus: Path
    task: str
    result: Path

    @property
    def name(self) -> str:
        return self.result.stem

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the settings without paths, of encoders' weights, of static vectors, and of
        the examples."""
        content = self.config.copy()
        paths = content.pop("paths")
        digest = hashlib.sha256(content.to_str(interpolate=False).encode("utf-8"))
        files = [Path(path) / name for path in filter(None, paths.values()) for name in INPUTS]
        files += [Path(paths["train"]), Path(paths["dev"]), self.corpus / "test.spacy"]
        for file in filter(Path.is_file, files):
            digest.update(file.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def is_done(self) -> bool:
        return is_done(self.result, fingerprint=self.fingerprint)


Trainer = Callable[[Training], None]


def complete(
    config: Config, corpus: Path, seed: int, encoder: Path | None, settings: Sequence[str] = ()
) -> Config:
    """A config with data, seed, encoder, and settings of `[training]`, each NAME=VALUE."""
    config = config.copy()
    config["system"]["seed"] = seed
    config["paths"].update({part: str(corpus / f"{part}.spacy") for part in ("train", "dev")})
    for setting in settings:
        set_value(config["training"], setting)
    if encoder is not None:
        set_encoder(config, encoder)
    return config


def set_encoder(
    config: Config, encoder: Path, component: str = "ctxvec", path: str = "encoder"
) -> None:
    """Let a component of a config have the weights of a model folder, and its sizes.

    encoder: a folder of this package, or of a transformer
    path: the name in `[paths]` that the folder gets
    """
    folder = model_folder(encoder).resolve()
    if not (folder / CONFIG_FILE).is_file():
        raise CtxvecError(f"Expected a model folder of spacy-ctxvec at {folder}, found none.")
    block = known_block(folder)
    model = config["components"][component]["model"]
    expected, found = model["@architectures"], block["@architectures"]
    if found != expected:
        raise CtxvecError(f"[components.{component}] is a {expected}, in {folder} is a {found}.")
    model.update(block)
    config["paths"][path] = str(folder)
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": f"${{paths.{path}}}"}
    config["initialize"].setdefault("components", {})[component] = {"loader": loader}


def known_block(folder: Path) -> dict[str, Any]:
    """The block of the encoder in a model folder."""
    if is_transformer(folder):
        return encoder_block(read_transformer(folder).config)
    known = read_json(folder / CONFIG_FILE)
    sizes = CONFIGS[known["architecture"]](**known["sizes"])
    return encoder_block(sizes, lower=known.get("lower", True))


def chosen(only: Sequence[str], known: Sequence[str]) -> list[str]:
    """The tasks or systems that an option names, in their order; all where it names none."""
    unknown = [name for name in only if name not in known]
    if unknown:
        raise CtxvecError(f"{unknown[0]}: expected one of {', '.join(known)}.")
    return [name for name in known if name in only or not only]


def train_all(trainings: Sequence[Training], trainer: Trainer, jobs: int = 1) -> list[Training]:
    """Do the trainings that are not done, show progress, go on after a failure.

    RETURNS (list[Training]): Those that failed.
    """
    todo = [training for training in trainings if not training.is_done]
    typer.echo(f"{len(trainings)} trainings, {len(trainings) - len(todo)} done before")
    failed: list[Training] = []
    begin = time.perf_counter()
    pool = ThreadPoolExecutor(jobs)
    try:
        futures = {pool.submit(trainer, training): training for training in todo}
        for n, future in enumerate(as_completed(futures), start=1):
            training, error = futures[future], future.exception()
            if error is not None:
                failed.append(training)
            left = (time.perf_counter() - begin) / n * (len(todo) - n) / 60
            state = "done" if error is None else f"FAILED: {error}"
            typer.echo(f"[{n}/{len(todo)}] {training.name}: {state} (about {left:.0f} min left)")
    finally:
        pool.shutdown(cancel_futures=True)  # an interrupt must not wait for the whole grid
    return failed


def train_in_process(training: Training, gpu_id: int = -1, test: bool = True) -> None:
    """Run `train_one.py` on one thread; its output goes to a log file beside the result."""
    result = training.result
    result.parent.mkdir(parents=True, exist_ok=True)
    config = result.with_suffix(".cfg")
    training.config.to_disk(config, interpolate=False)
    command = [sys.executable, str(Path(__file__).with_name("train_one.py"))]
    command += [str(config), str(result), str(training.corpus), training.task]
    command += [training.fingerprint, "--gpu-id", str(gpu_id), "--test" if test else "--no-test"]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    with result.with_suffix(".log").open("wb") as log:
        done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=environment)
    if done.returncode != 0:
        raise CtxvecError(f"ended with code {done.returncode}, see {log.name}")
