"""Models of ELMoForManyLangs (Che et al. 2018): a folder with two pickles of tensors.

See `layout` for what is in it. Nothing but tensors is unpickled, and shapes are checked
against the sizes before a number is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ... import errors
from ...nn.alphabet import N_MARKS
from ...nn.bilm import BiLMConfig
from ...nn.vocabulary import VOCABULARY, as_bytes
from ...nn.word_encoder import lines_of
from ...text.corpus import SPECIALS
from ..native import FROM_ELSEWHERE, EncoderModel, no_statistics, read_json_object
from ..pickles import StateDict
from . import layout
from .dictionaries import read_dictionary
from .sizes import CONFIG, check_kinds, find_sizes, read_config

FILES = (CONFIG, layout.WORDS, layout.CHARACTERS, layout.TOKENS, layout.ENCODER)
UNKNOWN = "<oov>"
INFO = {"family": "elmoformanylangs", **FROM_ELSEWHERE}


def is_efml(folder: Path) -> bool:
    """Whether a folder holds a model of ELMoForManyLangs, perhaps one that lacks a file."""
    if (folder / layout.TOKENS).is_file() and (folder / layout.ENCODER).is_file():
        return True
    try:
        return "config_path" in read_json_object(folder / CONFIG)
    except errors.MalformedModelError:
        return False


def read_efml(folder: Path) -> EncoderModel:
    """The encoder of a model folder, as float32 weights of `nn.bilm.BiLM`."""
    sizes = find_sizes(folder)
    check_kinds(sizes)
    embedder = sizes.block("token_embedder")
    words = _words(folder / layout.WORDS) if embedder.count("word_dim") else {}
    characters = _characters(folder / layout.CHARACTERS) if embedder.count("char_dim") else {}
    config = read_config(sizes, len(words), len(characters))
    tokens = StateDict.open(folder / layout.TOKENS)
    weights = dict(_token_layer(tokens, config, words, characters))
    lstms = StateDict.open(folder / layout.ENCODER)
    weights |= {ours: lstms.read(name, *shape) for name, ours, shape in layout.lstms(config)}
    for file in (tokens, lstms):
        file.check_rest()
    weights |= no_statistics(config)
    return EncoderModel(config, weights, {"name": folder.resolve().name, **INFO})


def _words(path: Path) -> dict[str, int]:
    """Rows by word, ours in order. Sentence marks that are missing are unknown words."""
    rows = read_dictionary(path)
    if UNKNOWN in rows:
        rows = {**dict.fromkeys(layout.WORD_MARKS, rows[UNKNOWN]), **rows}
    return _ordered(rows, layout.WORD_MARKS, path)


def _characters(path: Path) -> dict[str, int]:
    """Rows by character, ours in order; longer tokens are looked up by nothing."""
    rows = _ordered(read_dictionary(path), layout.CHARACTER_MARKS, path)
    marks = layout.CHARACTER_MARKS
    return {token: row for token, row in rows.items() if len(token) == 1 or token in marks}


def _ordered(rows: Mapping[str, int], marks: Sequence[str], path: Path) -> dict[str, int]:
    """`marks` first, then the others in the order of their rows."""
    missing = [mark for mark in marks if mark not in rows]
    if missing:
        raise errors.malformed_model(path, f"line of {missing[0]}", "present", "no such line")
    others = sorted(rows.keys() - set(marks), key=lambda token: (rows[token], token))
    return {token: rows[token] for token in (*marks, *others)}


def _token_layer(
    file: StateDict, config: BiLMConfig, words: Mapping[str, int], characters: Mapping[str, int]
) -> Iterator[tuple[str, Tensor]]:
    if words:
        table = _table(file, layout.WORD_TABLE, config.word_width, words)
        yield f"{layout.OWN}words.embedding.weight", table
        text = lines_of([*SPECIALS, *list(words)[len(SPECIALS) :]])
        yield f"{layout.OWN}words.{VOCABULARY}", as_bytes(text)
    if characters:
        table = _table(file, layout.CHARACTER_TABLE, config.char_width, characters)
        yield f"{layout.OWN}char_encoder.embedding.weight", table
        text = "".join(list(characters)[N_MARKS:])
        yield f"{layout.OWN}alphabet.{VOCABULARY}", as_bytes(text)
        for theirs, ours, shape in layout.highways(config):
            joined = file.read(theirs, 2 * shape[0], *shape[1:])
            for name, part in layout.opened_highway(joined, ours):
                yield f"{layout.OWN}{name}", part
    for theirs, ours, shape in layout.convolutions_and_projection(config):
        yield f"{layout.OWN}{ours}", file.read(theirs, *shape)


def _table(file: StateDict, name: str, width: int, rows: Mapping[str, int]) -> Tensor:
    """The rows (len(rows), width) of an embedding table, in the order given."""
    n_rows = file.shape(name)[0] if file.shape(name) else 0
    table = file.read(name, n_rows, width)
    if max(rows.values()) >= n_rows:
        expected = f"a table of more than {max(rows.values())} rows, as its dictionary has it"
        raise file.malformed(name, expected, n_rows)
    return table[torch.tensor(list(rows.values()))]
