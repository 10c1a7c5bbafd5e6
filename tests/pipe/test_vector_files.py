"""Static vectors of every usual kind of file, by `spacy init vectors`, beside the encoder."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import spacy
from spacy.cli.init_pipeline import init_vectors_cli
from spacy.language import Language
from toys import component_model, examples, listener, pipeline

ROWS = ["Alice 1 0 0 0.5", "bank 0 1 0 0.5", "town 0 0 1 0.5"]
FLORET_HEADER = f"{len(ROWS)} 4 2 3 2 2166136261 < >"
STATIC = {
    "@layers": "spacy.StaticVectors.v2",
    "nO": 6,
    "init_W": {"@initializers": "glorot_uniform_init.v1"},
}
FILES = {
    "word2vec.txt": [f"{len(ROWS)} 4", *ROWS],
    "glove.txt": ROWS,
    "fasttext.vec": [f"{len(ROWS)} 4", *ROWS],
    "fasttext.vec.gz": [f"{len(ROWS)} 4", *ROWS],
    "some.floret": [FLORET_HEADER, *(f"{i} {row.split(' ', 1)[1]}" for i, row in enumerate(ROWS))],
}


def vectors_pipeline(folder: Path, name: str) -> Path:
    """What `spacy init vectors` makes of such a file."""
    text = "\n".join(FILES[name]) + "\n"
    content = text.encode("utf8")
    (folder / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    mode = "floret" if name.endswith("floret") else "default"
    init_vectors_cli(
        lang="en", vectors_loc=folder / name, output_dir=folder / "vectors", prune=-1, truncate=0,
        mode=mode, name=None, verbose=False, jsonl_loc=None, attr="ORTH",
    )  # fmt: skip
    return folder / "vectors"


def tagger_beside(vectors: Path) -> Language:
    """A tagger that reads the encoder and these vectors, after a few updates."""
    nlp = pipeline((), frozen=True)
    nlp.config["initialize"]["vectors"] = str(vectors)
    tok2vec = {
        "@architectures": "spacy-ctxvec.Concat.v1", "listener": listener(), "static": STATIC,
    }  # fmt: skip
    nlp.add_pipe("tagger", config={"model": component_model("tagger", tok2vec)})
    optimizer = nlp.initialize(lambda: examples(nlp))
    for _ in range(3):
        nlp.update(examples(nlp), sgd=optimizer)
    return nlp


@pytest.mark.parametrize("name", FILES)
def test_vectors_stand_beside_the_encoder(name: str, tmp_path: Path):
    nlp = tagger_beside(vectors_pipeline(tmp_path, name))
    known = nlp.vocab["bank"]
    assert known.has_vector and known.vector.shape == (4,)
    if not name.endswith("floret"):
        np.testing.assert_array_equal(known.vector, [0, 1, 0, 0.5])
    assert nlp.vocab["neverseen"].has_vector == name.endswith("floret")
    nlp.to_disk(tmp_path / "saved")
    again = spacy.load(tmp_path / "saved")
    text = "Alice saw a neverseen bank"
    tok2vecs = [one.get_pipe("tagger").model.get_ref("tok2vec") for one in (nlp, again)]
    ours, theirs = (tok2vec.predict([one(text)])[0] for tok2vec, one in zip(tok2vecs, (nlp, again)))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)
    assert ours.shape == (5, 16 + 6)
