"""`spacy ctxvec demo`: any text in, a page and a report out, and plain words where it fails."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import spacy
from printing import printed
from spacy.cli._util import app
from toys import blank_with_encoder, examples
from typer.testing import CliRunner

from spacy_ctxvec.analysis import overview

TEXT = "The bank is steep. Ångström saw 東京.\n\nA [bold] bank <b>lends</b> money 🎉. A bank."


@pytest.fixture
def pipeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A saved pipeline with a tiny random encoder; demo runs in a folder of its own."""
    monkeypatch.setattr(overview, "MIN_TIMED_WORDS", 20)
    nlp = blank_with_encoder()
    nlp.initialize(lambda: examples(nlp))
    nlp.to_disk(tmp_path / "pipeline")
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "pipeline")


def demo(*arguments: str, stdin: str | bytes | None = None):
    return CliRunner().invoke(app, ["ctxvec", "demo", *arguments], input=stdin)


def test_the_sample_page(pipeline: str) -> None:
    result = demo("--model", pipeline)
    assert result.exit_code == 0, result.output
    assert "The same word in different sentences" in printed(result)
    assert "words a second" in printed(result)
    assert Path("demo.html").read_text(encoding="utf8").startswith("<!doctype html>")


def test_a_file_with_markup_of_all_kinds(pipeline: str) -> None:
    Path("text.txt").write_text(TEXT, encoding="utf8")
    result = demo("text.txt", "--model", pipeline, "--output", "page.html")
    assert result.exit_code == 0, result.output
    assert "[bold]" in printed(result)
    page = Path("page.html").read_text(encoding="utf8")
    assert "<b>lends" not in page
    assert "東京" in page


def test_standard_input_and_json(pipeline: str) -> None:
    result = demo("-", "--json", "--model", pipeline, stdin=TEXT.encode())
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [word["word"] for word in data["same_words"]] == ["bank"]
    assert data["source"] == "standard input"
    assert Path(data["page"]).is_file()


def test_entities_of_a_pipeline_that_finds_some(pipeline: str) -> None:
    nlp = spacy.load(pipeline)
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ORG", "pattern": "東京"}])
    nlp.to_disk("with_entities")
    result = demo("-", "--model", "with_entities", stdin=TEXT.encode())
    assert result.exit_code == 0, result.output
    assert "Named entities" in printed(result) and "ORG" in printed(result)


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "0 word(s)"),
        (b" \n\n ", "0 word(s)"),
        (b"caf\xe9 au lait", "UTF-8"),
    ],
)
def test_bad_text(pipeline: str, content: bytes, said: str) -> None:
    Path("text.txt").write_bytes(content)
    result = demo("text.txt", "--model", pipeline)
    assert result.exit_code == 1
    assert said in printed(result)
    assert "Traceback" not in printed(result)
    assert not Path("demo.html").exists()


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["missing.txt"], "There is no text file missing.txt"),
        (["."], "There is no text file"),
        (["--model", "missing"], "There is no model at missing"),
        (["--output", "missing/page.html"], "--output"),
    ],
)
def test_bad_arguments(pipeline: str, arguments: list[str], said: str) -> None:
    if "--model" not in arguments:
        arguments = [*arguments, "--model", pipeline]
    result = demo(*arguments)
    assert result.exit_code == 1
    assert said in printed(result)


def test_a_pipeline_without_encoder(pipeline: str) -> None:
    import spacy

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    nlp.to_disk("plain")
    result = demo("--model", "plain")
    assert result.exit_code == 1
    assert "it has: sentencizer" in printed(result)


def test_the_shipped_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(overview, "MIN_TIMED_WORDS", 20)
    result = demo("--json", "--output", str(tmp_path / "page.html"))
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["model"]["name"] == "en_sm"
