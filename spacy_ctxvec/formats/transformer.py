"""A model folder of the library transformers: `config.json`, `tokenizer.json` and weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from .. import errors
from ..nn.transformer import (
    MODEL_TYPE,
    TransformerConfig,
    check_kind,
    transformers_library,
    without_pooler,
)
from ..nn.vocabulary import VOCABULARY, as_bytes
from .native import CONFIG_FILE, EncoderModel, no_statistics, read_json_object

TOKENIZER = "tokenizer.json"
# Of where a model lay and what wrote it; and heads, which are not read.
APART = (
    "_name_or_path", "architectures", "auto_map", "transformers_version", "torch_dtype", "dtype",
    "id2label", "label2id", "_attn_implementation_autoset",
)  # fmt: skip
FILES = (CONFIG_FILE, TOKENIZER, "model.safetensors", "pytorch_model.bin")
POOLER = "pooler."
ABOUT = {"tokenization": "any: words are cut into the pieces of its own tokenizer"}


def is_transformer(path: Path) -> bool:
    """Whether it is such a folder, or a file of one."""
    if path.is_file():
        return path.name in FILES and is_transformer(path.parent)
    try:
        return MODEL_TYPE in read_json_object(path / CONFIG_FILE)
    except errors.MalformedModelError:
        return False


def read_transformer(folder: Path) -> EncoderModel:
    """Read a folder; nothing is fetched, and nothing unpickled but tensors."""
    if not (folder / TOKENIZER).is_file():
        raise errors.CtxvecError(errors.NO_FAST_TOKENIZER.format(path=folder, name=TOKENIZER))
    library = transformers_library()
    try:
        check_kind(library.AutoConfig.from_pretrained(folder, trust_remote_code=False))
        model, loading = library.AutoModel.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except errors.CtxvecError:
        raise
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        expected = "a model that the library transformers can open"
        raise errors.malformed_model(folder, "model", expected, error) from error
    missing = [name for name in loading["missing_keys"] if not name.startswith(POOLER)]
    if missing:
        raise errors.malformed_model(folder, "weights", f"one named {missing[0]}", "none")
    model = without_pooler(model)
    found: dict[str, Any] = model.config.to_diff_dict()
    config = TransformerConfig(
        width=model.config.hidden_size,
        n_layers=model.config.num_hidden_layers,
        settings={name: value for name, value in found.items() if name not in APART},
    )
    tokenizer = (folder / TOKENIZER).read_text(encoding="utf8")
    weights = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    weights |= {f"pieces.{VOCABULARY}": as_bytes(tokenizer), **no_statistics(config)}
    info = {"name": folder.resolve().name, "family": model.config.model_type, **ABOUT}
    return EncoderModel(config, weights, info)
