"""Draw the results: a bar for the mean of each system, a dot for each seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spacy_ctxvec.errors import CtxvecError

COLOURS = {"hash": "#9aa5b1", "hash_glove": "#5b8db8", "ctxvec": "#d1602c"}


def plot_scores(scores: Sequence[Mapping[str, Any]], titles: Mapping[str, str], path: Path) -> None:
    """Write one panel per corpus to an image file; the form follows from the file's ending."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise CtxvecError(
            "The plot needs matplotlib, which is not installed: pip install spacy-ctxvec[plot]"
        ) from error
    corpora = list(dict.fromkeys(s["corpus"] for s in scores))
    figure = Figure(figsize=(3.6 * len(corpora), 3.2), layout="constrained")
    for axes, corpus in zip(
        figure.subplots(1, len(corpora), squeeze=False)[0], corpora, strict=True
    ):
        chosen = [s for s in scores if s["corpus"] == corpus]
        names = [titles[s["system"]].replace("`", "").replace(" + ", " +\n") for s in chosen]
        axes.bar(
            names, [100 * s["mean"] for s in chosen], color=[COLOURS[s["system"]] for s in chosen]
        )
        for name, s in zip(names, chosen, strict=True):
            axes.plot([name] * len(s["seed_f"]), [100 * f for f in s["seed_f"]], "k.", markersize=5)
        axes.set_title(titles[corpus], fontsize=10)
        axes.set_ylabel("F on test")
        axes.tick_params(axis="x", labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=110)
