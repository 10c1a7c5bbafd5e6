"""The encoders there are, by their names in model folders."""

from __future__ import annotations

from typing import TypeAlias

from .bilm import BiLM, BiLMConfig
from .mtlstm import MTLSTM, MTLSTMConfig

AnyEncoder: TypeAlias = BiLM | MTLSTM
EncoderConfig: TypeAlias = BiLMConfig | MTLSTMConfig

CONFIGS: dict[str, type[BiLMConfig] | type[MTLSTMConfig]] = {
    "bilm": BiLMConfig,
    "mtlstm": MTLSTMConfig,
}


def architecture_of(config: EncoderConfig) -> str:
    return next(name for name, kind in CONFIGS.items() if isinstance(config, kind))


def new_encoder(config: EncoderConfig) -> AnyEncoder:
    """An encoder of these sizes with random weights."""
    return BiLM(config) if isinstance(config, BiLMConfig) else MTLSTM(config)
