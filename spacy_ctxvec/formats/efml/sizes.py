"""The sizes of a model of ELMoForManyLangs: a JSON file that its config.json names.

It names it by a path on the machine of the author, and some of the published folders lack it; all
of them have the same sizes.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ... import errors
from ...nn.bilm import BiLMConfig
from ...nn.char_encoder import ACTIVATIONS
from ..json_fields import Options
from ..native import read_json_object

CONFIG = "config.json"
BLOCKS = {"token_embedder": "cnn", "encoder": "elmo"}
"""The blocks of the file, and the kind of each that can be read."""
PUBLISHED = "cnn_50_100_512_4096_sample.json"
PUBLISHED_SIZES = BiLMConfig(
    width=1024,
    hidden_width=4096,
    cell_clip=3.0,
    output_clip=3.0,
    char_width=50,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
    n_highway=2,
    n_words=3,  # the numbers of words and characters are those of the dictionaries
    n_characters=6,
    word_width=100,
)


def find_sizes(folder: Path) -> Options:
    """Of the file in the folder with the name that is stated, else of the only one with sizes."""
    path = folder / CONFIG
    stated = read_json_object(path).get("config_path")
    name = re.split(r"[/\\]", stated)[-1] if isinstance(stated, str) else None
    files = [file for file in sorted(folder.glob("*.json")) if file.name != CONFIG]
    chosen = [file for file in files if file.name == name] or list(filter(_holds_sizes, files))
    if not chosen and name == PUBLISHED:
        return Options(path, described(PUBLISHED_SIZES))
    if len(chosen) != 1:
        expected = "the path of a JSON file, of whose name one with sizes is in the folder"
        raise errors.malformed_model(path, "config_path", expected, stated)
    return Options(chosen[0], read_json_object(chosen[0]))


def check_kinds(sizes: Options) -> None:
    """CtxvecError where the token layer or the encoder is of a kind that cannot be read."""
    for name, known in BLOCKS.items():
        block = sizes.block(name)
        kind = str(block.values.get("name")).lower()
        if kind != known:
            message = errors.EFML_KIND.format(
                path=block.path, field=f"{block.name}name", found=kind, expected=known
            )
            raise errors.CtxvecError(message)


def read_config(sizes: Options, n_words: int, n_characters: int) -> BiLMConfig:
    embedder, encoder = sizes.block("token_embedder"), sizes.block("encoder")
    word_width, width = embedder.count("word_dim"), encoder.count("projection_dim")
    if not word_width and not n_characters:
        raise embedder.malformed("word_dim", "above 0, or char_dim above 0", word_width)
    if width == encoder.count("dim"):
        expected = f"other than dim = {width}: LSTMs as wide as their projections have none here"
        raise encoder.malformed("projection_dim", expected, width)
    settings: dict[str, Any] = {
        "width": 2 * width,
        "hidden_width": encoder.count("dim"),
        "n_layers": encoder.count("n_layers"),
        "skip": True,
        "cell_clip": encoder.clip("cell_clip"),
        "output_clip": encoder.clip("proj_clip"),
        "max_characters": embedder.count("max_characters_per_token"),
        "n_words": n_words,
        "n_characters": n_characters,
        "word_width": word_width,
    }
    if n_characters:
        settings["char_width"] = embedder.count("char_dim")
        settings["filters"] = embedder.filters()
        settings["activation"] = embedder.choice("activation", tuple(ACTIVATIONS))
        settings["n_highway"] = embedder.count("n_highway")
    try:
        return BiLMConfig(**settings)
    except errors.CtxvecError as error:
        raise sizes.malformed("content", "the sizes of a biLM", error) from error


def described(config: BiLMConfig) -> dict[str, Any]:
    """The content of the file: the opposite of `read_config`."""
    return {
        "encoder": {
            "name": BLOCKS["encoder"],
            "projection_dim": config.token_width,
            "cell_clip": config.cell_clip,
            "proj_clip": config.output_clip,
            "dim": config.hidden_width,
            "n_layers": config.n_layers,
        },
        "token_embedder": {
            "name": BLOCKS["token_embedder"],
            "activation": config.activation,
            "filters": [list(pair) for pair in config.filters],
            "n_highway": config.n_highway,
            "word_dim": config.word_width,
            "char_dim": config.char_width if config.n_characters else 0,
            "max_characters_per_token": config.max_characters,
        },
        "dropout": 0.0,  # its program asks for it, and uses it in training alone
    }


def _holds_sizes(file: Path) -> bool:
    try:
        return BLOCKS.keys() <= read_json_object(file).keys()
    except errors.MalformedModelError:
        return False
