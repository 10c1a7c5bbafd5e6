"""Makes the scripts of `projects/ner` and `projects/pretrain_your_language` importable by name."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECTS = Path(__file__).resolve().parents[2]

for name in ("ner", "pretrain_your_language"):
    folder = str(PROJECTS / name / "scripts")
    if folder not in sys.path:
        sys.path.append(folder)
