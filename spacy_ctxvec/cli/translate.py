"""`spacy ctxvec translate`: lines in, their translations out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, TextIO

import srsly
import typer
from rich.console import Console

from .. import errors
from ..analysis.attention_page import write_attention_page
from ..formats.translator import TranslationModel, load_translation_model
from ..nn.beam import SearchSettings
from ..text.lines import LineReader, Problems
from ..text.pair_tokenizing import SideTokenizer
from ..training.pretrain import model_folder, problem_lines
from ..training.train_nmt import read_vectors
from ..training.translating import Translation, translations

LINES = 1024  # read and translated together
MAX_ON_PAGE = 200
MAX_BAD_SHARE = 0.5  # of lines: of more, the text is in another encoding


def translate_cli(
    model: Annotated[Path, typer.Argument(help="Model or working folder of train-nmt")],
    text: Annotated[
        Path,
        typer.Argument(help="File with a sentence a line, compressed or not; `-`: standard input"),
    ] = Path("-"),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", dir_okay=False, help="Default: standard output")
    ] = None,
    vectors: Annotated[
        str | None,
        typer.Option("--vectors", help="Pipeline with vectors; default: those in the model folder"),
    ] = None,
    beam: Annotated[int, typer.Option("--beam", "-b", min=1, help="Width; 1: greedy")] = 5,
    max_length: Annotated[int, typer.Option(min=1, help="Words, or pieces, at most")] = 100,
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
    """Translate text, a sentence a line, with a model of `spacy ctxvec train-nmt`.

    Line n of the output belongs to line n of the text; it is empty where that is, or where that
    cannot be read.
    """
    found = load_translation_model(model_folder(model))
    search = SearchSettings(beam, max_length, length_penalty=length_penalty)
    console, problems = Console(stderr=True), Problems()
    reader = LineReader(text, problems, max_bad_share=MAX_BAD_SHARE)
    lines = (line or "" for line in reader.in_place())
    results = translated(found, lines, vectors, search, copy_unknown=not keep_unknown)
    kept: list[Translation] = []
    with _written(output) as out, _counted(results, console, shown=output is not None) as counted:
        for translation in counted:
            line = srsly.json_dumps(_record(translation)) if json else " ".join(translation.words)
            out.write(f"{line}\n")
            if show_attention and len(kept) < MAX_ON_PAGE:
                kept.append(translation)
    for line in problem_lines({"problems": problems.as_dict()}):
        console.print(f"{text}: {line}", markup=False, highlight=False)
    if show_attention:
        write_attention_page(kept, show_attention)
        console.print(f"Attention: {show_attention}", markup=False)


@contextmanager
def _counted(
    results: Iterable[Translation], console: Console, *, shown: bool
) -> Iterator[Iterator[Translation]]:
    """The results; on a terminal, with a line that tells how many there have been."""
    with console.status("Translating") if shown else nullcontext() as status:

        def counted() -> Iterator[Translation]:
            for n, result in enumerate(results, start=1):
                yield result
                if status:
                    status.update(f"Translating: {n:,} sentences")

        yield counted()


@contextmanager
def _written(path: Path | None) -> Iterator[TextIO]:
    """A file that takes the name `path` when it is whole; standard output for None."""
    if path is None:
        yield sys.stdout
        return
    path.parent.mkdir(parents=True, exist_ok=True)
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
    tokenizer = SideTokenizer(model.settings["source_lang"], model.settings["lower"])
    while chunk := list(islice(lines, LINES)):
        tokenizer.start_if_full()
        yield from translations(
            model.translator,
            model.words,
            list(map(tokenizer.words, chunk)),
            table,
            search,
            copy_unknown=copy_unknown,
        )


def _record(translation: Translation) -> dict[str, object]:
    return {
        "source": translation.source,
        "translation": translation.words,
        "score": round(translation.score, 4),
    }
