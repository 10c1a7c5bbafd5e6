"""The scripts of a project as modules, for the tests of them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

PROJECTS = Path(__file__).resolve().parents[2] / "projects"
Load = Callable[[str], ModuleType]


def loader(monkeypatch: pytest.MonkeyPatch, project: Path) -> Iterator[Load]:
    """Import scripts by name, and forget them afterwards: other projects have scripts too."""
    monkeypatch.setattr(sys, "path", [str(project / "scripts"), *sys.path])
    yield importlib.import_module
    names = {path.stem for path in PROJECTS.glob("*/scripts/*.py")}
    for name in names & set(sys.modules):
        del sys.modules[name]
