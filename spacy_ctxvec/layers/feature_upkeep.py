"""What a folder of feature caches holds, and making it smaller.

Only files that are named as this package names them are ever removed.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from .feature_files import INDEX, MARK, RECORD, ROWS
from .feature_folder import ABOUT

FOLDER_NAME = re.compile(r"[0-9a-f]{32}-float(16|32)")
FILE_NAME = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Shard:
    """Two files that one process has written; `index` may be missing where it was killed early."""

    index: Path
    rows: Path
    n_texts: int
    n_bytes: int
    written: float

    @classmethod
    def of(cls, folder: Path, stem: str) -> Shard:
        index, rows = folder / f"{stem}{INDEX}", folder / f"{stem}{ROWS}"
        found = [path.stat() for path in (index, rows) if path.exists()]
        records = index.stat().st_size - len(MARK) if index.exists() else 0
        return cls(
            index,
            rows,
            n_texts=max(0, records) // RECORD.size,
            n_bytes=sum(file.st_size for file in found),
            written=max(file.st_mtime for file in found),
        )

    def remove(self) -> None:
        self.index.unlink(missing_ok=True)  # first, so that nobody looks for the rows
        self.rows.unlink(missing_ok=True)


@dataclass(frozen=True)
class KeptLayers:
    """The layers of one encoder in one precision; `used` is when they were last opened."""

    folder: Path
    source: str
    shards: list[Shard]
    used: float

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def dtype(self) -> str:
        return self.name.split("-")[1]

    @property
    def n_texts(self) -> int:
        """Counted again where two processes have written the same one."""
        return sum(shard.n_texts for shard in self.shards)

    @property
    def n_bytes(self) -> int:
        return sum(shard.n_bytes for shard in self.shards)


def kept_layers(root: Path) -> list[KeptLayers]:
    """All there are in a folder, those used last first."""
    folders = root.iterdir() if root.is_dir() else ()
    found = [_kept(path) for path in folders if FOLDER_NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda kept: -kept.used)


def prune(kept: list[KeptLayers], max_bytes: int) -> int:
    """Remove what was used longest ago until at most so many bytes are left; how many went.

    Processes that are reading it are not disturbed, where the system lets open files be removed.
    """
    left = before = sum(layers.n_bytes for layers in kept)
    for layers in sorted(kept, key=lambda layers: layers.used):
        for shard in sorted(layers.shards, key=lambda shard: shard.written):
            if left > max_bytes:
                shard.remove()
                left -= shard.n_bytes
        _remove_if_empty(layers.folder)
    return before - left


def _kept(folder: Path) -> KeptLayers:
    stems = {path.stem for path in folder.iterdir() if path.suffix in (INDEX, ROWS)}
    shards = [Shard.of(folder, stem) for stem in sorted(stems) if FILE_NAME.fullmatch(stem)]
    about = folder / ABOUT
    used = (about if about.exists() else folder).stat().st_mtime
    return KeptLayers(folder, _source(about), shards, used)


def _source(about: Path) -> str:
    try:
        return str(json.loads(about.read_text("utf8"))["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return "unknown"


def _remove_if_empty(folder: Path) -> None:
    """A folder without layers goes, unless something else lies in it."""
    if {path.name for path in folder.iterdir()} <= {ABOUT}:
        (folder / ABOUT).unlink(missing_ok=True)
        folder.rmdir()
