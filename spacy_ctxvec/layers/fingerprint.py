"""Hashes of what decides the layers of a text: the encoder, and what it reads of each word."""

from __future__ import annotations

import json
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..nn.architectures import AnyEncoder, architecture_of

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
    found = blake2b(json.dumps(about).encode(), digest_size=DIGEST_BYTES)
    for name, tensor in sorted(module.state_dict().items()):
        if name not in STATISTICS:
            found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            found.update(tensor.cpu().contiguous().numpy().reshape(-1))
    return found.hexdigest()
