"""BLEU of a translation model, sample translations, and what their words were made looking at.

    python scripts/bleu.py work
    python scripts/bleu.py work test_2016_flickr.en test_2016_flickr.de

Test pairs are two line-aligned files or, without them, those that training held out. Both sides are
tokenised by spaCy and lower-cased as the model's training text was.
"""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import neighbours  # noqa: F401
import numpy as np
import srsly
import typer

# isort: split
from console import run_script

from spacy_ctxvec.analysis.attention_page import write_attention_page
from spacy_ctxvec.errors import NO_TRANSLATOR_VECTORS, CtxvecError
from spacy_ctxvec.formats.translator import MARKS, TranslationModel, load_translation_model
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.nn.beam import SearchSettings
from spacy_ctxvec.text.corpus import SPECIALS
from spacy_ctxvec.text.pair_corpus import PairCorpus, build_pair_corpus
from spacy_ctxvec.text.subwords import subwords_of
from spacy_ctxvec.training.curve import LOG, read_log
from spacy_ctxvec.training.pretrain import model_folder
from spacy_ctxvec.training.train_nmt import LONGEST_HELDOUT, read_vectors
from spacy_ctxvec.training.translating import (
    Translation,
    evaluate_translation,
    sentences_of,
    translations,
)

HELDOUT = "heldout"
SAMPLES = 10
TRAINED = {"seconds": "train_seconds", "tokens": "train_tokens", "step": "train_steps"}


def main(
    model: Annotated[Path, typer.Argument(help="Model or working folder of train-nmt")],
    source: Annotated[
        Path | None, typer.Argument(help="Test sentences, one a line; default: held-out pairs")
    ] = None,
    target: Annotated[Path | None, typer.Argument(help="Their reference translations")] = None,
    vectors: Annotated[
        str | None, typer.Option(help="Pipeline with vectors; default: those in the model folder")
    ] = None,
    beam: Annotated[int, typer.Option(help="Width of the search")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Alpha of the ranking")] = 1.0,
    output: Annotated[Path | None, typer.Option(help="JSON file for figures and samples")] = None,
    attention: Annotated[Path | None, typer.Option(help="Page of the samples' attention")] = None,
) -> None:
    """Translate, compare, print."""
    found = load_translation_model(model_folder(model))
    table = read_vectors(vectors) if vectors else found.encoder.vectors
    if table is None:
        raise CtxvecError(NO_TRANSLATOR_VECTORS)
    search = SearchSettings(beam=beam, length_penalty=length_penalty)
    with TemporaryDirectory() as folder:
        pairs = known_pairs(found, test_pairs(found, model, source, target, Path(folder)))
        started = time.monotonic()
        quality = evaluate_translation(found.translator, found.words, pairs, table, search)
        seconds = round(time.monotonic() - started, 1)
        made, samples = sample_translations(found, pairs, table, search)
    record = {
        **asdict(quality), **asdict(search), "seconds": seconds,
        **training_figures(model), "samples": samples,
    }  # fmt: skip
    typer.echo(srsly.json_dumps(record, indent=2))
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        srsly.write_json(output, record)
    if attention:
        write_attention_page(made, attention)


def test_pairs(
    model: TranslationModel, work: Path, source: Path | None, target: Path | None, folder: Path
) -> PairCorpus:
    """The pairs of two files, tokenised into `folder`, or those held out in the working folder."""
    if source is None:
        return PairCorpus.open(work / HELDOUT)
    if target is None:
        raise CtxvecError(f"Expected a file with the reference translations of {source} as well.")
    return build_pair_corpus(
        [(str(source), str(target))], folder / "pairs", max_tokens=LONGEST_HELDOUT, **model.settings
    )


def known_pairs(model: TranslationModel, pairs: PairCorpus) -> PairCorpus:
    """The pairs, with the model's own numbers of the target words, or pieces, that it knows."""
    words = model.words[len(MARKS) :]
    subwords = subwords_of(words)
    if subwords:
        pairs = replace(pairs, target=subwords.cut(pairs.target))
    return pairs.recoded(pairs.source.types, [*SPECIALS, *words])


def sample_translations(
    model: TranslationModel, pairs: PairCorpus, table: WordTable, search: SearchSettings
) -> tuple[list[Translation], list[dict[str, str]]]:
    """Of some pairs, evenly spaced: their translations; and these in words, with the reference."""
    numbers = np.linspace(0, len(pairs) - 1, min(SAMPLES, len(pairs)), dtype=int).tolist()
    sources, references = sentences_of(pairs, numbers)
    made = list(translations(model.translator, model.words, sources, table, search))
    samples = [
        {name: " ".join(words) for name, words in zip(("source", "reference", "translation"), row)}
        for row in zip(sources, references, (t.words for t in made), strict=True)
    ]
    return made, samples


def training_figures(work: Path) -> dict[str, Any]:
    """Time (seconds, evaluations included), tokens and steps of the run, where its log is."""
    records = read_log(work / LOG)
    return {new: records[-1][name] for name, new in TRAINED.items()} if records else {}


if __name__ == "__main__":
    run_script(main)
