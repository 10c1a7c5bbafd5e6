"""Memory stays flat over thousands of updates and docs."""

from __future__ import annotations

import resource
from pathlib import Path

from toys import TEXTS, examples, trained

PAGE = resource.getpagesize()


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6


def test_2000_updates_and_2000_docs():
    nlp, optimizer = trained()
    batch = examples(nlp)
    for _ in range(200):
        nlp.update(batch, sgd=optimizer)
    for _ in nlp.pipe(TEXTS * 100):
        pass
    before = resident_mb()
    for _ in range(2000):
        nlp.update(batch, sgd=optimizer)
    updated = resident_mb()
    texts = (f"{TEXTS[i % 3]} word{i % 500}" for i in range(2000))
    for _ in nlp.pipe(texts):
        pass
    print(f"resident: {before:.1f} MB, {updated:.1f} after updates, {resident_mb():.1f} after docs")
    assert updated - before < 20
    assert resident_mb() - updated < 20
