"""`spacy package`: built, installed into a folder of its own, loaded from there."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from toys import trained


def test_package_round_trip(tmp_path):
    nlp, _ = trained()
    nlp.meta["name"] = "pipeline"
    nlp.to_disk(tmp_path / "saved")
    packaged = [sys.executable, "-m", "spacy", "package", "saved", ".", "--name", "toy"]
    subprocess.run([*packaged, "--build", "none"], cwd=tmp_path, check=True, capture_output=True)
    package = next(tmp_path.glob("en_toy-*"))
    # The package's own setup puts its parts in place.
    subprocess.run([sys.executable, "setup.py", "-q", "sdist"], cwd=package, check=True)
    requirements = (package / "meta.json").read_text("utf8")
    assert "spacy-ctxvec" in requirements
    code = "import en_toy, numpy; numpy.save('rows.npy', en_toy.load()('Alice met').tensor)"
    subprocess.run([sys.executable, "-c", code], cwd=package, check=True, capture_output=True)
    np.testing.assert_allclose(np.load(package / "rows.npy"), nlp("Alice met").tensor, atol=1e-6)
