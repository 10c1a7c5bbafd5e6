"""Train and test one cell, in a process of its own: `spacy train`, then one pass over the test set.

The saved result holds gold and predicted entities of each test sentence, so that every score and
every bootstrap can be computed again without training.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from cells import Cell, Workdir, cell_config, data_digest, fingerprint, read_json, write_atomically
from console import run_script
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin

Entities = list[tuple[int, int, str]]
BUDGET = ("max_steps", "patience", "eval_frequency")


def main(
    workdir: Annotated[Path, typer.Argument(help="Working folder of the project")],
    corpus: Annotated[str, typer.Argument()],
    fold: Annotated[int, typer.Argument()],
    system: Annotated[str, typer.Argument()],
    seed: Annotated[int, typer.Argument()],
    settings: Annotated[str, typer.Option(help="JSON: settings of [training] to change")] = "{}",
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
    results: Annotated[
        str, typer.Option(help="Folder in the working folder for the result")
    ] = "cells",
    test: Annotated[
        bool, typer.Option(help="Read the test set; without it only the dev score is kept")
    ] = True,
) -> None:
    """Run the cell and write its result."""
    cell = Cell(seed=seed, system=system, corpus=corpus, fold=fold)
    where = Workdir(workdir, results)
    result = run_cell(cell, where, json.loads(settings), gpu_id, test)
    write_atomically(where.result(cell), result)
    shutil.rmtree(where.training(cell))


def run_cell(
    cell: Cell, workdir: Workdir, settings: dict[str, Any], gpu_id: int, test: bool
) -> dict[str, Any]:
    """Train, and test the model that was best on dev."""
    folder = workdir.training(cell)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = cell_config(cell, workdir, settings)
    config_path = workdir.result(cell).with_suffix(".cfg")
    config_path.parent.mkdir(parents=True, exist_ok=True)
    config.to_disk(config_path, interpolate=False)
    begin = time.perf_counter()
    train(config_path, folder, use_gpu=gpu_id)
    result: dict[str, Any] = {
        "corpus": cell.corpus,
        "fold": cell.fold,
        "system": cell.system,
        "seed": cell.seed,
        "fingerprint": fingerprint(config),
        "data": data_digest(config),
        "budget": {name: config["training"][name] for name in BUDGET},
        "train_seconds": round(time.perf_counter() - begin, 1),
        "dev_f": read_json(folder / "model-best" / "meta.json")["performance"]["ents_f"],
        "gpu_id": gpu_id,
    }
    if test:
        result.update(test_model(folder / "model-best", workdir.corpus(cell)))
    return result


def test_model(model: Path, corpus: Path) -> dict[str, Any]:
    """Annotate the test sentences once.

    RETURNS (dict): `gold` and `predicted` entities and the `units` (documents) of the sentences,
        and the speed in words per second.
    """
    gold, predicted, speed = annotate_test(model, corpus)
    return {
        "units": read_json(corpus / "test_units.json"),
        "gold": [_entities(doc) for doc in gold],
        "predicted": [_entities(doc) for doc in predicted],
        "words_per_second": speed,
    }


def annotate_test(model: Path, corpus: Path) -> tuple[list[Doc], list[Doc], int]:
    """The test docs, the same words as the model annotates them, and its words per second."""
    nlp = spacy.load(model)
    gold = list(DocBin().from_disk(corpus / "test.spacy").get_docs(nlp.vocab))
    plain = [
        Doc(nlp.vocab, [t.text for t in doc], [bool(t.whitespace_) for t in doc]) for doc in gold
    ]
    begin = time.perf_counter()
    predicted = list(nlp.pipe(plain, batch_size=256))
    seconds = time.perf_counter() - begin
    return gold, predicted, round(sum(map(len, gold)) / seconds)


def _entities(doc: Doc) -> Entities:
    return [(span.start, span.end, span.label_) for span in doc.ents]


if __name__ == "__main__":
    run_script(main)
