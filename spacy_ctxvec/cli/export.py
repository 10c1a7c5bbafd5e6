"""`spacy ctxvec export`: a model as a folder, a pipeline for `spacy.load`, or a file for others."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import spacy
import srsly
import torch
import typer
from spacy.language import Language

from .. import errors
from ..formats.cove import pth_arrays
from ..formats.detect import load_model
from ..formats.efml import export as efml_export
from ..formats.efml.export import save_efml
from ..formats.elmo import export as elmo_export
from ..formats.elmo.export import MADE_WITH, save_bilm_hdf5, save_token_vectors
from ..formats.elmo.vocabulary import read_words
from ..formats.native import (
    CONFIG_FILE,
    SOFTMAX_FILE,
    VECTORS_FILE,
    VOCABULARY_FILE,
    WEIGHTS_FILE,
    EncoderModel,
    load_softmax,
    read_json_object,
    replace_file,
    save_native,
    save_softmax,
)
from ..layers.encoder import ensure_weights, shim_of
from ..layers.static_words import StaticWords
from ..nn.architectures import architecture_of
from ..nn.mtlstm import MTLSTMConfig
from ..training.curve import CURVE
from ..training.pretrain import model_folder
from .opening import first_encoder, is_pipeline, open_pipeline

NOTES = ("README.md", "LICENSE", CURVE)  # of a model folder; its weights are not to go without them
BLOCKS = "component.cfg"  # what a training config needs to use a model folder
PIPELINE_FILES = ("config.cfg", "meta.json", "tokenizer", "vocab")


class Format(str, Enum):
    native = "native"
    spacy = "spacy"
    hdf5 = "hdf5"
    efml = "efml"
    pth = "pth"
    tokens = "tokens"


KINDS = {
    Format.native: "Model folder",
    Format.spacy: "Pipeline",
    Format.hdf5: "Options and HDF5 file",
    Format.efml: "Folder of ELMoForManyLangs",
    Format.pth: "PyTorch file",
    Format.tokens: "Token vectors",
}
WRITERS = {Format.hdf5: save_bilm_hdf5, Format.efml: save_efml}
MEANT_FOR = {
    "--words": (Format.tokens, Format.spacy),
    "--dtype": (Format.native,),
    "--lang": (Format.native, Format.spacy),
    "--with-softmax": (Format.native,),
}
"""The formats of options that not all of them have."""


class Dtype(str, Enum):
    float16 = "float16"
    float32 = "float32"


def export_cli(
    model: Annotated[str, typer.Argument(help="Model, working folder or saved pipeline")],
    out: Annotated[Path, typer.Argument(help="Folder to write; of pth and tokens, the file")],
    form: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="Model folder; pipeline for spacy.load; for AllenNLP, flair, simple_elmo (hdf5); "
            "for ELMoForManyLangs (efml); CoVe's weights as an LSTM of PyTorch (pth); "
            "a table of the token layer of --words (tokens)",
        ),
    ] = Format.native,
    words: Annotated[
        Path | None,
        typer.Option(
            "--words",
            dir_okay=False,
            help="A word a line: those of --format tokens; of --format spacy, words whose token "
            "layer is saved with the pipeline, so that it need not compute it",
        ),
    ] = None,
    dtype: Annotated[
        Dtype | None, typer.Option("--dtype", help="Of the weights; default: as they are")
    ] = None,
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language; default: that of the model")
    ] = None,
    with_softmax: Annotated[
        bool, typer.Option("--with-softmax", help="The softmax too: to evaluate and to adapt")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", "-F", help="Replace a model or pipeline in OUT")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Write the encoder of a model or pipeline in another form."""
    refuse_other_options(
        form, {"--words": words, "--dtype": dtype, "--lang": lang, "--with-softmax": with_softmax}
    )
    if form is Format.native:
        export_native(model, out, dtype and dtype.value, lang, with_softmax, force)
    elif form is Format.spacy:
        export_pipeline(model, out, lang, words, force)
    elif form in (Format.pth, Format.tokens):
        export_file(model, out, form, words, force)
    else:
        _, encoder = opened(model)
        with emptied(out, force) as new:
            WRITERS[form](encoder, new)
    files = [out] if out.is_file() else sorted(path for path in out.rglob("*") if path.is_file())
    n_bytes = sum(path.stat().st_size for path in files)
    if json:
        names = [path.relative_to(out if out.is_dir() else out.parent).as_posix() for path in files]
        record = {"out": str(out), "format": form.value, "files": names, "bytes": n_bytes}
        typer.echo(srsly.json_dumps(record))
    else:
        n_files = f"{len(files)} files, " if out.is_dir() else ""
        typer.echo(f"{KINDS[form]}: {out} ({n_files}{n_bytes / 1e6:.1f} MB)")


def export_native(
    name: str, out: Path, dtype: str | None, lang: str | None, with_softmax: bool, force: bool
) -> None:
    """Write a model folder, with the card and licence of the folder it comes from, if there is one.

    dtype: of the weights; None leaves them as they are
    """
    source, model = opened(name)
    if source is None and with_softmax:
        raise errors.CtxvecError(errors.NO_SOFTMAX_IN_PIPELINE.format(path=name))
    dtype = dtype or model.dtype
    softmax = load_softmax(source) if source and with_softmax else None
    with emptied(out, force) as new:
        save_native(for_language(model, lang), new, dtype=dtype)
        for note in NOTES:
            if source and (source / note).is_file():
                shutil.copy(source / note, new / note)
        if softmax:
            save_softmax(*softmax, new, dtype=dtype)


