"""Files of `torch.save` from elsewhere: nothing but tensors and plain values is unpickled."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import errors


def load_pickle(path: Path) -> Any:
    _check_stored(path)
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged or hostile file makes the library raise
        raise errors.MalformedModelError(
            errors.UNSAFE_PICKLE.format(path=path, error=str(error).split("\n")[0])
        ) from error


def _check_stored(path: Path) -> None:
    """Refuse what unpacks to more than the file: `torch.save` never compresses."""
    try:
        with zipfile.ZipFile(path) as archive:
            stored = all(i.compress_type == zipfile.ZIP_STORED for i in archive.infolist())
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return  # the older layout, or damaged: for the library to say
    if not stored:
        raise errors.malformed_model(path, "content", "stored as torch.save does", "compressed")


@dataclass
class StateDict:
    """The tensors of a file that holds a state dict, each checked before it is read."""

    path: Path
    tensors: dict[str, Any]
    wanted: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, path: Path) -> StateDict:
        tensors = load_pickle(path)
        if not isinstance(tensors, dict):
            found = type(tensors).__name__
            raise errors.malformed_model(path, "content", "a dict of tensors", found)
        return cls(path, tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensor(name).shape)

    def read(self, name: str, *shape: int) -> Tensor:
        """The numbers of tensor `name`, float32; `shape` is what is asked for."""
        tensor = self._tensor(name)
        if self.shape(name) != shape:
            raise self.malformed(name, f"of shape {shape}", self.shape(name))
        if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            raise self.malformed(name, f"{tensor.numel()} numbers, as declared", "fewer")
        numbers = tensor.float().contiguous()
        if not bool(torch.isfinite(numbers).all()):
            raise self.malformed(name, "finite numbers", "infinite ones, or no numbers")
        self.wanted.add(name)
        return numbers

    def check_rest(self) -> None:
        """Refuse tensors that nothing has read: the file is of another kind."""
        rest = sorted(str(name) for name in self.tensors.keys() - self.wanted)
        if rest:
            raise self.malformed(rest[0], "absent, as nothing asks for it", "a tensor")

    def malformed(self, name: str, expected: str, found: Any) -> errors.MalformedModelError:
        return errors.malformed_model(self.path, f"tensor {name}", expected, found)

    def _tensor(self, name: str) -> Tensor:
        tensor = self.tensors.get(name)
        if not isinstance(tensor, Tensor) or not _is_plain(tensor):
            found = type(tensor).__name__ if name in self.tensors else "nothing of this name"
            raise self.malformed(name, "a tensor with its numbers in the file", found)
        if not tensor.is_floating_point():
            raise self.malformed(name, "floating-point numbers", tensor.dtype)
        return tensor


def _is_plain(tensor: Tensor) -> bool:
    """Not sparse, nested, or without memory."""
    return tensor.layout == torch.strided and tensor.device.type == "cpu" and not tensor.is_nested
