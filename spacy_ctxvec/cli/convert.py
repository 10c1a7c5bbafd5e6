"""`spacy ctxvec convert`: whatever model there is, as a model folder or as a package."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import srsly
import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from .. import errors
from ..analysis.facts import file_facts, model_facts
from ..analysis.self_check import self_check
from ..formats.detect import load_model
from ..formats.native import EncoderModel, save_native, save_softmax
from ..formats.pickles import load_pickle
from ..formats.remote import fetched, is_remote, known_models
from ..formats.tf_checkpoint import FAMILY as CHECKPOINT_FAMILY
from ..formats.tf_checkpoint import find_checkpoint, read_tf_softmax
from ..formats.vocabulary_file import find_vocabulary
from ..nn.adaptive_softmax import AnySoftmax
from ..nn.bilm import ALIGNMENT, BiLMConfig
from ..nn.boundary import boundary
from ..text.lines import LineReader, Problems
from ..text.pair_tokenizing import SideTokenizer
from .export import Dtype, emptied, for_language
from .opening import pipeline_around

TOLERANCE = 1e-4  # of the self-check; rounding alone leaves some 1e-6
VERSION = "1.0.0"  # of a package
WARM_UP_SENTENCES = 2048


def convert_cli(
    source: Annotated[
        str | None,
        typer.Argument(help="Folder, file, archive, https:// or hf:// address, or a public model"),
    ] = None,
    out: Annotated[Path | None, typer.Argument(help="Folder to write")] = None,
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language, where the model states none")
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option("--dtype", help="Of the weights; default: as they are")
    ] = None,
    alignment: Annotated[
        Path | None,
        typer.Option(
            "--alignment", dir_okay=False, help="Matrix (torch.save) that maps every layer"
        ),
    ] = None,
    warm_up: Annotated[
        Path | None,
        typer.Option(
            "--warm-up",
            dir_okay=False,
            help="Text, a sentence a line: its mean last state is what every text starts from",
        ),
    ] = None,
    package: Annotated[
        bool, typer.Option("--package", help="A Python package of a pipeline, for pip install")
    ] = False,
    sha256: Annotated[
        str, typer.Option("--sha256", help="Checksum of a downloaded file, or how it begins")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", "-F", help="Replace a model or pipeline in OUT")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Print the public models there are names for")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Convert any ELMo or CoVe model; say what it is, and check its vectors on the way."""
    if listed:
        print_known(json)
        return
    if source is None or out is None:
        raise errors.CtxvecError(errors.NOTHING_TO_CONVERT)
    place = downloaded(source, sha256) if is_remote(source) else Path(source)
    model = for_language(load_model(place), lang)
    model = aligned(model, alignment) if alignment else model
    model = warmed(model, warm_up) if warm_up else model
    report = {"source": source, **file_facts(largest_file(place)), **model_facts(model)}
    report["largest_difference"] = checked(model, source)
    written = write_package(model, out, force) if package else out
    if not package:
        with emptied(out, force) as new:
            precision = dtype.value if dtype else model.dtype
            save_native(model, new, dtype=precision)
            if softmax := checkpoint_softmax(model, place):
                save_softmax(*softmax, new, dtype=precision)
                report["softmax_words"] = len(softmax[1])
    report["out"] = str(written)
    if json:
        typer.echo(srsly.json_dumps(report))
    else:
        tell(report, is_package=package)


def aligned(model: EncoderModel, path: Path) -> EncoderModel:
    """The model with every layer mapped by the matrix (width, width) in a file.

    A mix is linear, so that mapping each layer is mapping the mix, as cross-lingual models do.
    """
    config, matrix = bilm_config(model, "--alignment"), load_pickle(path)
    expected = (config.width, config.width)
    found = tuple(matrix.shape) if isinstance(matrix, torch.Tensor) else type(matrix).__name__
    if found != expected:
        raise errors.malformed_model(path, "content", f"a matrix {expected}", found)
    weights = {**model.weights, ALIGNMENT: matrix.float()}
    return replace(model, config=replace(config, aligned=True), weights=weights)


