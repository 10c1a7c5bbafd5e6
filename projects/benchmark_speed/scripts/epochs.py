"""Seconds of each epoch of training NER: on HashEmbedCNN, and on the frozen encoder whose layers
are kept. Both train in turns, epoch by epoch, on the same sentences in the same batches."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example, offsets_to_biluo_tags

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
BATCH = 32


def main(
    folder: Annotated[Path, typer.Argument(help="Where `prepare` put the sentences")],
    epochs: Annotated[int, typer.Option(min=2, help="Passes over the sentences")] = 5,
) -> None:
    """Print the seconds of every epoch as JSON, and the ratio from the second one on."""
    sentences = json.loads((folder / "sentences.json").read_text("utf8"))
    systems = {"HashEmbedCNN": hash_ner(), "frozen encoder, layers kept": encoder_ner("frozen")}
    trained = {name: begin(nlp, sentences) for name, nlp in systems.items()}
    seconds: dict[str, list[float]] = {name: [] for name in systems}
    for epoch in range(epochs):
        for name, (nlp, optimizer, examples) in trained.items():
            seconds[name].append(one_epoch(nlp, optimizer, examples, epoch))
    base, ours = (sum(taken[1:]) for taken in seconds.values())
    rounded = {name: [round(s, 2) for s in taken] for name, taken in seconds.items()}
    print(json.dumps({"seconds": rounded, "ratio_from_the_second": round(ours / base, 2)}))


def hash_ner() -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    return nlp


def encoder_ner(kind: str, **settings: Any) -> Language:
    """NER on the shipped encoder, by configs/ner_KIND.cfg.

    settings: of its component `ctxvec`, in place of what the config has
    """
    config = spacy.util.load_config(CONFIGS / f"ner_{kind}.cfg")
    config["components"]["ctxvec"] |= settings
    return spacy.util.load_model_from_config(config, auto_fill=True)


def begin(nlp: Language, sentences: list[list[str]]) -> tuple[Language, Any, list[Example]]:
    """A pipeline ready to train; capitalised words are its entities, for want of annotation."""
    examples = [example_of(nlp, words) for words in sentences]
    return nlp, nlp.initialize(lambda: examples), examples


def example_of(nlp: Language, words: list[str]) -> Example:
    doc = Doc(nlp.vocab, words=words)
    spans = [(t.idx, t.idx + len(t), "NAME") for t in doc if t.text[:1].isupper()]
    return Example.from_dict(doc, {"entities": offsets_to_biluo_tags(doc, spans)})


def one_epoch(nlp: Language, optimizer: Any, examples: list[Example], epoch: int) -> float:
    order = random.Random(epoch).sample(examples, len(examples))
    start = time.perf_counter()
    for i in range(0, len(order), BATCH):
        nlp.update(order[i : i + BATCH], sgd=optimizer, drop=0.1)
    return time.perf_counter() - start


if __name__ == "__main__":
    typer.run(main)
