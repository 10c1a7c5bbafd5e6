"""`spacy ctxvec init-config`: a training config to start from."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from spacy.util import load_model_from_config

from .. import errors
from ..assets import FOLDER
from ..formats.detect import load_model
from ..training.pretrain import SHIPPED, model_folder
from .opening import model_block
from .starter_config import COMPONENTS, OPTIMIZED, commented, starter_config

LANG = "en"
"""What the shipped model reads."""


def init_config_cli(
    output: Annotated[Path, typer.Argument(help="Config to write, or - for standard output")],
    lang: Annotated[str | None, typer.Option("--lang", "-l", help="Language of the text")] = None,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", "-p", help=f"Of {', '.join(COMPONENTS)}: with commas"),
    ] = None,
    optimize: Annotated[
        str | None,
        typer.Option(
            "--optimize", "-o", help="efficiency: frozen encoder; accuracy: it learns too"
        ),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option("--encoder", "-e", help=f"{SHIPPED}, or a model folder or file of your own"),
    ] = None,
    gpu: Annotated[bool | None, typer.Option("--gpu/--cpu", help="What will train")] = None,
    force: Annotated[bool, typer.Option("--force", "-f", help="Replace a config")] = False,
) -> None:
    """Write a training config for your language, components and encoder.

    What no option says is asked for at a terminal, and elsewhere has its default.
    """
    if str(output) != "-" and output.exists() and not force:
        raise errors.CtxvecError(errors.CONFIG_EXISTS.format(path=output))
    lang = answer(lang, "Language", LANG)
    names = answer(pipeline, f"Components, with commas, of {', '.join(COMPONENTS)}", "ner")
    optimize = answer(optimize, f"Optimize for {' or '.join(OPTIMIZED)}", OPTIMIZED[0])
    if optimize not in OPTIMIZED:
        expected = " or ".join(OPTIMIZED)
        raise errors.CtxvecError(
            errors.BAD_SETTING.format(field="optimize", found=optimize, expected=expected)
        )
    encoder = answer(encoder, f"Encoder: {SHIPPED}, or a model of your own", SHIPPED)
    if gpu is None:
        gpu = answer(None, "Train on a GPU (yes or no)", "no").lower().startswith("y")
    block, weights = encoder_of(encoder, lang)
    config = starter_config(
        lang=lang,
        components=[name.strip() for name in names.split(",") if name.strip()],
        optimize=optimize,
        encoder=block,
        weights=weights,
        gpu=gpu,
    )
    # What is wrong shows here, and not in training.
    complete = load_model_from_config(config, auto_fill=True).config
    text = commented(complete, optimize)
    if str(output) == "-":
        typer.echo(text)
        return
    output.write_text(text, encoding="utf8")
    gpu_option = " --gpu-id 0" if gpu else ""
    typer.echo(f"{output} is complete. Train with:")
    typer.echo(
        f"python -m spacy train {output} --paths.train train.spacy --paths.dev dev.spacy "
        f"--output out{gpu_option}"
    )


def answer(given: str | None, question: str, default: str) -> str:
    """What an option says, or the user, or the default where there is nobody to ask."""
    if given is not None:
        return given
    return typer.prompt(question, default=default) if sys.stdin.isatty() else default


def encoder_of(name: str, lang: str) -> tuple[dict[str, Any], str | None]:
    """The model block of an encoder, and where its weights are, if not with the package."""
    if name != SHIPPED:
        folder = model_folder(Path(name))
        return model_block(load_model(folder)), str(folder.absolute())
    if lang != LANG:
        raise errors.CtxvecError(errors.SHIPPED_IS_ENGLISH.format(lang=lang, shipped=SHIPPED))
    return {**model_block(load_model(FOLDER / SHIPPED)), "init": SHIPPED}, None
