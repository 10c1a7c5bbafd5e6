"""What components have learned to read of an encoder: the weights of its layers, over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language

from .. import errors
from .facts import pipeline_facts

OWN = "its own"
COLOURS = ("#9aa5b1", "#5b8db8", "#d1602c", "#3d7d5c")


@dataclass(frozen=True)
class Weights:
    """The mix of one component, in one or several pipelines that have it.

    mean, deviation (n_layers,): of the weights, softmax(w); layer 0 knows the spelling alone
    gamma: mean of the factor after the mix
    """

    component: str
    encoder: str
    n_pipelines: int
    mean: list[float]
    deviation: list[float] | None
    gamma: float


def layer_weights(pipelines: Sequence[Language]) -> list[Weights]:
    """One for each component that has a trained mix, in order of the first pipeline that has it.

    CtxvecError where there is none, or where a component reads encoders of several depths.
    """
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for nlp in pipelines:
        for key, mix in _mixes(nlp):
            found.setdefault(key, []).append(mix)
    if not found:
        names = ", ".join(name for nlp in pipelines for name in nlp.pipe_names) or "none"
        raise errors.CtxvecError(errors.NO_MIXES.format(found=names))
    return [_joined(*key, mixes) for key, mixes in found.items()]


def draw_weights(rows: Sequence[Weights], path: Path) -> None:
    """A bar for each component, divided by layer; the form of the image follows from its ending.

    CtxvecError without matplotlib; OSError where `path` cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_CURVE.format(path=path, error=error)) from error
    figure = Figure(figsize=(6, 0.9 + 0.4 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = [row.component for row in rows]
    n_layers = max(len(row.mean) for row in rows)
    left = np.zeros(len(rows))
    for layer in range(n_layers):
        width = np.array([[*row.mean, *[0.0] * n_layers][layer] for row in rows])
        colour = COLOURS[layer % len(COLOURS)]
        axes.barh(names, width, left=left, color=colour, label=layer_name(layer))
        left += width
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel("weight of each layer")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=n_layers, fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def layer_name(layer: int) -> str:
    return f"layer {layer}"


def _mixes(nlp: Language) -> list[tuple[tuple[str, str], dict[str, Any]]]:
    """The trained mixes of a pipeline by component and encoder."""
    facts = pipeline_facts(nlp)
    mixes = [
        ((component, encoder), mix)
        for encoder, about in facts["encoders"].items()
        for component, mix in about["listeners"].items()
    ]
    mixes += [((component, OWN), mix) for component, mix in facts["own_encoders"].items()]
    return [(key, mix) for key, mix in mixes if not isinstance(mix["weights"], str)]


def _joined(component: str, encoder: str, mixes: Sequence[dict[str, Any]]) -> Weights:
    depths = sorted({len(mix["weights"]) for mix in mixes})
    if len(depths) > 1:
        message = errors.OTHER_DEPTHS.format(component=component, found=depths)
        raise errors.CtxvecError(message)
    weights = np.array([mix["weights"] for mix in mixes])
    several = len(mixes) > 1
    return Weights(
        component=component,
        encoder=encoder,
        n_pipelines=len(mixes),
        mean=weights.mean(axis=0).tolist(),
        deviation=weights.std(axis=0, ddof=1).tolist() if several else None,
        gamma=float(np.mean([mix["gamma"] for mix in mixes])),
    )
