"""Sentences to read, and two ELMo models with random weights, in our format and as HDF5."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Annotated

import srsly
import torch
import typer

from spacy_ctxvec.formats.elmo.export import save_bilm_hdf5
from spacy_ctxvec.formats.native import EncoderModel, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig

FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))
SIZES = {
    "small": {"width": 256, "hidden_width": 1024, "n_highway": 1},
    "original": {"width": 1024, "hidden_width": 4096, "n_highway": 2},
}
"""Of the published models of these names, by Peters et al. (2018)."""


def main(
    conll: Annotated[Path, typer.Argument(help="Tokens a line, compressed by bzip2")],
    folder: Annotated[Path, typer.Argument(help="Where everything goes")],
    words: Annotated[int, typer.Option(help="Least number of words")] = 5000,
) -> None:
    """Write sentences.json, and the models in folders of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    srsly.write_json(folder / "sentences.json", sentences(conll, words))
    for name, sizes in SIZES.items():
        model = random_model(name, sizes)
        save_native(model, folder / name, dtype="float32")
        save_bilm_hdf5(model, folder / f"{name}-hdf5")


def random_model(name: str, sizes: dict[str, int]) -> EncoderModel:
    """An ELMo of these sizes, always with the same weights."""
    torch.manual_seed(0)
    config = BiLMConfig(
        **sizes, cell_clip=3.0, output_clip=3.0, char_width=16, filters=FILTERS, forget_bias=1.0
    )
    return EncoderModel(config, BiLM(config).state_dict(), {"name": name, "lang": "en"})


def sentences(conll: Path, words: int) -> list[list[str]]:
    """The first sentences, until there are so many words."""
    found: list[list[str]] = [[]]
    for line in bz2.decompress(conll.read_bytes()).decode("utf8").splitlines():
        token = line.split()[0] if line.strip() else ""
        if token and token != "-DOCSTART-":
            found[-1].append(token)
        elif found[-1]:
            if sum(map(len, found)) >= words:
                break
            found.append([])
    return [sentence for sentence in found if sentence]


if __name__ == "__main__":
    typer.run(main)
