"""Installing the package costs those who do not use it next to nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import distribution

CODE = """
import sys, time
import spacy
before = set(sys.modules)
begin = time.perf_counter()
import spacy_ctxvec.pipe.factory
seconds = time.perf_counter() - begin
print(seconds, *(set(sys.modules) - before))
spacy.blank("en")
print(*(name for name in sys.modules if name.startswith("spacy_ctxvec.")))
"""

# To find its own logger, spaCy loads the registered loggers of all packages.
LOGGER = ("spacy_ctxvec.training", "spacy_ctxvec.training.tensorboard")


def test_spacy_blank_loads_the_factory_alone():
    command = [sys.executable, "-c", CODE]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    (seconds, *imported), loaded = (line.split() for line in result.stdout.splitlines())
    print(f"import: {1000 * float(seconds):.1f} ms")
    ours = {"spacy_ctxvec", "spacy_ctxvec.pipe", "spacy_ctxvec.pipe.factory"}
    assert set(imported) == ours and set(loaded) <= {*ours, *LOGGER}
    assert float(seconds) < 0.05


def test_every_entry_point_resolves():
    ours = distribution("spacy-ctxvec").entry_points
    assert {point.group for point in ours} >= {"spacy_factories", "spacy_architectures"}
    for point in ours:
        assert callable(point.load())
