"""`spacy-ctxvec.BiLM.v1`: the encoder that reads spellings."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from .. import errors
from ..nn.bilm import BiLM, BiLMConfig
from .encoder import INITS, Encoder, EncoderSettings, new_model
from .spelled_words import SpelledWords


def BiLM_v1(
    width: int,
    hidden_width: int,
    n_layers: int,
    skip: bool,
    cell_clip: float,
    output_clip: float,
    char_width: int,
    filters: list[list[int]],
    activation: Literal["relu", "tanh"],
    n_highway: int,
    max_characters: int = 50,
    directions: Literal["both", "forward", "backward"] = "both",
    n_words: int = 0,
    n_characters: int = 0,
    word_width: int = 0,
    forget_bias: float = 0.0,
    aligned: bool = False,
    init: str = "en_sm",
    state: Literal["reset", "warm", "carry"] = "reset",
    window: int = 128,
    max_batch_items: int = 4096,
    cache_size: int = 50_000,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> Encoder:
    """A bidirectional language model over characters (ELMo; Peters et al. 2018).

    width (int): Width of every layer, all directions together.
    hidden_width (int): Cells of each LSTM; other than the width of one direction, the LSTMs are
        projected.
    n_layers (int): LSTM layers of each direction. The output has one layer more: the token layer.
    skip (bool): Add the input of every LSTM but the first to its output.
    cell_clip, output_clip (float): Bounds of the LSTM's cell and output; 0 for none.
    char_width (int): Width of the character embeddings.
    filters (List[List[int]]): Characters and features of each convolution.
    activation (str): Of the convolutions, "relu" or "tanh".
    n_highway (int): Highway layers after the convolutions.
    max_characters (int): UTF-8 bytes of a word that are read, or Unicode characters where there is
        a vocabulary of these; its two marks included.
    directions (str): "both", or only "forward" or "backward", for a one-directional model.
    n_words (int): Rows of a vocabulary of words that is read instead of bytes; 0 for none.
    n_characters (int): Rows of a vocabulary of Unicode characters that is read instead of bytes,
        beside the words if there are any; 0 for none.
    word_width (int): Width of the words' vectors where a projection follows them, as in models of
        ELMoForManyLangs; 0 where they are the token layer themselves.
    forget_bias (float): Added to the biases of the forget gates, as TensorFlow does.
    aligned (bool): A matrix that comes with the weights maps every layer.
    init (str): Weights where no others were loaded: "en_sm" (shipped with the package) or "random".
    state (str): "reset" reads every window from the zero state, so that the same text always has
        the same vectors. So does "warm", from a state that comes with the weights; `spacy ctxvec
        convert --warm-up` makes it. "carry" goes on from the batch before, as the original
        programs do.
    window (int): Longest stretch of words read in one go; a longer doc is cut after sentences.
    max_batch_items (int): Words, padding included, that the encoder reads at a time.
    cache_size (int): Words whose token layer is remembered; of encoders of one process that share
        their token layer, the largest of theirs.
    precision (str): Of the LSTMs' products wherever the encoder does not learn. "int8" and, on
        processors that multiply it, "bfloat16" are faster than float32, and not exact; those of
        "int8" depend on the rest of the batch, by which numbers are scaled.
    RETURNS (Model[List[Doc], List[Floats3d]]): (n_tokens, n_layers + 1, width) for each doc.
    """
    arguments = {**locals(), "warm": state == "warm"}
    config = BiLMConfig(**{field.name: arguments[field.name] for field in fields(BiLMConfig)})
    if init not in INITS:
        raise errors.CtxvecError(errors.UNKNOWN_INIT.format(found=init))
    module = BiLM(config)
    module.carry_state(state)
    module.set_precision(precision)
    settings = EncoderSettings(init, state, window, max_batch_items)
    return new_model("ctxvec_bilm", module, SpelledWords(cache_size), settings)
