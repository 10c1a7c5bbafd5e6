"""Recipes and architectures compared by whole runs of the same time: perplexity on held-out text.

Each recipe is a config of the repository with some settings changed. All read the same text with
one thread. First the speed of each is measured, one after the other, with nothing else running;
then each is trained on as many tokens as it would read in the time. So the machine may do other
work in the second part, and each learning-rate schedule ends with its run. What is finished is
skipped, an interrupted run goes on.

    python scripts/recipes.py [--minutes 8] [--only default --only adaptive]
"""

from __future__ import annotations

import datetime
import json
import os
import shutil
import subprocess
from collections.abc import Sequence
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
from shares import ctxvec, pretrain
from summary import versions
from thinc.api import Config

from spacy_ctxvec.errors import CtxvecError

PROJECT = Path(__file__).resolve().parent.parent
EXCLUDE = PROJECT / "exclude.txt"
CONFIGS = PROJECT.parents[1] / "configs"
DEFAULT, ORIGINAL = (CONFIGS / f"pretrain_{name}.cfg" for name in ("en_sm", "original"))
TEXTS = ("corpus", "heldout")
BASE = "base.cfg"  # but for the tokens to read
COMMON = {"threads": False, "evaluate_every": 1_000_000}
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
    "small_batch": Recipe("2,048 tokens a step", changes=training(batch_tokens=2048)),
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
        "training": COMMON,
    }
    for name in names:
        prepare(RECIPES[name], common, runs / name, data)
    speeds = {name: speed(runs / name, data) for name in names}
    rows = []
    for name in names:
        row = run(runs / name, data, round(60 * minutes * speeds[name]))
        rows.append({"title": RECIPES[name].title, "speed": speeds[name], **row})
        typer.echo(srsly.json_dumps(rows[-1]))
    insert(readme, render(rows, minutes))


def prepare(recipe: Recipe, common: Settings, work: Path, data: Path) -> None:
    """Write the config of a run and prepare its text."""
    config = Config().from_disk(recipe.base)
    config = config.merge({"pretrain": recipe.changes}).merge({"pretrain": common})
    work.mkdir(parents=True, exist_ok=True)
    config.to_disk(work / BASE)
    if not take_text(work):
        ctxvec([*command(work, BASE, data), "--dry-run"], check=True)


def speed(work: Path, data: Path) -> float:
    """Tokens a second of a few steps, which are kept."""
    kept = work / "speed.json"
    if not kept.is_file():
        output = ctxvec(
            [*command(work, BASE, data), "--dry-run", "--json"], stdout=subprocess.PIPE, check=True
        ).stdout
        srsly.write_json(kept, json.loads(output.splitlines()[-1])["tokens_per_second"])
    return read_json(kept)


def run(work: Path, data: Path, n_tokens: int) -> dict[str, Any]:
    """Make the model, if it is not there; what it has read, and its held-out perplexity."""
    config = Config().from_disk(work / BASE)
    config["pretrain"]["training"]["tokens"] = n_tokens
    config.to_disk(work / "pretrain.cfg")
    if not pretrain(work, data / "text", gpu_id=-1):
        raise CtxvecError(f"{work}: stopped; the same command goes on from there.")
    model = read_json(work / "model" / "config.json")
    return {"trained": model["tokens_seen"], **model["perplexity"]}


def command(work: Path, config: str, data: Path) -> list[str]:
    return ["pretrain", str(work / config), str(work), "--text", str(data / "text")]


def take_text(work: Path) -> bool:
    """Copy the prepared text of another run, if one has read the same in the same pieces; whether
    there is text now."""
    pieces = ("unit", "max_tokens", "corpus_tokens")
    mine = settings_of(work / BASE)
    for config in [work / BASE, *sorted(work.parent.glob(f"*/{BASE}"))]:
        prepared = all((config.parent / name / "meta.json").is_file() for name in TEXTS)
        if prepared and all(settings_of(config)[name] == mine[name] for name in pieces):
            for name in TEXTS if config.parent != work else ():
                shutil.copytree(config.parent / name, work / name, dirs_exist_ok=True)
            return True
    return False


def render(rows: Sequence[dict[str, Any]], minutes: float) -> str:
    """The table, best first, below where it comes from."""
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    header = "| recipe | tokens/s | tokens read | forward | backward |"
    lines = []
    for row in sorted(rows, key=lambda row: row["forward"] + row["backward"]):
        read = f"{row['speed']:,.0f} | {row['trained']:,}"
        lines.append(f"| {row['title']} | {read} | {row['forward']:.1f} | {row['backward']:.1f} |")
    title = (
        f"`python scripts/recipes.py --minutes {minutes:g}`, {datetime.date.today().isoformat()}, "
        f"CPU, one thread a run, {about}. Perplexity on `text/heldout/enwiki-dev` "
        f"({rows[0]['unknown_rate']:.1%} unknown words):"
    )
    return "\n".join([title, "", header, f"|{'---|' * 5}", *lines])


if __name__ == "__main__":
    run_script(main)
