"""Convert the corpora to `.spacy` files: one Doc per sentence, a space between any two tokens.

Writes `CORPUS/FOLD/{train,dev,test}.spacy` and `test_units.json`, the document of each test
sentence: sentences of one document are not independent, so the bootstrap draws documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import spacy
import srsly
import typer
from cells import read_json
from conll import Sentence, has_document_marks, read_conll
from console import run_script
from folds import Split, document_folds, number_documents, split_fold
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_ctxvec.errors import CtxvecError

PARTS = ("train", "dev", "test")
PROJECT = Path(__file__).resolve().parent.parent


def main(
    assets: Annotated[Path, typer.Argument(help="Folder with one folder per corpus")],
    output: Annotated[Path, typer.Argument(help="Where the .spacy files go")],
    n_folds: Annotated[int, typer.Option(help="WikiGold: number of folds")] = 5,
    dev_share: Annotated[
        float, typer.Option(help="WikiGold: share of the training sentences for dev")
    ] = 0.12,
) -> None:
    """Convert every corpus that the project uses."""
    wikigold = read_wikigold(assets / "wikigold", PROJECT / "wikigold_documents.json")
    for fold, test in enumerate(document_folds(wikigold, n_folds)):
        write_split(split_fold(wikigold, test, dev_share), output / "wikigold" / str(fold))
    write_split(read_wnut17(assets / "wnut17"), output / "wnut17" / "0")


def read_wikigold(folder: Path, documents: Path) -> list[Sentence]:
    """Read all of WikiGold as one corpus, whatever parts it comes in, documents numbered.

    folder (Path): Either `train.conll`, `dev.conll` and `test.conll`, whose documents the list in
        `documents` names, or the original `wikigold.conll.txt`, which marks them itself.
    documents (Path): First sentence of each document, per part.
    RETURNS (list[Sentence]): The sentences.
    """
    original = folder / "wikigold.conll.txt"
    if original.is_file():
        return read_conll(original)
    starts = read_json(documents)
    corpus: list[Sentence] = []
    for part in PARTS:
        path = folder / f"{part}.conll"
        sentences = read_conll(path)
        if not has_document_marks(path):
            sentences = number_documents(sentences, starts[part])
        corpus.extend(_renumbered(sentences, first=corpus[-1].document + 1 if corpus else 0))
    return corpus


def read_wnut17(folder: Path) -> Split:
    """Read WNUT-17 in its own split; each message is a document of its own."""
    parts = [read_conll(folder / f"{part}.conll") for part in PARTS]
    train, dev, test = (
        [Sentence(s.words, s.entities, i) for i, s in enumerate(sentences)] for sentences in parts
    )
    return Split(train, dev, test)


def to_doc(vocab: Vocab, sentence: Sentence) -> Doc:
    """Make a Doc with a space after every token and the entities set."""
    doc = Doc(vocab, words=list(sentence.words), spaces=[True] * len(sentence.words))
    doc.ents = [Span(doc, start, end, label=label) for start, end, label in sentence.entities]
    return doc


def write_split(split: Split, folder: Path) -> None:
    """Write one fold."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab = spacy.blank("en").vocab
    for part in PARTS:
        sentences: Sequence[Sentence] = getattr(split, part)
        if not sentences:
            raise CtxvecError(
                f"No sentences for {folder / part}: use fewer folds or a larger dev share."
            )
        DocBin(docs=[to_doc(vocab, s) for s in sentences]).to_disk(folder / f"{part}.spacy")
        entities = sum(len(s.entities) for s in sentences)
        typer.echo(f"{folder / part}: {len(sentences)} sentences, {entities} entities")
    srsly.write_json(folder / "test_units.json", [s.document for s in split.test])


def _renumbered(sentences: Sequence[Sentence], first: int) -> list[Sentence]:
    return [Sentence(s.words, s.entities, first + s.document) for s in sentences]


if __name__ == "__main__":
    run_script(main)
