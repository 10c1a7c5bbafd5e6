"""What several tests of formats share."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def reader(reference: Path) -> Any:
    """The reader of models that came with the reference numbers: it shares nothing with ours."""
    path = reference.parent / "spec" / "oracle_elmo.py"
    if not path.is_file():
        pytest.skip(f"no reader at {path}, beside the folder that CTXVEC_FIXTURES names")
    spec = importlib.util.spec_from_file_location("oracle_elmo", path)
    assert spec and spec.loader
    module = sys.modules["oracle_elmo"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
