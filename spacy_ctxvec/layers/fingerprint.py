"""Hashes of what decides the layers of a text: the encoder, and what it reads of each word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from .. import __version__
from ..nn.architectures import AnyEncoder, architecture_of
from ..nn.bilm import BiLM

DIGEST_BYTES = 16
STATISTICS = ("layer_mean", "layer_deviation")  # measured at any time, and read by no layer


def digest(content: bytes) -> bytes:
    return blake2b(content, digest_size=DIGEST_BYTES).digest()


def digests(contents: Iterable[bytes]) -> NDArray[np.uint8]:
    """(n, DIGEST_BYTES)"""
    joined = b"".join(map(digest, contents))
    return np.frombuffer(joined, dtype=np.uint8).reshape(-1, DIGEST_BYTES)


def fingerprint_of(module: AnyEncoder) -> str:
    """Hexadecimal digits that two encoders share only if they give every text the same layers.

    The version of the package is part of it, and so are the precision, and the kind of device,
    since a GPU's vectors differ in the last digits.
    """
    config = module.config
    settings = [config.to_dict(), module.precision]
    about = [__version__, module.device.type, architecture_of(config), *settings]
    state = module.state_dict().items()
    return _hash_of(about, {name: tensor for name, tensor in state if name not in STATISTICS})


def token_fingerprint_of(module: BiLM) -> str:
    """The same of the token layer alone, within a process and on one device."""
    about = [str(module.device), module.config.to_dict()]
    return _hash_of(about, module.token_encoder.state_dict())


def _hash_of(about: list[Any], tensors: Mapping[str, Tensor]) -> str:
    found = blake2b(json.dumps(about).encode(), digest_size=DIGEST_BYTES)
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.cpu().contiguous().numpy().reshape(-1).data)
    return found.hexdigest()
