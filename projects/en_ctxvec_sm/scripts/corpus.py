"""The text of the pipeline as `.spacy` files: a treebank, and two sets of named entities.

Each has what the other lacks, and what it lacks is marked as missing, so that nobody learns from
it: words of the treebank are no entities of an unknown kind, but words of which nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import spacy
import typer

# isort: split
from conll import Sentence, read_conll
from console import run_script
from convert import to_doc
from spacy.tokens import Doc, DocBin
from spacy.training.converters import conllu_to_docs
from treebank import PARTS, find_part

SENTENCES = 10  # in a Doc of the treebank, so that the parser learns where one ends
LABELS = {
    "person": "PER", "location": "LOC", "corporation": "ORG", "group": "ORG",
    "product": "MISC", "creative-work": "MISC",
}  # fmt: skip
"""What WNUT-17 tells apart, in the classes of WikiGold."""


def main(
    assets: Annotated[Path, typer.Argument(help="Folder with ewt, wikigold and wnut17")],
    output: Annotated[Path, typer.Argument(help="Where the .spacy files go")],
) -> None:
    """Write OUTPUT/{train,dev,test}/{ewt,wikigold,wnut17}.spacy."""
    for part in PARTS:
        write(treebank_docs(find_part(assets / "ewt", part)), output / part / "ewt.spacy")
        for name in ("wikigold", "wnut17"):
            sentences = read_conll(assets / name / f"{part}.conll")
            write(entity_docs(sentences), output / part / f"{name}.spacy")


def treebank_docs(path: Path) -> Iterable[Doc]:
    for doc in conllu_to_docs(path.read_text(encoding="utf-8"), n_sents=SENTENCES, no_print=True):
        doc.set_ents([], default="missing")
        yield doc


def entity_docs(sentences: Iterable[Sentence]) -> Iterable[Doc]:
    vocab = spacy.blank("en").vocab
    for sentence in sentences:
        entities = [
            (start, end, LABELS.get(label, label)) for start, end, label in sentence.entities
        ]
        yield to_doc(vocab, Sentence(sentence.words, tuple(entities), sentence.document))


def write(docs: Iterable[Doc], path: Path) -> None:
    found: Sequence[Doc] = list(docs)
    path.parent.mkdir(parents=True, exist_ok=True)
    DocBin(docs=found, store_user_data=False).to_disk(path)
    typer.echo(f"{path}: {len(found):,} docs, {sum(map(len, found)):,} words")


if __name__ == "__main__":
    run_script(main)
