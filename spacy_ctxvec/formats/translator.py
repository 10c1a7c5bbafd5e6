"""A translation model beside its encoder in a model folder.

translator.safetensors   the decoder's weights, those of the encoder are in model.safetensors
translator.json          its sizes, languages and whether it reads lower-cased text
target.txt               the target words, one a line, marks first
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .. import errors
from ..nn.architectures import architecture_of
from ..nn.mtlstm import MTLSTMConfig
from ..nn.nmt import EOS, NMTConfig, Translator
from .native import (
    DTYPES,
    EncoderModel,
    check_sizes,
    load_native,
    load_weights,
    read_json_object,
    read_safetensors,
    replace_file,
    save_native,
    write_safetensors,
)

WEIGHTS_FILE = "translator.safetensors"
SIZES_FILE = "translator.json"
WORDS_FILE = "target.txt"
MARKS = ("<PAD>", "<UNK>", "<BOS>", "<EOS>")
ENCODER = "encoder."
EMBEDDING, GENERATOR = "embedding.weight", "generator.weight"


@dataclass(frozen=True)
class TranslationModel:
    """A translation model outside any training.

    encoder: with the static vectors of the source words
    words (n_target_words,): marks first
    settings: `source_lang`, `target_lang`, `lower`
    """

    encoder: EncoderModel
    translator: Translator
    words: list[str]
    settings: dict[str, Any]


def save_translation_model(
    model: TranslationModel, folder: Path, *, dtype: str = "float32", card: str | None = None
) -> None:
    """Write a model folder whose encoder `load_native` reads."""
    save_native(model.encoder, folder, dtype=dtype, card=card)
    weights = {
        name: tensor.detach().to("cpu", DTYPES[dtype]).contiguous()
        for name, tensor in model.translator.state_dict().items()
        if not name.startswith(ENCODER)
    }
    if model.translator.config.tied:
        weights.pop(EMBEDDING)
    write_safetensors(folder / WEIGHTS_FILE, weights)
    sizes = model.translator.config.to_dict()
    sizes.pop("encoder")
    text = json.dumps({**model.settings, "sizes": sizes}, indent=2, ensure_ascii=False)
    replace_file(folder / SIZES_FILE, text.encode("utf8"))
    replace_file(folder / WORDS_FILE, "".join(f"{w}\n" for w in model.words).encode("utf8"))


def load_translation_model(folder: Path) -> TranslationModel:
    """Read what `save_translation_model` wrote."""
    path = folder / SIZES_FILE
    if not path.exists():
        raise errors.CtxvecError(errors.NO_TRANSLATOR.format(path=folder, name=SIZES_FILE))
    settings = read_json_object(path)
    encoder = load_native(folder)
    if not isinstance(encoder.config, MTLSTMConfig):
        raise errors.malformed_model(
            folder, "encoder", "an MT-LSTM", architecture_of(encoder.config)
        )
    try:
        words = (folder / WORDS_FILE).read_text("utf8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as error:
        expected = "the target words as UTF-8 text, one a line"
        raise errors.malformed_model(folder / WORDS_FILE, "words", expected, error) from error
    try:
        config = NMTConfig(**settings.pop("sizes"), encoder=encoder.config)
    except (KeyError, TypeError, ValueError) as error:
        expected = "the sizes of a translation model"
        raise errors.malformed_model(path, "sizes", expected, error) from error
    if len(words) != config.n_target_words or words[: EOS + 1] != list(MARKS):
        expected = f"{config.n_target_words} lines, the first {len(MARKS)} of them marks"
        raise errors.malformed_model(folder / WORDS_FILE, "words", expected, len(words))
    weights = read_safetensors(folder / WEIGHTS_FILE)
    weights |= {ENCODER + name: tensor for name, tensor in encoder.weights.items()}
    if config.tied and GENERATOR in weights:
        weights[EMBEDDING] = weights[GENERATOR]
    with torch.device("meta"):  # sizes of a damaged file must not allocate memory
        check_sizes(Translator(config), weights)
    translator = Translator(config)
    load_weights(translator, weights)
    return TranslationModel(encoder, translator.eval(), words, settings)
