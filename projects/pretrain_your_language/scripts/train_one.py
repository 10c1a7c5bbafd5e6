"""Train and test one pipeline, in a process of its own: `spacy train`, then one pass over test.

Saved are gold and predicted entities or classes, or counts of right heads, of each sentence, so
that scores and their intervals can be computed again without training.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import typer

# isort: split
from cells import read_json, write_atomically
from console import run_script
from spacy.cli.train import train
from spacy.tokens import Doc
from spacy.util import load_config
from train_cell import BUDGET, annotate_test, test_model
from trainings import CLASSES, ENTITIES, PARSE

SCORES = ("tag_acc", "dep_uas", "dep_las", "ents_f", "cats_micro_f")


def main(
    config: Annotated[Path, typer.Argument(help="Training config")],
    result: Annotated[Path, typer.Argument(help="The JSON file to write")],
    corpus: Annotated[Path, typer.Argument(help="Folder with test.spacy")],
    task: Annotated[str, typer.Argument(help="entities, parse or classes")],
    fingerprint: Annotated[str, typer.Argument(help="What the result will be known by")],
    gpu_id: Annotated[int, typer.Option(help="GPU, or -1 for the CPU")] = -1,
    test: Annotated[bool, typer.Option(help="Read the test set; else only dev scores")] = True,
) -> None:
    """Train, and test the model that was best on dev."""
    folder = result.with_suffix(".training")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    begin = time.perf_counter()
    train(config, folder, use_gpu=gpu_id)
    seconds = time.perf_counter() - begin
    best = folder / "model-best"
    performance = read_json(best / "meta.json")["performance"]
    settings = load_config(config)["training"]
    report: dict[str, Any] = {
        "name": result.stem,
        "fingerprint": fingerprint,
        "budget": {name: settings[name] for name in BUDGET},
        "dev": {name: performance[name] for name in SCORES if name in performance},
        "train_seconds": round(seconds, 1),
        "gpu_id": gpu_id,
    }
    if test:
        report |= TESTS[task](best, corpus)
    write_atomically(result, report)
    shutil.rmtree(folder)


def test_parser(model: Path, corpus: Path) -> dict[str, Any]:
    """Annotate the test sentences once.

    RETURNS (dict): `counts` of each sentence, see `count_right`, and words per second.
    """
    gold, predicted, speed = annotate_test(model, corpus)
    return {
        "counts": [count_right(g, p) for g, p in zip(gold, predicted, strict=True)],
        "words_per_second": speed,
    }


def count_right(gold: Doc, predicted: Doc) -> list[int]:
    """Words, and of them those with the right tag, the right head, and right head and relation.

    Punctuation counts like any word, as in the shared tasks of Universal Dependencies.
    """
    pairs = list(zip(gold, predicted, strict=True))
    heads = [p.head.i == g.head.i for g, p in pairs]
    labelled = [head and p.dep_ == g.dep_ for head, (g, p) in zip(heads, pairs, strict=True)]
    return [len(pairs), sum(p.tag_ == g.tag_ for g, p in pairs), sum(heads), sum(labelled)]


def test_classifier(model: Path, corpus: Path) -> dict[str, Any]:
    """Annotate the test texts once.

    RETURNS (dict): The `gold` and `predicted` class of each text, and words per second.
    """
    gold, predicted, speed = annotate_test(model, corpus)
    return {
        "gold": [best_class(doc) for doc in gold],
        "predicted": [best_class(doc) for doc in predicted],
        "words_per_second": speed,
    }


def best_class(doc: Doc) -> str:
    """The class with the highest score."""
    return max(doc.cats, key=lambda name: doc.cats[name])


TESTS = {PARSE: test_parser, ENTITIES: test_model, CLASSES: test_classifier}

if __name__ == "__main__":
    run_script(main)