def export_pipeline(
    name: str, out: Path, lang: str | None, words: Path | None, force: bool
) -> None:
    """Write a pipeline of a tokeniser and the encoder; of a pipeline, its first encoder alone."""
    nlp = open_pipeline(name)
    component = first_encoder(nlp)
    model = for_language(encoder_of(nlp), lang)
    shim = shim_of(component.model)
    shim.adopt(shim.source, replace(model, vectors=shim.inputs.table))
    if words is not None:
        component.keep_words(read_words(words))
    alone = blank(lang or str(nlp.lang))
    if isinstance(shim.inputs, StaticWords) and shim.inputs.table is None:
        alone.vocab.vectors = nlp.vocab.vectors  # its words are looked up there
    alone.add_pipe(component.name, source=nlp)
    alone.meta["name"] = model.info.get("name", nlp.meta["name"])
    alone.meta["license"] = model.info.get("licence", "")
    with emptied(out, force) as new:
        alone.to_disk(new)


def export_file(name: str, out: Path, form: Format, words: Path | None, force: bool) -> None:
    """Write an MT-LSTM as the published file of CoVe, or a biLM's vectors of some words."""
    if out.is_dir() or (out.exists() and not force):
        raise errors.CtxvecError(errors.FILE_IN_USE.format(path=out))
    _, model = opened(name)
    if form is Format.tokens:
        if words is None:
            raise errors.CtxvecError(errors.NO_WORDS_FILE)
        save_token_vectors(model, words, out)
        return
    if not isinstance(model.config, MTLSTMConfig):
        found = errors.KINDS[architecture_of(model.config)]
        raise errors.CtxvecError(errors.NOT_AN_MTLSTM.format(path=name, found=found))
    data = io.BytesIO()
    torch.save(pth_arrays(model), data)
    out.parent.mkdir(parents=True, exist_ok=True)
    replace_file(out, data.getvalue())


def opened(name: str) -> tuple[Path | None, EncoderModel]:
    """The model folder of that name and its model; no folder, and the encoder, of a pipeline."""
    if is_pipeline(name):
        return None, encoder_of(open_pipeline(name))
    source = model_folder(Path(name))
    return source, load_model(source)


def encoder_of(nlp: Language) -> EncoderModel:
    """The first encoder of a pipeline, outside it; the pipeline's language where it names none."""
    component = first_encoder(nlp)
    shim = ensure_weights(component.model, component.name)
    info = {"lang": nlp.lang, **shim.info}
    weights = dict(shim.module.state_dict())
    # Words that a biLM keeps have no place in other forms: they would not follow `dtype`.
    vectors = shim.inputs.table if isinstance(shim.inputs, StaticWords) else None
    return EncoderModel(shim.module.config, weights, info, vectors)


def blank(lang: str) -> Language:
    """`spacy.blank`, with a plain message for a language that there is not."""
    try:
        return spacy.blank(lang)
    except ImportError as error:
        message = errors.NO_LANGUAGE.format(found=lang, error=error)
        raise errors.CtxvecError(message) from error


def for_language(model: EncoderModel, lang: str | None) -> EncoderModel:
    """The model with `lang`, where one is given, as its language."""
    return replace(model, info={**model.info, "lang": lang}) if lang else model


def refuse_other_options(form: Format, options: Mapping[str, object]) -> None:
    """CtxvecError for one that was given and would be ignored."""
    for option, given in options.items():
        if given and form not in MEANT_FOR[option]:
            expected = "--format " + " or ".join(known.value for known in MEANT_FOR[option])
            words = {"option": option, "expected": expected, "found": form.value}
            raise errors.CtxvecError(errors.OTHER_OPTION.format(**words))


@contextmanager
def emptied(out: Path, force: bool) -> Iterator[Path]:
    """A new folder, which takes the place of `out` if nothing fails.

    CtxvecError where `out` holds something: with `force`, other than a model or a pipeline.
    """
    _refuse_other_content(out, force)
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=out.parent) as beside:
        new = Path(beside) / out.name
        new.mkdir()
        yield new
        if out.exists():
            shutil.rmtree(out)
        new.rename(out)


def _refuse_other_content(out: Path, force: bool) -> None:
    found = [path.name for path in sorted(out.iterdir())] if out.is_dir() else []
    if not found and not out.is_file():
        return
    if not force:
        listed = ", ".join(found[:5]) + ", ..." * bool(found[5:]) or "a file"
        raise errors.CtxvecError(errors.OUT_IN_USE.format(path=out, found=listed))
    other = sorted(set(found) - _own_names(out)) or ["a file"] * out.is_file()
    if other:
        raise errors.CtxvecError(errors.OUT_IS_OTHER.format(path=out, found=other[0]))


def _own_names(out: Path) -> set[str]:
    """Names of what `out` may hold as a pipeline or a model that this package has written."""
    if is_pipeline(str(out)):
        meta = read_json_object(out / "meta.json")
        components = [*meta.get("components", []), *meta.get("disabled", [])]
        return {*NOTES, *PIPELINE_FILES, *components}
    if (out / CONFIG_FILE).is_file() and "architecture" in read_json_object(out / CONFIG_FILE):
        weights = (WEIGHTS_FILE, VECTORS_FILE, SOFTMAX_FILE, VOCABULARY_FILE)
        return {*NOTES, BLOCKS, CONFIG_FILE, *weights}
    for files, marked in (
        (elmo_export.FILES, elmo_export.OPTIONS),
        (efml_export.FILES, CONFIG_FILE),
    ):
        if (out / marked).is_file() and MADE_WITH in read_json_object(out / marked):
            return set(files)
    return set()
