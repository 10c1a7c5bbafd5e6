"""HDF5 files from elsewhere: nothing is read before it is checked, and nothing from other files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .. import errors
from ..types import FloatArray

HARD_LINK = 0  # HDF5's H5L_TYPE_HARD; the other kinds may lead out of the file
# The best that deflate can do: a smaller file cannot hold what its headers declare.
MAX_COMPRESSION = 1032


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The `h5py.File` at `path`; whatever the library cannot read is a malformed model."""
    try:
        import h5py
    except ImportError as error:
        message = errors.NEEDS_EXTRA.format(path=path, package="h5py", extra="import")
        raise errors.CtxvecError(message) from error
    try:
        with h5py.File(path, "r") as file:
            yield file
    except errors.CtxvecError:
        raise
    except (OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise errors.malformed_model(path, "content", "a whole HDF5 file", error) from error


@dataclass
class Datasets:
    """The datasets of an open HDF5 file, each checked before it is read."""

    file: Any
    path: Path
    wanted: set[str] = field(default_factory=set)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._dataset(name).shape)

    def read(self, name: str, *shape: int) -> FloatArray:
        """The numbers of dataset `name`, float32; `shape` is what is asked for."""
        dataset = self._dataset(name)
        if dataset.dtype.kind != "f":
            raise self.malformed(name, "floating-point numbers", dataset.dtype)
        if dataset.shape != shape:
            raise self.malformed(name, f"of shape {shape}", dataset.shape)
        self._check_storage(name, dataset)
        array = np.asarray(dataset[...], dtype=np.float32)
        if not np.isfinite(array).all():
            raise self.malformed(name, "finite numbers", "infinite ones, or no numbers")
        self.wanted.add(name)
        return array

    def names(self) -> list[str]:
        """Of everything in the file but what is linked from elsewhere."""
        found: list[str] = []
        self.file.visit(found.append)  # visits hard links alone
        return found

    def check_rest(self, groups: tuple[str, ...]) -> None:
        """Refuse datasets of `groups` that nothing has read: the file is of another kind."""
        for name in self.names():
            is_weight = name.startswith(groups) and hasattr(self.file[name], "shape")
            if is_weight and name not in self.wanted:
                raise self.malformed(name, "absent, as nothing asks for it", "a dataset")

    def malformed(self, name: str, expected: str, found: Any) -> errors.MalformedModelError:
        return errors.malformed_model(self.path, f"dataset {name}", expected, found)

    def _dataset(self, name: str) -> Any:
        group = self.file
        for part in name.split("/"):
            links = getattr(group.id, "links", None)  # None inside a dataset
            if links is None or not links.exists(part.encode()):
                raise self.malformed(name, "present", "nothing of this name")
            if links.get_info(part.encode()).type != HARD_LINK:
                raise self.malformed(name, "in the file itself", f"{part} is a link elsewhere")
            group = group[part]
        if not hasattr(group, "shape"):
            raise self.malformed(name, "a dataset", "a group")
        return group

    def _check_storage(self, name: str, dataset: Any) -> None:
        if dataset.external or dataset.is_virtual:
            raise self.malformed(name, "in the file itself", "data that lies in other files")
        stored = dataset.id.get_storage_size()
        filtered = dataset.id.get_create_plist().get_nfilters() > 0
        if stored * (MAX_COMPRESSION if filtered else 1) < dataset.nbytes:
            raise self.malformed(name, f"{dataset.nbytes} bytes, as declared", f"{stored} bytes")
