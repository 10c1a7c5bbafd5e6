"""What a corpus was made from, and whether that is what a caller would make it from now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import errors
from .archives import STANDARD_INPUT
from .lines import Problems
from .parallel import COLUMNS, KEYS, PairSource, find_sources, sentences_of
from .sources import find_files
from .splitting import FRACTIONS
from .tokenizing import hash64
from .writing import SIDES


def settings_of(
    paths: Sequence[Path | str] | None,
    *,
    lang: str,
    unit: str = "paragraph",
    max_tokens: int,
    budget: int | None = None,
    exclude: Sequence[Path | str] | None = (),
) -> dict[str, Any]:
    """The settings of a build, as `Corpus.meta["settings"]` has them.

    Files are told by name and size, not by folder or date: a copy of the text is the same text.
    `paths` or `exclude` None leaves the files out, for a caller that no longer has them.
    """
    settings: dict[str, Any] = {
        "lang": lang,
        "unit": unit,
        "max_tokens": max_tokens,
        "budget": budget,
    }
    if paths is not None:
        settings["files"] = _sizes(find_files(paths))
    if exclude is not None:
        settings["exclude"] = _sizes(find_files(exclude, endings=None))
    return settings


def pair_settings_of(
    sources: Iterable[PairSource],
    *,
    source_lang: str,
    target_lang: str,
    lower: bool = True,
    max_tokens: int,
    columns: tuple[int, int] = COLUMNS,
    keys: tuple[str, str] = KEYS,
    exclude_sources: Path | str | Collection[str] = (),
    part: str | None = None,
    fractions: Mapping[str, float] = FRACTIONS,
) -> dict[str, Any]:
    """The settings of a build, as `PairCorpus.meta["settings"]` has them; see `build_pair_corpus`.

    Files are told by name and size, excluded sentences by their number and a checksum.
    """
    parts = ", ".join(f"{name} {fraction}" for name, fraction in fractions.items())
    return {
        "source_lang": source_lang,
        "target_lang": target_lang,
        "lower": lower,
        "max_tokens": max_tokens,
        "columns": dict(zip(SIDES, columns)),
        "keys": dict(zip(SIDES, keys)),
        "part": None if part is None else f"{part} (of {parts})",
        "exclude_sources": _told(sentences_of(exclude_sources, Problems())),
        "files": [_side_sizes(source) for source in find_sources(sources)],
    }


def check_settings(folder: Path, meta: dict[str, Any], expected: dict[str, Any]) -> None:
    """Raise CtxvecError if the corpus in `folder` was made with other settings than `expected`.

    Settings that `expected` leaves out are not compared.
    """
    made_with = meta.get("settings", {})
    for name, value in expected.items():
        if made_with.get(name) != value:
            found, wanted = _difference(made_with.get(name), value)
            message = errors.OTHER_CORPUS.format(
                folder=folder, field=name, found=found, expected=wanted
            )
            raise errors.CtxvecError(message)


def _sizes(paths: Sequence[Path]) -> list[list[Any]]:
    return [
        [path.name, None if str(path) == STANDARD_INPUT else path.stat().st_size] for path in paths
    ]


def _side_sizes(source: Path | tuple[Path, Path]) -> list[Any]:
    """Name and size of a file with both sides, or of two line-aligned files."""
    if isinstance(source, Path):
        return _sizes([source])[0]
    return [" | ".join(path.name for path in source), [size for _, size in _sizes(source)]]


def _told(sentences: frozenset[str]) -> str:
    return f"{len(sentences)} sentence(s), {hash64(chr(10).join(sorted(sentences)).encode()):016x}"


def _difference(found: Any, expected: Any) -> tuple[str, str]:
    """Both in words; of two lists of files, the first that differ."""
    if not (isinstance(found, list) and isinstance(expected, list)):
        return str(found), str(expected)
    if len(found) != len(expected):
        return f"{len(found)} file(s)", f"{len(expected)}"
    for a, b in zip(found, expected):
        if a != b:
            return f"{a[0]} of {a[1]} bytes", f"{b[0]} of {b[1]} bytes"
    return str(found), str(expected)
