"""Checkpoints of bilm-tf, and the modules of TF-Hub that were made of them.

A checkpoint of a training holds more than the HDF5 file that is dumped from it: the softmax, and
the state of the optimiser; that of one direction lacks the other's variables. A module (SavedModel)
holds the encoder alone, under other names, and no options; nor does it tell what shapes do not.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import errors
from ...nn.bilm import BiLMConfig
from ...nn.softmax import WordSoftmax
from ..elmo.options import read_options, reads_words
from ..elmo.shapes import PUBLISHED, config_from_shapes, reads_backward
from ..elmo.vocabulary import NO_VOCABULARY, Vocabulary, read_vocabulary
from ..elmo.weights import read_model, read_parameters
from ..native import EncoderModel
from .bundle import INDEX
from .variables import Variables

FILE = re.compile(r"(?P<prefix>.+)(?:\.index|\.data-[0-9]+-of-[0-9]+)")
STEP = re.compile(r"-([0-9]+)$")
FAMILY = "tf-checkpoint"
MODULE = "variables"  # the folder of a SavedModel with its checkpoint, and the checkpoint's name
ADAGRAD = "Adagrad"
STEPS = "global_step"


def read_tf_checkpoint(
    index: Path, options: Path | None = None, vocabulary: Path | None = None
) -> EncoderModel:
    """The encoder of a checkpoint, as float32 weights of `nn.bilm.BiLM`.

    options: JSON with the sizes; without it, they are told from the shapes, and what shapes do not
        tell is that of the published models, which `info` has under `assumed`
    vocabulary: file with the words of a biLM that reads words; others need none
    """
    variables = Variables.open(index)
    config, words = _config(variables, options, vocabulary)
    is_module = index.parent.name == MODULE
    folder = index.absolute().parent.parent
    name = folder.name if is_module else index.name.removesuffix(INDEX)
    info: dict[str, Any] = {"name": name, "family": "tf-hub" if is_module else FAMILY}
    if STEPS in variables.bundle.names():
        info[STEPS] = int(variables.bundle.scalar(STEPS))
    if options is None:
        info["assumed"] = {key: getattr(config, key) for key in PUBLISHED}
    return read_model(variables, config, words, info)


def read_tf_softmax(index: Path, vocabulary: Path) -> tuple[WordSoftmax, list[str]]:
    """The softmax of a checkpoint and its words, as `native.load_softmax` returns them.

    bilm-tf multiplies the top layer with the softmax as it is. So the projections that come before
    ours change nothing: they are identities.
    """
    variables = Variables.open(index)
    names = variables.names()
    # A model that reads words may predict them with the rows that it reads.
    rows = "embedding" if "softmax/W" not in names and "embedding" in names else "softmax/W"
    if rows not in names or "softmax/b" not in names:
        raise errors.CtxvecError(errors.NO_SOFTMAX.format(folder=index, name="softmax/W"))
    words = read_vocabulary(vocabulary)
    n_words, shape = len(words.words), variables.shape(rows)
    if len(shape) != 2 or shape[0] != n_words:
        expected = f"that of {index} tells, whose {rows} has shape {shape}"
        raise errors.malformed_model(vocabulary, "number of words", expected, n_words)
    width = shape[1]
    weights = {"weight": variables.read(rows, *shape), "bias": variables.read("softmax/b", n_words)}
    state = {name: torch.from_numpy(words.in_order(array)) for name, array in weights.items()}
    for direction in range(2):
        state[f"projections.{direction}.weight"] = torch.eye(width)
        state[f"projections.{direction}.bias"] = torch.zeros(width)
    with torch.device("meta"):  # numbers that would be replaced at once
        softmax = WordSoftmax(input_width=width, width=width, n_words=n_words)
    softmax.load_state_dict(state, assign=True)
    return softmax, words.words


def read_tf_slots(
    index: Path, options: Path | None = None, vocabulary: Path | None = None
) -> dict[str, Tensor]:
    """Adagrad's accumulators of the encoder, by the names of the weights they belong to.

    They are arranged as those weights are; a row that files leave out has 0.
    """
    variables = Variables.open(index)
    config, words = _config(variables, options, vocabulary)
    return read_parameters(variables.slots(ADAGRAD), config, words)


def find_checkpoint(path: Path) -> Path | None:
    """The index of the checkpoint that a path means, if there is one.

    path: a folder with checkpoints, of which that of the latest step is taken; the folder of a
        SavedModel; a file of a checkpoint, or what the names of its files begin with

    The text file `checkpoint` is no help: it has absolute paths of the machine it was written on.
    """
    if not path.is_dir():
        match = FILE.fullmatch(path.name)
        index = path.with_name((match["prefix"] if match else path.name) + INDEX)
        return index if index.is_file() else None
    found = [index for index in path.glob(f"*{INDEX}") if _has_data(index)]
    if not found:
        index = path / MODULE / f"{MODULE}{INDEX}"
        return index if index.is_file() else None
    return max(found, key=lambda index: (_step(index), index.name))


def _config(
    variables: Variables, options: Path | None, vocabulary: Path | None
) -> tuple[BiLMConfig, Vocabulary]:
    """The sizes, and the words of a biLM that reads words."""
    names = variables.names()
    if options is None:
        of_words = "embedding" in names and "char_embed" not in names
    else:
        of_words = reads_words(options)
    if of_words and vocabulary is None:
        path = options or variables.bundle.index
        raise errors.CtxvecError(errors.WORD_INPUT_BILM.format(path=path))
    words = read_vocabulary(vocabulary) if vocabulary and of_words else NO_VOCABULARY
    n_words = len(words.words)
    if options is None:
        return config_from_shapes(variables, n_words), words
    config = read_options(options, n_words)
    if not reads_backward(variables):  # options for use alone are silent on it
        config = replace(config, directions="forward", width=config.token_width)
    return config, words


def _has_data(index: Path) -> bool:
    """Whether files with numbers lie beside it, so that it is no index of something else."""
    data = index.name.removesuffix(INDEX) + ".data-"
    return any(file.name.startswith(data) for file in index.parent.iterdir())


def _step(index: Path) -> int:
    match = STEP.search(index.name.removesuffix(INDEX))
    return int(match[1]) if match else -1
