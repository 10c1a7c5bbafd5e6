"""`spacy-ctxvec.CoVe.v1`: the encoder that reads static vectors."""

from __future__ import annotations

from typing import Literal

from ..checks import bad_setting
from ..nn.mtlstm import MTLSTM, MTLSTMConfig
from .encoder import RANDOM, Encoder, EncoderSettings, new_model
from .static_words import StaticWords


def CoVe_v1(
    width: int = 600,
    input_width: int = 300,
    n_layers: int = 2,
    vectors: Literal["vocab", "model"] = "vocab",
    lower: bool = True,
    window: int = 128,
    max_batch_items: int = 4096,
    precision: Literal["float32", "bfloat16", "int8"] = "float32",
) -> Encoder:
    """The MT-LSTM of CoVe (McCann et al. 2017), over static vectors.

    Its weights come with the pipeline or from a loader; without either they are random. For the
    `[static ; CoVe]` of the paper, put its listener and `spacy.StaticVectors.v2` into
    `spacy-ctxvec.Concat.v1`.

    width (int): Width of every layer, both directions together.
    input_width (int): Width of the static vectors.
    n_layers (int): LSTM layers, each a layer of the output.
    vectors (str): "vocab" reads `nlp.vocab.vectors`; "model" keeps vectors with the weights, so
        that a saved pipeline needs no others: those that came with the model, else a copy of
        `nlp.vocab.vectors` made when the pipeline is initialised.
    lower (bool): Look words up lower-cased, as the published model does; otherwise by the
        attribute that the vectors are keyed by. A word without a vector reads zeros.
    window (int): Longest stretch of words read in one go; a longer doc is cut after sentences.
    max_batch_items (int): Words, padding included, that the encoder reads at a time.
    precision (str): Of the products wherever the encoder does not learn, as of `BiLM_v1`.
    RETURNS (Model[List[Doc], List[Floats3d]]): (n_tokens, n_layers, width) for each doc.
    """
    if width % 2:
        raise bad_setting("width", width, "an even number: the two directions share it")
    module = MTLSTM(MTLSTMConfig(input_width, width // 2, n_layers))
    module.set_precision(precision)
    inputs = StaticWords(input_width, source=vectors, lower=lower)
    settings = EncoderSettings(RANDOM, "reset", window, max_batch_items)
    return new_model("ctxvec_cove", module, inputs, settings)
