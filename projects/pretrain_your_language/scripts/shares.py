"""Pretrain on shares of a large text, each for the same number of tokens, and measure the models.

A share is the beginning of a text that is read a document from each file in turn. A model that is
there is not made again, an interrupted one goes on.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import srsly
import typer
import write_config

# isort: split
from cells import read_json
from console import run_script

from spacy_ctxvec.errors import CtxvecError

PROJECT = Path(__file__).resolve().parent.parent
EXCLUDE = PROJECT.parent / "pretrain_en" / "exclude.txt"
EVALUATION = "evaluation.json"  # kept in the folder of the model that it is of


def main(
    shares: Annotated[str, typer.Argument(help="Percent of the text, as 1,5,25")],
    workdir: Annotated[Path, typer.Option(help="Working folder")] = Path(),
    text_tokens: Annotated[int, typer.Option(help="Tokens of the whole text")] = 74_000_000,
    tokens: Annotated[int, typer.Option(help="Tokens to train on")] = 6_000_000,
    data: Annotated[
        Path | None, typer.Option(help="Folder of data sets", envvar="CTXVEC_DATA")
    ] = None,
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
) -> None:
    """Pretrain and evaluate each share, and write shares.json."""
    if data is None:
        raise CtxvecError("Set CTXVEC_DATA to the folder of data sets.")
    done = 0
    for share in parse_shares(shares):
        work = share_folder(workdir, share, tokens)
        changes = [f"name=en_{share:g}", f"corpus_tokens={round(text_tokens * share / 100)}"]
        changes += [f"training.tokens={tokens}"]
        base = PROJECT / "configs" / "pretrain_share.cfg"
        write_config.main(base, work / "pretrain.cfg", changes, EXCLUDE, data)
        if pretrain(work, data / "text", gpu_id):
            done += 1
            perplexity = measure(work, data / "text" / "heldout" / "enwiki-test.txt.bz2")
            row = {"share": share, "trained": tokens, **perplexity}
            keep(row, workdir / "results" / "shares.json")
            typer.echo(srsly.json_dumps(row))
    if done < len(parse_shares(shares)):
        raise typer.Exit(1)


def keep(row: dict[str, Any], path: Path) -> None:
    """Put a row among those of earlier runs, in the place of one of the same share and length."""
    rows = read_json(path) if path.is_file() else []
    order = ("share", "trained")
    others = [old for old in rows if any(old[name] != row[name] for name in order)]
    path.parent.mkdir(parents=True, exist_ok=True)
    srsly.write_json(path, sorted([*others, row], key=lambda r: [r[name] for name in order]))


def share_folder(workdir: Path, share: float, tokens: int) -> Path:
    return workdir.resolve() / f"share-{share:g}-{tokens}"


def share_models(workdir: Path, shares: str, tokens: int) -> dict[str, Path]:
    """The models of shares by a name for each; those that are not there are said to be missing."""
    models: dict[str, Path] = {}
    for share in parse_shares(shares) if shares else []:
        model = share_folder(workdir, share, tokens) / "model"
        if model.is_dir():
            models[f"share-{share:g}"] = model
        else:
            typer.echo(f"No model of {share:g} % of the text in {model}, left out", err=True)
    return models


def parse_shares(text: str) -> list[float]:
    """Percents between 0 and 100, parted by commas."""
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError:
        shares = [0.0]
    if not all(0 < share <= 100 for share in shares):
        raise CtxvecError(f"Expected percents as 1,5,25, found {text!r}.")
    return shares


def pretrain(work: Path, text: Path, gpu_id: int) -> bool:
    """Make the model of a working folder with its config, if it is not there; whether it is."""
    config, done = work / "pretrain.cfg", work / "model" / "pretrain.cfg"
    if done.is_file() and done.read_text("utf-8") == config.read_text("utf-8"):
        return True
    command = ["pretrain", str(config), str(work), "--text", str(text), "--gpu-id", str(gpu_id)]
    if ctxvec(command).returncode == 0 and (work / "model").is_dir():
        done.write_text(config.read_text("utf-8"), encoding="utf-8")
        (work / "model" / EVALUATION).unlink(missing_ok=True)
        return True
    return False


def measure(work: Path, text: Path) -> dict[str, Any]:
    """Size of a model's text, and its perplexity on held-out text, which is kept in its folder."""
    kept = work / "model" / EVALUATION
    if not kept.is_file():
        command = ["evaluate-lm", str(work / "model"), str(text), "--json"]
        output = ctxvec(command, stdout=subprocess.PIPE, check=True).stdout
        srsly.write_json(kept, json.loads(output))
    tokens = read_json(work / "corpus" / "meta.json")["n_tokens"]
    return {"tokens": tokens, **read_json(kept)}


def ctxvec(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "spacy", "ctxvec", *command], **options)


if __name__ == "__main__":
    run_script(main)
