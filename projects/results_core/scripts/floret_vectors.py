"""Static vectors of subwords (floret) from the text that an encoder was pretrained on: what one can
train without this package.

    python scripts/floret_vectors.py ../pretrain_en/en_sm/corpus work/floret --tokens 45000000

Needs `pip install floret`. The corpus is one that `spacy ctxvec pretrain` has built.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import neighbours  # noqa: F401
import spacy
import typer
from spacy.training.initialize import convert_vectors

# isort: split
from console import run_script

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.corpus import Corpus

SIZES = {"bucket": 50_000, "minn": 4, "maxn": 5, "hashCount": 2}


def main(
    corpus: Annotated[Path, typer.Argument(help="Folder of the built corpus")],
    output: Annotated[Path, typer.Argument(help="Where the pipeline of vectors goes")],
    tokens: Annotated[int, typer.Option(min=1, help="Of the text, from its start")] = 45_000_000,
    width: Annotated[int, typer.Option(min=1, help="Of a vector")] = 100,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the text")] = 5,
    threads: Annotated[int, typer.Option(min=1)] = 1,
) -> None:
    """Write the text, train, and save a blank pipeline with the vectors."""
    try:
        import floret
    except ImportError as error:
        raise CtxvecError("floret is not installed: pip install floret") from error
    with tempfile.TemporaryDirectory() as folder:
        text, table = Path(folder) / "text.txt", Path(folder) / "vectors.floret"
        with text.open("w", encoding="utf8") as file:
            file.writelines(f"{' '.join(words)}\n" for words in pieces(Corpus.open(corpus), tokens))
        model = floret.train_unsupervised(
            str(text), model="cbow", mode="floret", dim=width, epoch=epochs, thread=threads, **SIZES
        )
        model.save_floret_vectors(str(table))
        nlp = spacy.blank("en")
        convert_vectors(nlp, table, truncate=0, prune=-1, mode="floret")
    nlp.to_disk(output)
    typer.echo(f"{output}: {len(nlp.vocab.vectors):,} rows, width {width}")


def pieces(corpus: Corpus, tokens: int) -> Iterator[list[str]]:
    """The words of each piece, until there are so many."""
    for number in itertools.takewhile(
        lambda number: corpus.offsets[number] < tokens, range(len(corpus.lengths))
    ):
        yield [corpus.types[i] for i in corpus.piece(number)]


if __name__ == "__main__":
    run_script(main)
