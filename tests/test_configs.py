"""Every shipped training config: complete, valid, and able to train a few steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_config

FOLDER = Path(__file__).parents[1] / "configs"
OURS = ("pretrain", "train_nmt")  # for commands of our own; tested with these
CONFIGS = sorted(path for path in FOLDER.glob("*.cfg") if not path.stem.startswith(OURS))
WORDS = ["Alice", "met", "Bob", "in", "Paris", "."]


def corpus(path: Path) -> Path:
    vocab = spacy.blank("en").vocab
    docs = [
        Doc(
            vocab,
            words=WORDS,
            tags=["NNP", "VBD", "NNP", "IN", "NNP", "."],
            pos=["PROPN", "VERB", "PROPN", "ADP", "PROPN", "PUNCT"],
            morphs=["Number=Sing", "Tense=Past", "Number=Sing", "", "Number=Sing", ""],
            heads=[1, 1, 1, 4, 1, 1],
            deps=["nsubj", "ROOT", "obj", "case", "obl", "punct"],
            ents=["B-PER", "O", "B-PER", "O", "B-LOC", "O"],
            sent_starts=[True, *[False] * 5],
        )
        for _ in range(20)
    ]
    DocBin(docs=docs).to_disk(path)
    return path


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_trains(path: Path, tmp_path: Path):
    data = str(corpus(tmp_path / "corpus.spacy"))
    overrides = {
        "paths.train": data,
        "paths.dev": data,
        "training.max_steps": 20,
        "training.eval_frequency": 10,
    }
    nlp = init_nlp(load_config(path, overrides=overrides, interpolate=False))
    (tmp_path / "out").mkdir()
    train(nlp, tmp_path / "out")
    doc = spacy.load(tmp_path / "out" / "model-last")(" ".join(WORDS))
    assert doc[0].has_vector
    assert [ent.text for ent in doc.ents]


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_spells_out_every_setting(path: Path):
    """What spaCy would fill in for `ctxvec` is already there."""
    from spacy_ctxvec.pipe.factory import DEFAULT_MODEL

    model = load_config(path, interpolate=False)["components"]["ctxvec"]["model"]
    assert model == DEFAULT_MODEL
