"""Tagger and parser on several representations: the trainings, and what their results say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import neighbours  # noqa: F401
import numpy as np
from thinc.api import Config

# isort: split
from summary import Counts
from trainings import PARSE, Training, complete

from spacy_ctxvec.errors import CtxvecError

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
HASH = "hash"  # the baseline: needs no encoder
TAG, UAS, LAS = range(1, 4)
MEASURES = {"LAS": LAS, "UAS": UAS, "tag": TAG}
Systems = Mapping[str, "Path | None"]


def named_encoders(encoders: Sequence[str]) -> dict[str, Path]:
    """NAME=FOLDER, several of them; names become parts of file names."""
    named: dict[str, Path] = {}
    for text in encoders:
        name, equals, folder = text.partition("=")
        if not equals or not folder or not name or "/" in name or name in (HASH, *named):
            raise CtxvecError(
                f"--encoder {text}: expected NAME=FOLDER, the names without / and different."
            )
        named[name] = Path(folder)
    return named


def parser_config(lang: str, uses_encoder: bool) -> Config:
    """What all systems share, merged with the system's own."""
    names = ("base.cfg", "ctxvec.cfg" if uses_encoder else "hash.cfg")
    base, own = (Config().from_disk(CONFIGS / name, interpolate=False) for name in names)
    config = base.merge(own)
    config["nlp"]["lang"] = lang
    return config


def parse_trainings(
    name: str,
    corpus: Path,
    lang: str,
    systems: Systems,
    seeds: Sequence[int],
    settings: Sequence[str],
    folder: Path,
) -> dict[str, list[Training]]:
    """The trainings of each system, one for each seed; results lie in `folder`."""
    if not (corpus / "train.spacy").is_file():
        raise CtxvecError(f"Expected train.spacy in {corpus}, found none. Run `prepare` first.")
    return {
        system: [
            Training(
                complete(parser_config(lang, encoder is not None), corpus, seed, encoder, settings),
                corpus,
                PARSE,
                folder / f"{name}-{system}-{seed}.json",
            )
            for seed in seeds
        ]
        for system, encoder in systems.items()
    }


def by_seed(trainings: Mapping[str, Sequence[Training]]) -> list[Training]:
    """In the order of work: the first seed of every system before the second."""
    return [training for same_seed in zip(*trainings.values()) for training in same_seed]


def parse_counts(results: Sequence[Mapping[str, Any]]) -> dict[str, Counts]:
    """Counts of each measure, (seeds, sentences, 3): right, words, words."""
    counts = np.stack([np.asarray(result["counts"]) for result in results])
    words = counts[..., 0]
    return {name: np.stack([counts[..., i], words, words], -1) for name, i in MEASURES.items()}
