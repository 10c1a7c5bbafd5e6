"""`spacy ctxvec evaluate-lm`: how well a biLM predicts the words of a text."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import srsly
import typer

from ..text.building import build_corpus
from ..training.perplexity import evaluate
from ..training.pretrain import (
    LONGEST_HELDOUT,
    language_of,
    load_language_model,
    model_folder,
    problem_lines,
)

CAUTION = (
    "Perplexities of different vocabularies do not compare: the more words are unknown, the\n"
    "easier the task."
)


def evaluate_lm_cli(
    model: Annotated[Path, typer.Argument(help="Model folder with a softmax, or working folder")],
    text: Annotated[
        list[str], typer.Argument(help="Text files, patterns or folders; -: standard input")
    ],
    unit: Annotated[
        str, typer.Option("--unit", "-u", help="Read on its own: paragraph, sentence, document")
    ] = "paragraph",
    lang: Annotated[
        str | None, typer.Option("--lang", "-l", help="Language; default: that of the model")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Read the first so many tokens")
    ] = None,
    n_process: Annotated[
        int, typer.Option("--n-process", "-n", help="Processes that tokenise; -1: all cores")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Measure the perplexity of a biLM on text, over its full softmax, in both directions."""
    report = measure(model, text, unit=unit, lang=lang, max_tokens=max_tokens, n_process=n_process)
    typer.echo(srsly.json_dumps(report) if json else "\n".join(in_words(report)))


def measure(
    path: Path,
    text: list[str],
    *,
    unit: str = "paragraph",
    lang: str | None = None,
    max_tokens: int | None = None,
    n_process: int = 1,
) -> dict[str, Any]:
    """Perplexities (`training.perplexity.Perplexity`), and what they are of."""
    folder = model_folder(path)
    encoder, softmax, words = load_language_model(folder)
    lang = language_of(encoder, folder, lang)
    with TemporaryDirectory() as temporary:
        corpus = build_corpus(
            text, Path(temporary) / "corpus", lang=lang, unit=unit,
            max_tokens=LONGEST_HELDOUT, budget=max_tokens, n_process=n_process,
        )  # fmt: skip
        found = evaluate(encoder.build(), softmax, corpus.recoded(words), max_tokens)
    return {
        "model": str(folder),
        "name": encoder.info.get("name", folder.name),
        "n_words": softmax.n_words,
        "lang": lang,
        "unit": unit,
        **found.rounded(),
        "problems": problem_lines(corpus.meta),
    }


def in_words(report: dict[str, Any]) -> list[str]:
    """The report for the terminal, line by line."""
    directions = [
        f"{name:<12}{report[name]:>12,.2f}{report[f'{name}_marks']:>18,.2f}"
        for name in ("forward", "backward")
        if report[name] is not None
    ]
    return [
        f"Model: {report['name']} ({report['model']}), softmax over {report['n_words']:,} words",
        f"Text: {report['n_tokens']:,} tokens, a {report['unit']} at a time, "
        f"{report['unknown_rate']:.1%} of them unknown words",
        *report["problems"],
        "",
        f"{'perplexity':<12}{'words':>12}{'sentence marks':>18}",
        *directions,
        "",
        CAUTION,
    ]
