"""The config block that makes the layer of an encoder that is there already."""

from __future__ import annotations

from typing import Any

from ..layers.encoder import RANDOM
from ..nn.architectures import EncoderConfig
from ..nn.mtlstm import MTLSTMConfig
from ..nn.transformer import TransformerConfig


def encoder_block(
    config: EncoderConfig, *, has_vectors: bool = False, lower: bool = True
) -> dict[str, Any]:
    """For [components.NAME.model], where the weights will be given to it.

    has_vectors, lower: of an MT-LSTM, whether it brings static vectors and reads lower-cased words
    """
    if isinstance(config, MTLSTMConfig):
        return {
            "@architectures": "spacy-ctxvec.CoVe.v1",
            "width": config.width,
            "input_width": config.input_width,
            "n_layers": config.n_layers,
            "vectors": "model" if has_vectors else "vocab",
            "lower": lower,
        }
    if isinstance(config, TransformerConfig):
        return {"@architectures": "spacy-ctxvec.TransformerLayers.v1", **config.to_dict()}
    sizes = config.to_dict()
    state = "warm" if sizes.pop("warm") else "reset"
    return {"@architectures": "spacy-ctxvec.BiLM.v1", **sizes, "state": state, "init": RANDOM}
