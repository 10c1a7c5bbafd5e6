"""Makes the scripts of `benchmark_speed`, `pretrain_en` and `ner` importable by name."""

from __future__ import annotations

import sys
from pathlib import Path

PROJECTS = Path(__file__).resolve().parents[2]

for name in ("benchmark_speed", "pretrain_en", "ner"):
    folder = str(PROJECTS / name / "scripts")
    if folder not in sys.path:
        sys.path.append(folder)
