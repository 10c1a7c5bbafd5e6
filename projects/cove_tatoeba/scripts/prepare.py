"""Convert what the encoders are compared on: WikiGold in folds, SST-5 in its own split.

SST-5 comes as trees, a sentence a line, of which the words and the class of the root are kept.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import spacy
import typer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

# isort: split
import convert
from console import run_script
from folds import document_folds, split_fold

from spacy_ctxvec.errors import CtxvecError

CLASSES = ("very negative", "negative", "neutral", "positive", "very positive")
TREE = re.compile(r"\(([0-4]) .*\)")
LEAF = re.compile(r"\([0-4] ([^ ()]+)\)")
# Spellings of the Penn Treebank, and what the sentences had.
SPELLINGS = {"-LRB-": "(", "-RRB-": ")", "``": '"', "''": '"', r"\/": "/", r"\*": "*"}
ESCAPED = re.compile("|".join(map(re.escape, SPELLINGS)))


def main(
    assets: Annotated[Path, typer.Argument(help="Folder with wikigold/ and sst5/")],
    output: Annotated[Path, typer.Argument(help="Where the .spacy files go")],
    n_folds: Annotated[int, typer.Option(help="WikiGold: number of folds")] = 5,
    dev_share: Annotated[
        float, typer.Option(help="WikiGold: share of the training sentences for dev")
    ] = 0.12,
) -> None:
    """Write OUTPUT/CORPUS/FOLD/{train,dev,test}.spacy."""
    wikigold = convert.read_wikigold(
        assets / "wikigold", convert.PROJECT / "wikigold_documents.json"
    )
    for fold, test in enumerate(document_folds(wikigold, n_folds)):
        split = split_fold(wikigold, test, dev_share)
        convert.write_split(split, output / "wikigold" / str(fold))
    write_trees(assets / "sst5", output / "sst5" / "0")


def write_trees(source: Path, folder: Path) -> None:
    """Convert {train,dev,test}.txt."""
    folder.mkdir(parents=True, exist_ok=True)
    vocab = spacy.blank("en").vocab
    for part in convert.PARTS:
        path = source / f"{part}.txt"
        if not path.is_file():
            raise CtxvecError(f"Expected the trees {path}, found none. Run the `data` command.")
        lines = path.read_text(encoding="utf-8").splitlines()
        docs = [tree_doc(vocab, line, f"{path}, line {n}") for n, line in enumerate(lines, start=1)]
        DocBin(docs=docs).to_disk(folder / f"{part}.spacy")
        typer.echo(f"{folder / part}: {len(docs)} sentences")


def tree_doc(vocab: Vocab, line: str, place: str) -> Doc:
    """The words of a tree with its class, a space after every word; `place` is for messages."""
    root, leaves = TREE.fullmatch(line), LEAF.findall(line)
    if not root or not leaves:
        raise CtxvecError(f"{place}: expected a tree as (3 (2 Good) (2 .)), found {line[:60]!r}.")
    words = [ESCAPED.sub(lambda found: SPELLINGS[found[0]], leaf) for leaf in leaves]
    doc = Doc(vocab, words, spaces=[True] * len(words))
    doc.cats = {name: float(i == int(root[1])) for i, name in enumerate(CLASSES)}
    return doc


if __name__ == "__main__":
    run_script(main)
