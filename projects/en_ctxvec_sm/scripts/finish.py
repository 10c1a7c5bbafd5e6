"""From a trained pipeline to the one that is shipped: its scores on test text, and what it says of
itself.

    python scripts/finish.py training/model-best corpus pipeline
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any

import neighbours  # noqa: F401
import spacy
import typer

# isort: split
from console import run_script
from results import insert
from spacy.language import Language
from spacy.training import Corpus
from summary import versions

from spacy_ctxvec.layers.listener import is_listener
from spacy_ctxvec.layers.scalar_mix import layer_weights

README = Path(__file__).resolve().parents[1] / "README.md"
MEASURES = {
    "ewt": {
        "tag_acc": "fine-grained tags, accuracy",
        "pos_acc": "coarse tags, accuracy",
        "morph_acc": "morphological features, accuracy",
        "lemma_acc": "lemmas, accuracy",
        "dep_uas": "dependencies, unlabelled",
        "dep_las": "dependencies, labelled",
        "sents_f": "sentence boundaries, F",
        "token_f": "words against those of the treebank, F",
    },
    "wikigold": {"ents_f": "entities, F", "ents_p": "precision", "ents_r": "recall"},
    "wnut17": {"ents_f": "entities, F", "ents_p": "precision", "ents_r": "recall"},
}
TITLES = {"ewt": "UD English EWT", "wikigold": "WikiGold", "wnut17": "WNUT-17"}
META: dict[str, Any] = {
    "name": "ctxvec_sm",
    "version": "0.1.0",
    "description": (
        "English tagger, morphologizer, parser, lemmatizer and named entities on one frozen "
        "contextual encoder, each through a mix of its layers that it has learned."
    ),
    "author": "The spacy-ctxvec contributors",
    "license": "CC BY-SA 4.0",
    "sources": [
        {"name": "UD English EWT", "license": "CC BY-SA 4.0", "author": "Universal Dependencies"},
        {"name": "WikiGold", "license": "CC BY 4.0", "author": "Balasuriya et al. (2009)"},
        {"name": "WNUT-17", "license": "CC BY 4.0", "author": "Derczynski et al. (2017)"},
        {
            "name": "The encoder of spacy-ctxvec",
            "license": "CC BY-SA 4.0",
            "author": "The spacy-ctxvec contributors; its text is in the encoder's own card",
        },
    ],
}


def main(
    trained: Annotated[Path, typer.Argument(help="Pipeline that `spacy train` wrote")],
    corpus: Annotated[Path, typer.Argument(help="Folder with test/*.spacy")],
    output: Annotated[Path, typer.Argument(help="Folder for the shipped pipeline")],
    readme: Annotated[Path, typer.Option(help="Where the table goes")] = README,
) -> None:
    """Measure, write the pipeline with its card, and the table."""
    nlp = spacy.load(trained)
    scores = {name: evaluate(nlp, corpus / "test" / f"{name}.spacy") for name in MEASURES}
    nlp.meta.update(META)
    nlp.meta["performance"] = {
        f"{name}_{measure}": round(scores[name][measure], 4)
        for name, measures in MEASURES.items()
        for measure in measures
    }
    for path in nlp.config["paths"]:
        nlp.config["paths"][path] = None
    table = render(scores, mixes(nlp))
    nlp.to_disk(output)
    size = sum(path.stat().st_size for path in output.rglob("*") if path.is_file())
    insert(readme, f"{table}\n\n{size / 1e6:.1f} MB on disk.")
    (output / "README.md").write_text(readme.read_text(encoding="utf-8"), encoding="utf-8")


def evaluate(nlp: Language, path: Path) -> dict[str, Any]:
    """Scores on raw text, tokenised by the pipeline itself, and `speed` in words a second."""
    return nlp.evaluate(list(Corpus(path)(nlp)))


def mixes(nlp: Language) -> dict[str, list[float]]:
    """The share of each layer, by the component that has learned it."""
    return {
        name: layer_weights(node.layers[0]).tolist()
        for name, pipe in nlp.pipeline
        if hasattr(pipe, "model")
        for node in pipe.model.walk()
        if is_listener(node)
    }


def render(scores: dict[str, dict[str, Any]], weights: dict[str, list[float]]) -> str:
    """The card's figures as Markdown."""
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    lines = [
        "Commands of `spacy project run all`, one seed, "
        f"{datetime.date.today().isoformat()}, CPU, {about}. Test parts, read as raw text.",
        "",
        "| text | | |",
        "|---|---|---|",
    ]
    for name, measures in MEASURES.items():
        for measure, title in measures.items():
            lines.append(f"| {TITLES[name]} | {title} | {100 * scores[name][measure]:.1f} |")
    layers = len(next(iter(weights.values())))
    lines += ["", f"| mix of | {' | '.join(f'layer {i}' for i in range(layers))} |"]
    lines += [f"|{'---|' * (layers + 1)}"]
    for name, shares in weights.items():
        lines.append(f"| {name} | {' | '.join(f'{share:.2f}' for share in shares)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    run_script(main)
