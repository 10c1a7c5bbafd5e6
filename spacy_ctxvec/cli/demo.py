"""`spacy ctxvec demo`: what contextual means, shown on a text of the user's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import srsly
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from spacy.tokens import Span
from spacy.util import is_package

from .. import errors
from ..analysis.facts import machine_facts
from ..analysis.neighbours import SameWord, WordVectors
from ..analysis.overview import (
    Nearest,
    Overview,
    as_data,
    entities,
    in_context,
    look_at,
    split_paragraphs,
)
from ..analysis.pages import write_page
from ..assets import FOLDER
from .opening import first_encoder, load_pipeline, open_pipeline

PIPELINE = "en_ctxvec_sm"
SAMPLE = "the sample page"
STANDARD_INPUT = "standard input"
N_PRINTED = 4
N_NEAREST_PRINTED = 3
N_ENTITIES_PRINTED = 6
SENTENCE_WIDTH = 40


def demo_cli(
    file: Annotated[
        str | None,
        typer.Argument(help="Text file, or - for standard input; default: a sample page"),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Page to write")] = Path(
        "demo.html"
    ),
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help=f"Saved pipeline or model; default: {PIPELINE} if installed, else the shipped one",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=2, help="Most tokens to read")] = 5_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show how the vectors of a word change with its sentence, in the terminal and as a page."""
    source, text = read_text(file)
    installed = model is None and is_package(PIPELINE)
    nlp = load_pipeline(PIPELINE) if installed else open_pipeline(model)
    overview = look_at(nlp, first_encoder(nlp), split_paragraphs(text), source, limit)
    try:
        write_page(overview, machine_facts(), output)
    except OSError as error:
        message = errors.CANNOT_WRITE.format(path=output, error=error.strerror)
        raise errors.CtxvecError(message) from error
    if json:
        typer.echo(srsly.json_dumps({**as_data(overview), "page": str(output)}))
    else:
        show(overview, output)


def read_text(file: str | None) -> tuple[str, str]:
    """What the text is called, and the text."""
    if file is None:
        return SAMPLE, (FOLDER / "demo.txt").read_text(encoding="utf8")
    if file == "-":
        return STANDARD_INPUT, _decoded(STANDARD_INPUT, sys.stdin.buffer.read())
    path = Path(file)
    if not path.is_file():
        raise errors.CtxvecError(errors.DEMO_NO_FILE.format(path=path))
    try:
        return path.name, _decoded(file, path.read_bytes())
    except OSError as error:
        message = errors.DEMO_NOT_TEXT.format(source=file, error=error.strerror)
        raise errors.CtxvecError(message) from error


def _decoded(source: str, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        message = errors.DEMO_NOT_TEXT.format(source=source, error=error)
        raise errors.CtxvecError(message) from error


def show(overview: Overview, page: Path) -> None:
    """The page in short, for the terminal. All text goes in as `Text`: it may look like markup."""
    console = Console(highlight=False)
    words = overview.words
    if overview.same_words:
        console.print("The same word in different sentences", style="bold")
        console.print("Cosines; a table of word vectors would say 1.00 everywhere.", style="dim")
    for word in overview.same_words[:N_PRINTED]:
        console.print()
        console.print(_similarity_table(words, word))
    found = entities(overview.annotated)
    if found:
        console.print("\nNamed entities", style="bold")
        console.print(_entity_table(found[:N_ENTITIES_PRINTED]))
    console.print("\nNearest other words", style="bold")
    console.print(_nearest_table(words, overview.nearest[: 2 * N_PRINTED]))
    console.print(f"\n{_speed_line(overview)}", markup=False)
    console.print(f"Page: {page}", markup=False, soft_wrap=True)


def _speed_line(overview: Overview) -> str:
    speed = overview.speed
    threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
    return (
        f"{len(overview.words):,} words read from {overview.source}. Speed, tokeniser included: "
        f"{speed.words_per_second:,.0f} words a second on {threads}, over {speed.n_words:,} words "
        "after a warm-up."
    )


def _similarity_table(words: WordVectors, word: SameWord) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column(Text(""), no_wrap=True)
    table.add_column(Text(word.text, style="bold"), no_wrap=True, min_width=SENTENCE_WIDTH)
    for place in range(len(word.rows)):
        table.add_column(Text(f"{place + 1}"), justify="right", no_wrap=True)
    others = word.similarities[~np.eye(len(word.rows), dtype=bool)]
    for i, row in enumerate(word.rows):
        cells = [
            Text("·", style="dim") if i == j else _warm(float(s), others)
            for j, s in enumerate(word.similarities[i])
        ]
        group = "cyan" if i < word.n_first else "magenta"
        sentence = _marked(words, row, SENTENCE_WIDTH)
        table.add_row(Text(f"{i + 1}", style=group), sentence, *cells)
    return table


def _warm(similarity: float, others: np.ndarray) -> Text:
    """A number in red for the nearest third of its table, yellow for the next."""
    low, high = float(others.min()), float(others.max())
    third = int(3 * (similarity - low) / max(high - low, 1e-6) * 0.999)
    return Text(f"{similarity:.2f}", style=("dim", "yellow", "bold red")[third])


def _marked(words: WordVectors, row: int, width: int) -> Text:
    before, token, after = in_context(words.tokens[row], width)
    return Text.assemble(before, (token, "bold"), after)


def _entity_table(found: Sequence[Span]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for entity in found:
        before, token, after = in_context(entity[-1], SENTENCE_WIDTH)
        sentence = Text.assemble(before, (token, "bold"), after)
        table.add_row(Text(entity.label_, style="cyan"), Text(entity.text, style="bold"), sentence)
    return table


def _nearest_table(words: WordVectors, nearest: Sequence[Nearest]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True, min_width=SENTENCE_WIDTH)
    table.add_column()
    for one in nearest:
        found = [f"{words.tokens[n.row].text} {n.similarity:.2f}" for n in one.neighbours]
        marked = _marked(words, one.row, SENTENCE_WIDTH)
        table.add_row(marked, Text(", ".join(found[:N_NEAREST_PRINTED])))
    return table
