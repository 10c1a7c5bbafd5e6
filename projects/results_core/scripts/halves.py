"""Write the two directions of the shipped biLM as models of their own: they never mix.

    python scripts/halves.py work

The folders are called `forward` and `backward`. Both keep the token layer, which was trained for
the two together.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import typer
from torch import Tensor

# isort: split
from console import run_script

from spacy_ctxvec.assets import shipped_model
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.nn.bilm import BiLMConfig

HALVES = ("forward", "backward")


def main(folder: Annotated[Path, typer.Argument(help="Where the two folders go")]) -> None:
    """Write both."""
    whole = shipped_model("en_sm")
    for direction in HALVES:
        half = half_of(whole, direction)
        save_native(half, folder / direction, dtype=whole.dtype)
        typer.echo(f"{folder / direction}: width {half.config.width}")


def half_of(whole: EncoderModel, direction: str) -> EncoderModel:
    """One direction of a biLM: half as wide, each layer with its own statistics."""
    config = whole.config
    assert isinstance(config, BiLMConfig)
    width = config.width // 2
    columns = slice(None, width) if direction == HALVES[0] else slice(width, None)
    (other,) = set(HALVES) - {direction}
    weights: dict[str, Tensor] = {
        name: tensor[:, columns].contiguous() if name.startswith("layer_") else tensor
        for name, tensor in whole.weights.items()
        if not name.startswith(other)
    }
    half = replace(config, width=width, directions=direction)
    return EncoderModel(half, weights, {**whole.info, "name": f"{whole.info['name']}_{direction}"})


if __name__ == "__main__":
    run_script(main)
