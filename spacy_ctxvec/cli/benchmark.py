"""`spacy ctxvec benchmark`: the speed of an encoder on this machine."""

from __future__ import annotations

from typing import Annotated, Any

import spacy
import srsly
import torch
import typer
from rich.console import Console
from rich.table import Table

from .. import errors
from ..analysis.benchmark import COLD, HASH_EMBED_CNN, LIBRARY_LSTM, measure
from ..analysis.overview import split_paragraphs
from ..layers.encoder import ensure_weights
from .demo import read_text
from .opening import first_encoder, open_pipeline
from .options import Json

ABOUT = {
    COLD: "as float32, every word's spelling read anew in each pass",
    HASH_EMBED_CNN: "width 96, depth 4: the encoder of spaCy's small pipelines",
    LIBRARY_LSTM: "LSTMs of the same sizes alone: no characters, clips or skip connections",
}


def benchmark_cli(
    model: Annotated[
        str | None,
        typer.Argument(help="Model or pipeline with a ctxvec; default: the shipped model"),
    ] = None,
    text: Annotated[
        str | None, typer.Option("--text", "-t", help="Plain text; default: the sample of `demo`")
    ] = None,
    words: Annotated[int, typer.Option("--words", min=100, help="Words in each pass")] = 5000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Timed passes, each system")] = 5,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Of PyTorch; default: as it finds best")
    ] = None,
    json: Json = False,
) -> None:
    """Measure words a second and latency of an encoder, beside other encoders, in one run.

    Close other programs first: a busy second core makes everything slower, and not alike.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    encoder = first_encoder(open_pipeline(model)).model
    ensure_weights(encoder)
    found = measure(encoder, sentences_of(text), rounds=rounds, n_words=words)
    if json:
        typer.echo(srsly.json_dumps(found, indent=2))
        return
    show(found)


def sentences_of(path: str | None) -> list[list[str]]:
    """The words of each sentence of a text."""
    source, text = read_text(path)
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    docs = nlp.pipe(split_paragraphs(text))
    found = [[t.text for t in s if not t.is_space] for doc in docs for s in doc.sents]
    if not any(found):
        raise errors.CtxvecError(errors.NO_WORDS_TO_TIME.format(source=source))
    return found


def show(found: dict[str, Any]) -> None:
    console = Console(highlight=False)
    machine = found["machine"]
    console.print(
        f"{machine['processor']}, {machine['threads']} threads, torch {machine['torch']}, spaCy "
        f"{machine['spacy']}. {found['words']:,} words in {found['docs']:,} docs, median of "
        f"{found['rounds']} passes after a warm-up, systems taking turns.",
        markup=False,
    )
    console.print("\nWords a second, by docs a batch", style="bold")
    console.print(_speeds(found["batch_sizes"]))
    for name, about in ABOUT.items():
        console.print(f"{name}: {about}", style="dim", markup=False)
    console.print("\nWords a second, by words a doc", style="bold")
    lengths = {n: f"{speed['median']:,.0f}" for n, speed in found["lengths"].items()}
    console.print(", ".join(f"{n}: {speed}" for n, speed in lengths.items()))
    latency = found["latency"]
    console.print(
        f"\nOne doc of {latency['words']} words: {latency['p50']:.1f} ms (p50), "
        f"{latency['p95']:.1f} ms (p95)"
    )
    for precision, difference in found["differences"].items():
        console.print(f"{precision}: layers differ from those of float32 by {difference:.2%}")
    for n, share in found["lstms"].items():
        console.print(
            f"LSTM layers, {n} docs a batch: {share['gflop_per_second']:.0f} GFLOP/s, "
            f"{share['share']:.0%} of what their matrix products alone reach"
        )
    if found["peak_memory_mb"]:
        console.print(f"Most memory of the process: {found['peak_memory_mb']:,} MB")


def _speeds(by_batch: dict[int, dict[str, dict[str, float]]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column()
    for n in by_batch:
        table.add_column(str(n), justify="right")
    for name in next(iter(by_batch.values())):
        table.add_row(name, *(f"{found[name]['median']:,.0f}" for found in by_batch.values()))
    return table
