"""What each layer of an encoder knows: word classes, relations, word senses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeAlias

import srsly
import typer
from spacy.language import Language
from spacy.tokens import Doc, Token
from spacy.training import Corpus

from .. import errors
from ..analysis.layer_weights import layer_name
from ..analysis.probing import Probe, linear_probe
from ..analysis.senses import SenseScores, read_senses, sense_scores
from ..layers.encoder import ensure_weights
from .opening import first_encoder, open_pipeline
from .options import Json

Model: TypeAlias = Annotated[
    str | None, typer.Option("--model", "-m", help="Pipeline or model; default: the shipped one")
]
Train: TypeAlias = Annotated[Path, typer.Argument(help=".spacy file to learn from")]
Test: TypeAlias = Annotated[Path, typer.Argument(help=".spacy file to be right on")]
MaxWords: TypeAlias = Annotated[
    int, typer.Option("--max-words", min=1, help="Of the training file, read so many words")
]
DEFAULT_WORDS = 50_000


def linear(about: str, label_of: Callable[[Token], str]) -> Callable[..., None]:
    """The command of a linear probe for one kind of labels."""

    def command(
        train: Train,
        test: Test,
        model: Model = None,
        max_words: MaxWords = DEFAULT_WORDS,
        json: Json = False,
    ) -> None:
        _show(_linear(train, test, model, max_words, label_of), json)

    command.__doc__ = f"{about}, by a linear classifier on each layer."
    return command


def wsd(
    train: Annotated[Path, typer.Argument(help="NAME.data.xml of Raganato et al., keys beside it")],
    test: Annotated[Path, typer.Argument(help="The same, to be right on")],
    model: Model = None,
    sentences: Annotated[
        int | None, typer.Option("--sentences", min=1, help="Read the first so many of each file")
    ] = None,
    json: Json = False,
) -> None:
    """Word senses, by the nearest mean of a sense on each layer."""
    encoder = first_encoder(open_pipeline(model)).model
    ensure_weights(encoder)
    learned, tested = (list(read_senses(path, sentences)) for path in (train, test))
    _show(sense_scores(encoder, learned, tested), json)


def _linear(
    train: Path, test: Path, model: str | None, max_words: int, label_of: Callable[[Token], str]
) -> Probe:
    nlp = open_pipeline(model)
    encoder = first_encoder(nlp).model
    ensure_weights(encoder)
    learned, tested = (_read_docs(path, nlp) for path in (train, test))
    return linear_probe(encoder, learned, tested, label_of, max_words=max_words)


def _read_docs(path: Path, nlp: Language) -> list[Doc]:
    if not path.exists():
        raise errors.CtxvecError(errors.NO_DOCS_PATH.format(path=path))
    return [example.reference for example in Corpus(path)(nlp)]


def _show(found: Probe | SenseScores, json: bool) -> None:
    if json:
        typer.echo(srsly.json_dumps(asdict(found), indent=2))
        return
    for layer, share in enumerate(found.layers):
        typer.echo(f"{layer_name(layer)}: {share:.1%}")
    kind = "sense" if isinstance(found, SenseScores) else "class"
    typer.echo(f"the most frequent {kind}: {found.most_frequent:.1%}")
    if isinstance(found, SenseScores):
        typer.echo(f"{found.covered:.1%} of the test words have lemmas that occur in training")
    typer.echo(f"{found.n_train:,} words to learn from, {found.n_test:,} to be right on")


probe_cli = {
    "pos": linear("Fine-grained word classes (token.tag_)", lambda token: token.tag_),
    "dep": linear("The relation of a word to its head (token.dep_)", lambda token: token.dep_),
    "wsd": wsd,
}
