"""What a lower precision of the frozen encoder costs a task: pipelines are trained in float32, and
evaluated in every precision."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Annotated

import spacy
import typer
from spacy.cli.train import train
from spacy.language import Language
from spacy.training import Corpus

from spacy_ctxvec.cli.opening import first_encoder
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.precision import PREDICTED

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
SCORES = {"ner": "ents_f", "tagger": "tag_acc"}
BASES = {"ner": "ner_frozen.cfg", "tagger": "core.cfg"}


def main(
    component: Annotated[str, typer.Argument(help="ner or tagger")],
    corpus: Annotated[Path, typer.Argument(help="Folder of train, dev and test.spacy")],
    work: Annotated[Path, typer.Argument(help="Where the pipelines go")],
    seeds: Annotated[int, typer.Option(min=1, help="Pipelines to train")] = 3,
    max_steps: Annotated[int, typer.Option(min=1, help="Of each training")] = 1000,
) -> None:
    """Print the scores of each precision over the seeds, in points, and their mean loss."""
    found: dict[str, list[float]] = {precision: [] for precision in PREDICTED}
    for seed in range(seeds):
        nlp = trained(component, corpus, work / f"{component}{seed}", seed, max_steps)
        for precision, scores in found.items():
            shim_of(first_encoder(nlp).model).module.set_precision(precision)
            examples = Corpus(corpus / "test.spacy")(nlp)
            scores.append(100 * nlp.evaluate(list(examples))[SCORES[component]])
    exact = statistics.mean(found["float32"])
    report = {
        precision: {
            "scores": [round(score, 2) for score in scores],
            "loss": round(exact - statistics.mean(scores), 2),
        }
        for precision, scores in found.items()
    }
    print(json.dumps({"component": component, "max_steps": max_steps, "precisions": report}))


def trained(component: str, corpus: Path, folder: Path, seed: int, max_steps: int) -> Language:
    """A pipeline on the frozen shipped encoder, trained unless it is there already."""
    best = folder / "model-best"
    if not best.is_dir():
        config = spacy.util.load_config(CONFIGS / BASES[component])
        config["nlp"]["pipeline"] = ["ctxvec", component]
        blocks = config["components"]
        config["components"] = {name: blocks[name] for name in ("ctxvec", component)}
        weights = config["training"].get("score_weights", {})
        name = SCORES[component]
        config["training"]["score_weights"] = {**dict.fromkeys(weights), name: 1.0}
        config["training"] |= {"max_steps": max_steps, "eval_frequency": 200}
        config["training"]["seed"] = seed
        config["paths"] |= {part: str(corpus / f"{part}.spacy") for part in ("train", "dev")}
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "config.cfg"
        config.to_disk(path)
        train(path, folder)
    return spacy.load(best)


if __name__ == "__main__":
    typer.run(main)
