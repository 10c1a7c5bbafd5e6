"""`spacy ctxvec layers`: learned weights of every component, with their spread over pipelines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import spacy
from printing import printed
from spacy.cli._util import app
from toys import mix_of, trained
from typer.testing import CliRunner

from spacy_ctxvec.layers import scalar_mix


def layers(*arguments: str):
    return CliRunner().invoke(app, ["ctxvec", "layers", *arguments])


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """The same pipeline twice, with other weights for the tagger in the second."""
    nlp = trained()[0]
    nlp.to_disk(tmp_path / "first")
    mix_of(nlp, "tagger").set_param("weights", np.array([0.1, 0.0, -0.1], dtype="float32"))
    nlp.to_disk(tmp_path / "second")
    return [str(tmp_path / "first"), str(tmp_path / "second")]


def test_one_pipeline(two: list[str]) -> None:
    result = layers(two[0], "--json")
    assert result.exit_code == 0, result.output
    rows = {row["component"]: row for row in json.loads(result.stdout)}
    nlp = spacy.load(two[0])
    for name in ("tagger", "ner"):
        want = scalar_mix.describe(mix_of(nlp, name))
        assert rows[name]["mean"] == pytest.approx(want["weights"])
        assert rows[name]["gamma"] == pytest.approx(want["gamma"])
        assert rows[name]["deviation"] is None and rows[name]["encoder"] == "ctxvec"
        assert sum(rows[name]["mean"]) == pytest.approx(1)


def test_the_spread_over_pipelines(two: list[str], tmp_path: Path) -> None:
    rows = {row["component"]: row for row in json.loads(layers(*two, "--json").stdout)}
    of_each = [scalar_mix.layer_weights(mix_of(spacy.load(path), "tagger")) for path in two]
    assert rows["tagger"]["n_pipelines"] == 2
    assert rows["tagger"]["mean"] == pytest.approx(np.mean(of_each, axis=0))
    assert rows["tagger"]["deviation"] == pytest.approx(np.std(of_each, axis=0, ddof=1))
    assert rows["ner"]["deviation"] == pytest.approx([0, 0, 0], abs=1e-7)
    result = layers(*two)
    for said in ("tagger", "ner", "layer 0", "layer 2", "±", "standard deviation"):
        assert said in printed(result)


def test_the_plot(two: list[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = layers(*two, "--plot", str(tmp_path / "weights.png"))
    assert result.exit_code == 0, result.output
    assert (tmp_path / "weights.png").read_bytes().startswith(b"\x89PNG")
    result = layers(two[0], "--plot", str(tmp_path / "missing" / "weights.png"))
    assert result.exit_code == 1 and "--plot" in printed(result)


def test_a_pipeline_without_mixes(tmp_path: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "other")
    result = layers(str(tmp_path / "other"))
    assert result.exit_code == 1 and "sentencizer" in printed(result)
