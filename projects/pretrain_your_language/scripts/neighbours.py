"""Makes the scripts of `projects/ner` importable by their names."""

from __future__ import annotations

import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "ner" / "scripts"

if str(SCRIPTS) not in sys.path:
    sys.path.append(str(SCRIPTS))
