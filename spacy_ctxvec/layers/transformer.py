"""`spacy-ctxvec.TransformerLayers.v1`: a transformer behind the listeners of this package."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..nn.transformer import Transformer, TransformerConfig
from ..types import IntArray
from .batching import WordBatch
from .encoder import RANDOM, Encoder, EncoderSettings, new_model
from .spelling import BySpelling


def TransformerLayers_v1(
    width: int,
    n_layers: int,
    settings: dict[str, Any],
    window: int = 128,
    max_batch_items: int = 4096,
    precision: Literal["float32", "bfloat16"] = "float32",
) -> Encoder:
    """Every hidden layer of a transformer, so that each listener learns a mix of them.

    Needs the library transformers. The weights come with the pipeline, or from a loader that reads
    a folder of that library (`config.json`, `tokenizer.json`, `model.safetensors`); `spacy ctxvec
    init-config --encoder FOLDER` writes the whole block. Without either nothing can be read.

    width, n_layers (int): Of its hidden layers.
    settings (Dict[str, Any]): What `config.json` says, `model_type` among it.
    window (int): Longest stretch of words read in one go; a longer doc is cut after sentences. One
        with more pieces than the model has positions is read in parts.
    max_batch_items (int): Words, padding included, that the encoder reads at a time.
    precision (str): Of the products wherever the encoder does not learn.
    RETURNS (Model[List[Doc], List[Floats3d]]): (n_tokens, n_layers + 1, width) for each doc; a
        token's vector is the mean of its pieces', those of layer 0 are the embeddings.
    """
    module = Transformer(TransformerConfig(width, n_layers, dict(settings)))
    module.set_precision(precision)
    state = EncoderSettings(RANDOM, "reset", window, max_batch_items)
    return new_model("ctxvec_transformer", module, WordPieces(), state)


class WordPieces(BySpelling):
    """Cuts each distinct word into the pieces that the transformer knows."""

    def vectors(self, module: Transformer, batch: WordBatch) -> tuple[Tensor, IntArray]:
        """Ids of the pieces of each distinct word, (n_distinct, n_pieces), filled up with -1; and
        the row of each word in them."""
        distinct, inverse = np.unique(batch.keys, return_inverse=True)
        words = [batch.text(key) for key in distinct.tolist()]
        return torch.from_numpy(module.pieces.table(words)), inverse

    def changing(self, *parameters: str) -> AbstractContextManager[None]:
        """Pieces depend on no parameter."""
        return nullcontext()

    def forget(self) -> None:
        """Every word is always cut anew."""
