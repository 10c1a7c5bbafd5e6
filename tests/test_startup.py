"""Installing the package costs those who do not use it next to nothing."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, time
import spacy
from spacy.util import registry
begin = time.perf_counter()
import spacy_ctxvec.pipe.factory
seconds = time.perf_counter() - begin
spacy.blank("en")
heavy = [name for name in sys.modules if name.startswith("spacy_ctxvec.")]
optional = [name for name in ("h5py", "matplotlib", "transformers", "safetensors", "rich.progress")
            if name in sys.modules]
print(seconds, *heavy, *optional)
"""


def test_spacy_blank_loads_the_factory_alone():
    result = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True
    ).stdout.split()
    print(f"import: {1000 * float(result[0]):.1f} ms")
    assert set(result[1:]) <= {"spacy_ctxvec.pipe", "spacy_ctxvec.pipe.factory"}
    assert float(result[0]) < 0.05


def test_every_entry_point_resolves():
    from importlib.metadata import entry_points

    ours = [point for point in entry_points() if point.module.startswith("spacy_ctxvec")]
    assert {point.group for point in ours} >= {"spacy_factories", "spacy_architectures"}
    for point in ours:
        assert callable(point.load())