def warmed(model: EncoderModel, text: Path) -> EncoderModel:
    """The model with a start state that is measured on some text."""
    config = bilm_config(model, "--warm-up")
    problems, tokenizer = Problems(), SideTokenizer(model.info.get("lang", "xx"), lower=False)
    lines = islice(LineReader(text, problems), WARM_UP_SENTENCES)
    sentences = [words for words in map(tokenizer.words, lines) if words]
    if not sentences:
        raise errors.CtxvecError(errors.NO_SENTENCES.format(path=text))
    weights = {**model.weights, **boundary(model.build(), sentences)}
    return replace(model, config=replace(config, warm=True), weights=weights)


def bilm_config(model: EncoderModel, option: str) -> BiLMConfig:
    if not isinstance(model.config, BiLMConfig):
        raise errors.CtxvecError(errors.FOR_BILMS.format(option=option))
    return model.config


def downloaded(name: str, sha256: str) -> Path:
    """The model at an address, with a bar on standard error while it comes."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=Console(stderr=True)) as bar:
        tasks: dict[str, Any] = {}

        def progress(file: str, done: int, total: int | None) -> None:
            if file not in tasks:
                tasks[file] = bar.add_task(file)
            bar.update(tasks[file], completed=done, total=total)

        return fetched(name, progress, sha256=sha256)


def checkpoint_softmax(model: EncoderModel, place: Path) -> tuple[AnySoftmax, list[str]] | None:
    """The softmax of a training's checkpoint, where the words that it predicts are beside it."""
    index = find_checkpoint(place) if model.info.get("family") == CHECKPOINT_FAMILY else None
    vocabulary = find_vocabulary(index.parent) if index else None
    return read_tf_softmax(index, vocabulary) if index and vocabulary else None


def largest_file(place: Path) -> Path:
    """Of a folder, the one that holds the weights, or most of them."""
    files = [path for path in place.rglob("*") if path.is_file()] or [place]
    return max(files, key=lambda path: path.stat().st_size)


def checked(model: EncoderModel, source: str) -> float:
    """How far the fast encoder's vectors are from those of the plain equations."""
    difference = self_check(model)
    if not difference < TOLERANCE:
        message = errors.SELF_CHECK_FAILED.format(
            source=source, found=difference, expected=TOLERANCE
        )
        raise errors.CtxvecError(message)
    return difference


def write_package(model: EncoderModel, out: Path, force: bool) -> Path:
    """Write a Python package of a pipeline with the encoder below `out`; the package's folder."""
    from spacy.cli.package import package

    nlp = pipeline_around(model)
    name = re.sub(r"\W+", "_", str(model.info.get("name", "ctxvec"))).strip("_") or "ctxvec"
    nlp.meta.update(name=name, version=VERSION, license=str(model.info.get("licence", "")))
    folder = out / f"{nlp.lang}_{name}-{VERSION}"
    if folder.exists() and not force:
        raise errors.CtxvecError(errors.OUT_IN_USE.format(path=folder, found="a package"))
    out.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as pipeline:
        nlp.to_disk(pipeline)
        has_build = find_spec("build") is not None
        package(Path(pipeline), out, create_sdist=False, create_wheel=has_build, force=force)
    return folder


def print_known(json: bool) -> None:
    known = known_models()
    if json:
        typer.echo(srsly.json_dumps(known))
        return
    for name, model in known.items():
        typer.echo(f"{name:16}{model['about']}")


def tell(report: dict[str, Any], *, is_package: bool) -> None:
    sizes = report["sizes"]
    typer.echo(
        f"Found: {report.get('family', 'a model of this package')}, "
        f"language {report.get('lang', 'not stated')}, {report['n_parameters']:,} parameters"
    )
    typer.echo("Sizes: " + ", ".join(f"{name} {value}" for name, value in sizes.items()))
    typer.echo(f"{report['file']}: {report['bytes']:,} bytes, sha256 {report['sha256']}")
    for name, value in report.get("assumed", {}).items():
        typer.echo(f"Assumed, since the files do not tell: {name} = {value}")
    for mix in report.get("mixes", []):
        weights = ", ".join(f"{weight:.4f}" for weight in mix["weights"])
        typer.echo(f"Learned mix, before the softmax: {weights}; gamma {mix['gamma']:.4f}")
    if "softmax_words" in report:
        typer.echo(f"Softmax over {report['softmax_words']:,} words: for evaluate-lm and adapt")
    typer.echo(
        f"Self-check: largest difference to the plain equations {report['largest_difference']:.1e}"
    )
    kind = "Package, for pip install" if is_package else "Model folder"
    typer.echo(f"{kind}: {report['out']}")
