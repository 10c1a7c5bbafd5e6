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

    def update(n_times: int) -> None:
        for _ in range(n_times):
            nlp.update(batch, sgd=optimizer)

    def annotate(word: str) -> None:
        for _ in nlp.pipe(f"{TEXTS[i % 3]} {word}{i % 500}" for i in range(2000)):
            pass

    update(200)
    annotate("first")
    before = resident_mb()
    update(2000)
    updated = resident_mb()
    annotate("second")
    print(f"resident: {before:.1f} MB, {updated:.1f} after updates, {resident_mb():.1f} after docs")
    assert updated - before < 20
    assert resident_mb() - updated < 20
