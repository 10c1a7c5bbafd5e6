"""Recipes and architectures compared by whole runs of the same time: perplexity on held-out text.

Each recipe is a config of the repository with some settings changed. All read the same text with
one thread, and each learning-rate schedule ends with its run. What is finished is skipped, an
interrupted run goes on.

    python scripts/recipes.py [--minutes 8] [--only default --only adaptive]
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import neighbours  # noqa: F401
import srsly
import typer
import write_config

# isort: split
from cells import read_json
from console import run_script
from results import insert
from shares import measure, pretrain
from summary import versions
from thinc.api import Config

from spacy_ctxvec.errors import CtxvecError

PROJECT = Path(__file__).resolve().parent.parent
EXCLUDE = PROJECT / "exclude.txt"
CONFIGS = PROJECT.parents[1] / "configs"
DEFAULT, ORIGINAL = (CONFIGS / f"pretrain_{name}.cfg" for name in ("en_sm", "original"))
TEXTS = ("corpus", "heldout")
# The time ends a run, and nothing but training takes of it.
COMMON = {"threads": False, "tokens": 1_000_000_000, "evaluate_every": 1_000_000}
Settings = dict[str, Any]


class Recipe(NamedTuple):
    """A run: what to call it, a config, and settings of [pretrain] that differ from it."""

    title: str
    base: Path = DEFAULT
    changes: Settings = {}  # noqa: RUF012


def settings_of(config: Path) -> Settings:
    return Config().from_disk(config)["pretrain"]


def training(**changes: Any) -> Settings:
    return {"training": changes}


RECIPES = {
    "default": Recipe("`pretrain_en_sm.cfg`"),
    "original": Recipe("`pretrain_original.cfg`, at its own sizes", ORIGINAL),
    "original_recipe": Recipe(
        "`pretrain_original.cfg`, at the sizes of `pretrain_en_sm.cfg`",
        ORIGINAL,
        {name: settings_of(DEFAULT)[name] for name in ("model", "softmax_width")},
    ),
    "log_uniform": Recipe("log-uniform candidates", changes=training(sampler="log_uniform")),
    "adaptive": Recipe("adaptive softmax", changes=training(softmax="adaptive")),
    "full": Recipe("full softmax", changes=training(softmax="full")),
    "cosine": Recipe("cosine schedule", changes=training(schedule="cosine")),
    "small_batch": Recipe("2,048 tokens a step", changes=training(batch_tokens=2048)),
    "float32": Recipe("float32", changes=training(precision="float32")),
    "projected": Recipe(
        "clipped LSTMs of 364 cells, projected to 160: as many multiply-adds",
        changes={
            "model": {"width": 320, "hidden_width": 364, "cell_clip": 3.0, "output_clip": 3.0}
        },
    ),
}


def main(
    minutes: Annotated[float, typer.Option(help="Training time of each run")] = 8.0,
    only: Annotated[list[str] | None, typer.Option(help="A recipe; default: all")] = None,
    text_tokens: Annotated[int, typer.Option(help="Tokens of text to prepare")] = 8_000_000,
    workdir: Annotated[Path, typer.Option(help="Working folder")] = Path(),
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets", envvar="CTXVEC_DATA")
    ] = None,
    readme: Annotated[Path, typer.Option(help="The file to change")] = PROJECT / "README.md",
) -> None:
    """Train each recipe and measure it, and put the table into the README."""
    if data is None:
        raise CtxvecError("Set CTXVEC_DATA to the folder of data sets.")
    unknown = set(only or ()) - set(RECIPES)
    if unknown:
        raise CtxvecError(f"Expected recipes of {sorted(RECIPES)}, found {sorted(unknown)}.")
    os.environ["OMP_NUM_THREADS"] = "1"
    names = [name for name in RECIPES if name in (only or RECIPES)]
    runs = workdir.resolve() / "recipes"
    typer.echo(f"{len(names)} runs, at most {len(names) * minutes / 60:.1f} hours and their text")
    common = {
        "corpus_tokens": text_tokens,
        "exclude": [str(data / name) for name in write_config.read_patterns(EXCLUDE)],
        "training": {**COMMON, "hours": minutes / 60},
    }
    for name in names:
        row = run(RECIPES[name], common, runs / name, data)
        srsly.write_json(runs / name / "row.json", row)
        typer.echo(srsly.json_dumps(row))
    rows = [read_json(runs / name / "row.json") for name in names]
    insert(readme, render(rows, minutes))


def run(recipe: Recipe, common: Settings, work: Path, data: Path) -> dict[str, Any]:
    """Make the model of a recipe, if it is not there, and measure it on the development text."""
    config = Config().from_disk(recipe.base)
    config = config.merge({"pretrain": recipe.changes}).merge({"pretrain": common})
    work.mkdir(parents=True, exist_ok=True)
    config.to_disk(work / "pretrain.cfg")
    take_text(work)
    if not pretrain(work, data / "text", gpu_id=-1):
        raise CtxvecError(f"{work}: stopped; the same command goes on from there.")
    return {
        "title": recipe.title,
        "trained": read_json(work / "model" / "config.json")["tokens_seen"],
        **measure(work, data / "text" / "heldout" / "enwiki-dev.txt.bz2"),
    }


def take_text(work: Path) -> None:
    """Copy the prepared text of another run, if one has read the same in the same pieces."""
    if (work / TEXTS[0]).is_dir():
        return
    pieces = ("unit", "max_tokens", "corpus_tokens")
    mine = settings_of(work / "pretrain.cfg")
    for config in sorted(work.parent.glob("*/model/pretrain.cfg")):
        if all(settings_of(config)[name] == mine[name] for name in pieces):
            for name in TEXTS:
                shutil.copytree(config.parents[1] / name, work / name)
            return


def render(rows: Iterable[dict[str, Any]], minutes: float) -> str:
    """The table, best first, below where it comes from."""
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    header = "| recipe | tokens read | forward | backward | unknown words |"
    lines = []
    for row in sorted(rows, key=lambda row: row["forward"] + row["backward"]):
        perplexities = f"{row['forward']:.1f} | {row['backward']:.1f} | {row['unknown_rate']:.1%}"
        lines.append(f"| {row['title']} | {row['trained']:,} | {perplexities} |")
    title = (
        f"`python scripts/recipes.py --minutes {minutes:g}`, {datetime.date.today().isoformat()}, "
        f"CPU, one thread a run, {about}. Perplexity on `text/heldout/enwiki-dev`:"
    )
    return "\n".join([title, "", header, f"|{'---|' * 5}", *lines])


if __name__ == "__main__":
    run_script(main)
