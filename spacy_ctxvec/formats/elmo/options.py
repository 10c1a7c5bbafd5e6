"""The options of a biLM, as bilm-tf and AllenNLP write them: sizes and settings, as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import errors
from ...nn.bilm import BiLMConfig
from ...nn.char_encoder import ACTIVATIONS
from ...text.characters import N_CHARACTERS
from ..json_fields import Options
from ..native import read_json_object
from .weights import FORGET_BIAS

DEFAULT_MAX_CHARACTERS = 50  # AllenNLP does not read the option and takes this for granted
CHARACTERS = "char_cnn"


def reads_words(path: Path) -> bool:
    """Whether a biLM reads words of a fixed vocabulary, for want of options for characters."""
    return CHARACTERS not in read_json_object(path)


def read_options(path: Path, n_words: int = 0) -> BiLMConfig:
    """Sizes of a biLM from its options JSON; the keys that only training needs are ignored.

    n_words: size of the vocabulary of a biLM that reads words, without which it cannot be read
    """
    options = Options(path, read_json_object(path))
    if CHARACTERS not in options.values and not n_words:
        raise errors.CtxvecError(errors.WORD_INPUT_BILM.format(path=path))
    settings = _lstm_settings(options.block("lstm"))
    if CHARACTERS in options.values:
        settings |= _character_settings(options.block(CHARACTERS))
    else:
        settings["n_words"] = n_words
    try:
        return BiLMConfig(**settings)
    except errors.CtxvecError as error:
        raise options.malformed("content", "the sizes of a biLM", error) from error


def _lstm_settings(lstm: Options) -> dict[str, Any]:
    hidden_width = lstm.count("dim")
    width = lstm.count("projection_dim", hidden_width)
    if width > hidden_width:
        expected = f"at most dim = {hidden_width}, so that all layers have one width"
        raise lstm.malformed("projection_dim", expected, width)
    return {
        "width": 2 * width,
        "hidden_width": hidden_width,
        "n_layers": lstm.count("n_layers", 1),
        "skip": lstm.flag("use_skip_connections"),
        "cell_clip": lstm.clip("cell_clip"),
        # TensorFlow clips what it projects, and nothing else.
        "output_clip": lstm.clip("proj_clip") if width < hidden_width else 0.0,
        "forget_bias": FORGET_BIAS,
    }


def _character_settings(cnn: Options) -> dict[str, Any]:
    n_rows = cnn.count("n_characters", N_CHARACTERS)
    if n_rows not in (N_CHARACTERS - 1, N_CHARACTERS):
        raise cnn.malformed("n_characters", f"{N_CHARACTERS - 1} or {N_CHARACTERS}", n_rows)
    return {
        "char_width": cnn.block("embedding").count("dim"),
        "filters": cnn.filters(),
        "activation": cnn.choice("activation", tuple(ACTIVATIONS)),
        "n_highway": cnn.count("n_highway", 0),
        "max_characters": cnn.count("max_characters_per_token", DEFAULT_MAX_CHARACTERS),
    }
