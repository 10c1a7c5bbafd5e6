"""`spacy ctxvec translate`: lines in, their translations out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Annotated, TextIO

import srsly
import typer
from rich.console import Console
from spacy.tokens import Doc

from .. import errors
from ..analysis.attention_page import write_attention_page
from ..formats.translator import TranslationModel, load_translation_model
from ..nn.beam import SearchSettings
from ..text.tokenizing import blank_pipeline
from ..training.pretrain import model_folder
from ..training.train_nmt import read_vectors
from ..training.translating import Translation, translations

LINES = 1024  # read and translated together
MAX_ON_PAGE = 200


def translate_cli(
    model: Annotated[Path, typer.Argument(help="Model or working folder of train-nmt")],
    text: Annotated[
        Path, typer.Argument(help="File with a sentence a line; `-`: standard input")
    ] = Path("-"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Default: standard output")
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Pipeline with vectors; default: those in the model folder"),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", "-b", min=1, help="Width; 1: greedy")] = 5,
    max_length: Annotated[int, typer.Option(min=1, help="Words of a translation at most")] = 100,
    length_penalty: Annotated[
        float, typer.Option(min=0.0, help="0: none; more favours longer translations")
    ] = 1.0,
    keep_unknown: Annotated[
        bool, typer.Option("--keep-unknown", help="Leave <UNK> instead of copying a source word")
    ] = False,
    show_attention: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Page of what each word was made looking at"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON record a line")] = False,
) -> None:
    """Translate text, a sentence a line, with a model of `spacy ctxvec train-nmt`."""
    found = load_translation_model(model_folder(model))
    search = SearchSettings(beam, max_length, length_penalty=length_penalty)
    kept: list[Translation] = []
    results = translated(found, _lines(text), vectors, search, copy_unknown=not keep_unknown)
    with _written(output) as out:
        for translation in results:
            line = srsly.json_dumps(_record(translation)) if json else " ".join(translation.words)
            out.write(f"{line}\n")
            if show_attention and len(kept) < MAX_ON_PAGE:
                kept.append(translation)
    if show_attention:
        write_attention_page(kept, show_attention)
        Console(stderr=True).print(f"Attention: {show_attention}", markup=False)


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """A file that takes the name `path` when it is whole; standard output for None."""
    if path is None:
        yield sys.stdout
        return
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("w", encoding="utf8") as file:
            yield file
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def translated(
    model: TranslationModel,
    lines: Iterator[str],
    vectors: str | None,
    search: SearchSettings,
    *,
    copy_unknown: bool,
) -> Iterator[Translation]:
    """The translation of each line, in order."""
    table = read_vectors(vectors) if vectors else model.encoder.vectors
    if table is None:
        raise errors.CtxvecError(errors.NO_TRANSLATOR_VECTORS)
    nlp = blank_pipeline(model.settings["source_lang"])
    while chunk := list(islice(lines, LINES)):
        sentences = [_words(nlp.make_doc(line), model.settings["lower"]) for line in chunk]
        yield from translations(
            model.translator,
            model.words,
            sentences,
            table,
            search,
            copy_unknown=copy_unknown,
        )


def _words(doc: Doc, lower: bool) -> list[str]:
    return [token.lower_ if lower else token.text for token in doc if not token.is_space]


def _lines(path: Path) -> Iterator[str]:
    if str(path) == "-":
        yield from (line.rstrip("\n") for line in sys.stdin)
        return
    try:
        with path.open(encoding="utf8") as file:
            yield from (line.rstrip("\n") for line in file)
    except (OSError, UnicodeDecodeError) as error:
        raise errors.CtxvecError(errors.UNREADABLE_TEXT.format(path=path, error=error)) from error


def _record(translation: Translation) -> dict[str, object]:
    return {
        "source": translation.source,
        "translation": translation.words,
        "score": round(translation.score, 4),
    }
