"""`spacy ctxvec convert`: whatever model there is, as a model folder or as a package."""

from __future__ import annotations

import re
import shutil
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import srsly
import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from thinc.api import Config

from .. import errors
from ..analysis.facts import file_facts, model_facts
from ..analysis.self_check import self_check
from ..formats.detect import is_native, load_model
from ..formats.elmo.vocabulary import find_vocabulary
from ..formats.native import (
    SOFTMAX_FILE,
    EncoderModel,
    load_softmax,
    save_native,
    save_softmax,
)
from ..formats.pickles import load_pickle
from ..formats.remote import fetched, is_remote, known_models, sha256_of
from ..formats.tensorflow.checkpoint import FAMILY as CHECKPOINT_FAMILY
from ..formats.tensorflow.checkpoint import find_checkpoint, read_tf_softmax
from ..formats.variants import aligned, warmed
from ..nn.adaptive_softmax import AnySoftmax
from ..text.lines import LineReader, Problems
from ..text.pair_tokenizing import SideTokenizer
from .export import BLOCKS, NOTES, Dtype, emptied, for_language
from .opening import model_block, pipeline_around

TOLERANCE = 1e-4  # of the self-check; rounding alone leaves some 1e-6
VERSION = "1.0.0"  # of a package
WARM_UP_SENTENCES, LONGEST = 2048, 256
# What a pickled numpy array of floats is made of.
NUMPY_GLOBALS: list[Any] = [
    np.ndarray, np.dtype, np.dtypes.Float32DType, np.dtypes.Float64DType,
    np.empty(0).__reduce__()[0],
]  # fmt: skip


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
    place = found_at(source, sha256)
    refuse_own_source(place, out)
    model = for_language(load_model(place), lang)
    if alignment:
        model = aligned(model, read_alignment(alignment))
    if warm_up:
        model = warmed(model, read_sentences(warm_up, model.info.get("lang", "xx")))
    report = {"source": source, **file_facts(largest_file(place)), **model_facts(model)}
    report["largest_difference"] = checked(model, source)
    precision = dtype.value if dtype else model.dtype
    if package:
        refuse_dtype(dtype)
        written = write_package(model, out, force)
    else:
        written = out
        with emptied(out, force) as new:
            report |= write_folder(model, place, new, precision)
            (new / BLOCKS).write_text(config_blocks(model, out), "utf8")
    report["out"] = str(written)
    if json:
        typer.echo(srsly.json_dumps(report))
    else:
        tell(report, is_package=package)


def refuse_dtype(dtype: Dtype | None) -> None:
    if dtype:
        words = {"option": "--dtype", "expected": "a model folder", "found": "--package"}
        raise errors.CtxvecError(errors.OTHER_OPTION.format(**words))


def found_at(source: str, sha256: str) -> Path:
    """Where the model lies, downloaded if need be; CtxvecError for a file with another checksum."""
    if is_remote(source):
        return downloaded(source, sha256)
    place = Path(source)
    if sha256:
        found = sha256_of(place) if place.is_file() else "none, since it is no file"
        if not found.startswith(sha256.lower()):
            message = errors.OTHER_CHECKSUM.format(path=place, found=found, expected=sha256)
            raise errors.CtxvecError(message)
    return place


def refuse_own_source(place: Path, out: Path) -> None:
    """Replacing OUT must not take the model away that is read, not even with --force."""
    home, target = (path.resolve() for path in (place, out))
    home = home if home.is_dir() else home.parent
    if target.exists() and (target == home or target in home.parents):
        raise errors.CtxvecError(errors.OUT_IS_SOURCE.format(path=out))


