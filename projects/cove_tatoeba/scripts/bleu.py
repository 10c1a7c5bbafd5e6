"""BLEU of a translation model on a test set of two line-aligned files.

    python scripts/bleu.py work assets/multi30k/test_2016_flickr.{en,de}

Both sides are tokenised by spaCy and lower-cased as the model's training text was.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import srsly
import typer

from spacy_ctxvec.errors import NO_TRANSLATOR_VECTORS, CtxvecError
from spacy_ctxvec.formats.translator import MARKS, TranslationModel, load_translation_model
from spacy_ctxvec.nn.beam import SearchSettings
from spacy_ctxvec.text.corpus import SPECIALS
from spacy_ctxvec.text.pair_corpus import build_pair_corpus
from spacy_ctxvec.training.pretrain import model_folder
from spacy_ctxvec.training.train_nmt import LONGEST_HELDOUT, read_vectors
from spacy_ctxvec.training.translating import Quality, evaluate_translation

sys.path.append(str(Path(__file__).resolve().parents[2] / "ner" / "scripts"))
from console import run_script


def main(
    model: Annotated[Path, typer.Argument(help="Model or working folder of train-nmt")],
    source: Annotated[Path, typer.Argument(help="Test sentences, one a line")],
    target: Annotated[Path, typer.Argument(help="Their reference translations")],
    vectors: Annotated[
        str | None, typer.Option(help="Pipeline with vectors; default: those in the model folder")
    ] = None,
    beam: Annotated[int, typer.Option(help="Width of the search")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Alpha of the ranking")] = 1.0,
    output: Annotated[Path | None, typer.Option(help="JSON file for the figures")] = None,
) -> None:
    """Translate, compare, print."""
    found = load_translation_model(model_folder(model))
    started = time.monotonic()
    search = SearchSettings(beam=beam, length_penalty=length_penalty)
    quality = measure(found, source, target, vectors, search)
    record = {**asdict(quality), **asdict(search), "seconds": round(time.monotonic() - started, 1)}
    typer.echo(srsly.json_dumps(record, indent=2))
    if output:
        srsly.write_json(output, record)


def measure(
    model: TranslationModel, source: Path, target: Path, vectors: str | None, search: SearchSettings
) -> Quality:
    """Of the pairs of two files."""
    table = read_vectors(vectors) if vectors else model.encoder.vectors
    if table is None:
        raise CtxvecError(NO_TRANSLATOR_VECTORS)
    with TemporaryDirectory() as folder:
        pairs = build_pair_corpus(
            [(str(source), str(target))], Path(folder) / "pairs", max_tokens=LONGEST_HELDOUT,
            **model.settings,
        )  # fmt: skip
        types = [*SPECIALS, *model.words[len(MARKS) :]]
        known = pairs.recoded(pairs.source.types, types)
        return evaluate_translation(model.translator, model.words, known, table, search)


if __name__ == "__main__":
    run_script(main)
