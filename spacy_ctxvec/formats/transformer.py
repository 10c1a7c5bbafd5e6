"""A model folder of the library transformers: `config.json`, `tokenizer.json` and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .. import errors
from ..nn.transformer import MODEL_TYPE, TransformerConfig, transformers_library
from ..nn.vocabulary import VOCABULARY, as_bytes
from .native import CONFIG_FILE, EncoderModel, no_statistics, read_json_object

TOKENIZER = "tokenizer.json"
# Of where a model lay and what wrote it; and heads, which are not read.
APART = ("_name_or_path", "architectures", "transformers_version", "torch_dtype", "id2label",
         "label2id", "_attn_implementation_autoset")  # fmt: skip


def is_transformer(folder: Path) -> bool:
    try:
        return MODEL_TYPE in read_json_object(folder / CONFIG_FILE)
    except errors.MalformedModelError:
        return False


def read_transformer(folder: Path) -> EncoderModel:
    """Read a folder; nothing is fetched, and nothing unpickled but tensors."""
    if not (folder / TOKENIZER).is_file():
        raise errors.CtxvecError(errors.NO_FAST_TOKENIZER.format(path=folder, name=TOKENIZER))
    library = transformers_library()
    try:
        model = library.AutoModel.from_pretrained(folder, local_files_only=True)
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        expected = "a model that the library transformers can open"
        raise errors.malformed_model(folder, "model", expected, error) from error
    found: dict[str, Any] = model.config.to_diff_dict()
    config = TransformerConfig(
        width=model.config.hidden_size,
        n_layers=model.config.num_hidden_layers,
        settings={name: value for name, value in found.items() if name not in APART},
    )
    tokenizer = (folder / TOKENIZER).read_text(encoding="utf8")
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    weights |= {f"pieces.{VOCABULARY}": as_bytes(tokenizer), **no_statistics(config)}
    return EncoderModel(config, weights, {"name": folder.resolve().name})