def read_alignment(path: Path) -> torch.Tensor:
    """The matrix in a file of `torch.save`, a tensor or a numpy array, or of `numpy.save`."""
    if path.suffix == ".npy":
        try:
            matrix: Any = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise errors.malformed_model(path, "content", "a numpy array", error) from error
    else:
        with torch.serialization.safe_globals(NUMPY_GLOBALS):
            matrix = load_pickle(path)
    if not isinstance(matrix, (np.ndarray, torch.Tensor)):
        raise errors.malformed_model(path, "content", "a matrix", type(matrix).__name__)
    return torch.as_tensor(matrix, dtype=torch.float32)


def read_sentences(path: Path, lang: str) -> list[list[str]]:
    """The first sentences of a text with a sentence a line, in words, none longer than a window."""
    try:
        tokenizer = SideTokenizer(lang, lower=False)
    except errors.CtxvecError:  # as `pipeline_around` does where spaCy does not know the language
        tokenizer = SideTokenizer("xx", lower=False)
    lines = islice(LineReader(path, Problems()), WARM_UP_SENTENCES)
    sentences = [words[:LONGEST] for words in map(tokenizer.words, lines) if words]
    if not sentences:
        raise errors.CtxvecError(errors.NO_SENTENCES.format(path=path))
    return sentences


def write_folder(model: EncoderModel, place: Path, folder: Path, precision: str) -> dict[str, Any]:
    """Write a model folder with the notes and the softmax that came with the model; what of the
    softmax is to be reported."""
    save_native(model, folder, dtype=precision)
    home = place if place.is_dir() else place.parent
    for note in NOTES:
        if is_native(place) and (home / note).is_file():
            shutil.copy(home / note, folder / note)
    try:
        softmax = softmax_of(model, place)
    except errors.CtxvecError as error:  # the encoder needs none
        return {"softmax_left_out": str(error)}
    if softmax is None:
        return {}
    save_softmax(*softmax, folder, dtype=precision)
    return {"softmax_words": len(softmax[1])}


def config_blocks(model: EncoderModel, folder: Path) -> str:
    """What a training config needs in order to use the model in `folder`."""
    block = model_block(model)
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(folder)}
    blocks = {
        "components": {"ctxvec": {"factory": "ctxvec", "model": block}},
        "initialize": {"components": {"ctxvec": {"loader": loader}}},
    }
    return Config(blocks).to_str(interpolate=False)


def softmax_of(model: EncoderModel, place: Path) -> tuple[AnySoftmax, list[str]] | None:
    """That of a model folder, or of a training's checkpoint with its vocabulary beside it."""
    if getattr(model.config, "aligned", False):
        return None  # it reads layers as they were
    if is_native(place):
        home = place if place.is_dir() else place.parent
        return load_softmax(home) if (home / SOFTMAX_FILE).is_file() else None
    index = find_checkpoint(place) if model.info.get("family") == CHECKPOINT_FAMILY else None
    vocabulary = find_vocabulary(index.parent) if index else None
    return read_tf_softmax(index, vocabulary) if index and vocabulary else None


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


def largest_file(place: Path) -> Path:
    """Of a folder, or of the files that a prefix means, the one that holds most of the weights."""
    if place.is_file():
        return place
    found = place.rglob("*") if place.is_dir() else place.parent.glob(f"{place.name}.*")
    return max((path for path in found if path.is_file()), key=lambda path: path.stat().st_size)


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
    name = re.sub(r"\W+", "_", str(model.info.get("name", ""))).strip("_").lower()
    name = name.removeprefix(f"{nlp.lang}_") or "ctxvec"
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
    if "softmax_left_out" in report:
        typer.echo(f"The softmax is left out: {report['softmax_left_out']}")
    if "softmax_words" in report:
        typer.echo(f"Softmax over {report['softmax_words']:,} words: for evaluate-lm and adapt")
    typer.echo(
        f"Self-check: largest difference to the plain equations {report['largest_difference']:.1e}"
    )
    kind = "Package, for pip install" if is_package else "Model folder"
    typer.echo(f"{kind}: {report['out']}")
    if not is_package:
        typer.echo(f"For a training config: the blocks in {Path(report['out']) / BLOCKS}")
