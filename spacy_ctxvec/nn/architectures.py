"""The encoders there are, by their names in model folders."""

from __future__ import annotations

from typing import TypeAlias

from .bilm import BiLM, BiLMConfig
from .mtlstm import MTLSTM, MTLSTMConfig
from .transformer import Transformer, TransformerConfig

AnyEncoder: TypeAlias = BiLM | MTLSTM | Transformer
EncoderConfig: TypeAlias = BiLMConfig | MTLSTMConfig | TransformerConfig

CONFIGS: dict[str, type[BiLMConfig] | type[MTLSTMConfig] | type[TransformerConfig]] = {
    "bilm": BiLMConfig,
    "mtlstm": MTLSTMConfig,
    "transformer": TransformerConfig,
}


def architecture_of(config: EncoderConfig) -> str:
    return next(name for name, kind in CONFIGS.items() if isinstance(config, kind))


def new_encoder(config: EncoderConfig) -> AnyEncoder:
    """An encoder of these sizes with random weights."""
    if isinstance(config, TransformerConfig):
        return Transformer(config)
    return BiLM(config) if isinstance(config, BiLMConfig) else MTLSTM(config)
