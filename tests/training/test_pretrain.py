"""From raw text to a model folder, through the command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import spacy
from printing import printed
from spacy.cli._util import app
from typer.testing import CliRunner

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import load_native
from spacy_ctxvec.pipe.encoder_config import encoder_block
from spacy_ctxvec.training.config import read_pretrain_config
from spacy_ctxvec.training.pretrain import load_language_model, pretrain

CONFIG = """
[pretrain]
name = "toy"
lang = "en"
train = ["*.txt"]
heldout = ["held/*.txt"]
max_tokens = 16
n_words = 50
softmax_width = 6
licence = "CC0"
sources = ["Sentences made up for a test"]

[pretrain.model]
width = 16
hidden_width = 8
filters = [[1,4],[2,4]]
char_width = 4

[pretrain.training]
tokens = 3000
batch_tokens = 64
n_samples = 20
evaluate_every = 20
"""
SENTENCES = [
    "The cat sat on the mat.",
    "A dog ran to the river bank!",
    "Who saw the cat and a dog?",
]


@pytest.fixture
def run(tmp_path):
    text = tmp_path / "text"
    (text / "held").mkdir(parents=True)
    lines = [f"{SENTENCES[i % 3]} {SENTENCES[i * 7 % 3]}" for i in range(60)]
    (text / "a.txt").write_text("\n".join(lines), "utf8")
    (text / "held" / "b.txt").write_text("\n".join(lines[:9]), "utf8")
    config = tmp_path / "toy.cfg"
    config.write_text(CONFIG, "utf8")

    def command(*options: str, config_text: str = CONFIG, folder: Path = text):
        config.write_text(config_text, "utf8")
        arguments = ["ctxvec", "pretrain", str(config), str(tmp_path / "work")]
        return CliRunner().invoke(app, [*arguments, "--text", str(folder), *options])

    return command, tmp_path / "work"


def test_a_model_a_card_and_records(run):
    command, work = run
    result = command("--json")
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    assert records[-1] == {"model": str(work / "model")}
    assert any("duplicate paragraphs" in record.get("problem", "") for record in records)
    first = next(record for record in records if "step" in record)
    assert first["step"] == 20 and first["forward"] > 1
    model = load_native(work / "model")
    assert model.info["tokens_seen"] >= 3000 and model.info["lang"] == "en"
    assert model.info["perplexity"]["unknown_rate"] == 0
    assert model.build().has_statistics
    card = (work / "model" / "README.md").read_text("utf8")
    for part in ("Sentences made up for a test", "CC0", "forward", "pretrain", "width 16"):
        assert part in card
    assert "A bidirectional language model over characters" in card
    _, _, words = load_language_model(work / "model")
    assert len(words) < 50 and f"over the {len(words)} most frequent" in card
    assert "tokens 3000, " in card


def test_the_card_of_a_model_of_words_in_one_direction(run):
    command, work = run
    sizes = 'hidden_width = 8\ndirections = "backward"\nn_words = 30'
    assert command(config_text=CONFIG.replace("hidden_width = 8", sizes)).exit_code == 0
    card = (work / "model" / "README.md").read_text("utf8")
    assert "A backward language model over words" in card


def test_it_learns(run):
    command, work = run
    command("--json", config_text=CONFIG.replace("tokens = 3000", "tokens = 30000"))
    log = [json.loads(line) for line in (work / "log.jsonl").read_text("utf8").splitlines()]
    assert log[-1]["forward"] < 0.75 * log[0]["forward"]
    assert log[-1]["backward"] < 0.75 * log[0]["backward"]


def test_running_again_continues(run):
    command, work = run
    command("--json")
    before = (work / "model" / "model.safetensors").read_bytes()
    result = command()
    assert result.exit_code == 0 and "Model:" in printed(result)
    assert (work / "model" / "model.safetensors").read_bytes() == before


def test_the_result_goes_into_a_pipeline(run):
    command, work = run
    command("--json")
    block = encoder_block(load_native(work / "model").config)
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"model": block})
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(work / "model")}
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader}
    nlp.initialize()
    assert nlp("the river bank")[2].has_vector


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tokens = 3000", "token = 3000"), "has no setting token"),
        (("tokens = 3000", 'tokens = "many"'), "tokens should be int"),
        (("width = 16", "width = 15"), "width = 15"),
        (('lang = "en"\n', ""), "lang"),
        (("[pretrain]", "[other]"), "cannot be used"),
        (('["*.txt"]', '["*.xml"]'), "No file in"),
        (('["*.txt"]', '"*.txt"'), "train should be a list"),
    ],
)
def test_mistakes_are_named(run, change, message):
    command, work = run
    result = command(config_text=CONFIG.replace(*change))
    assert result.exit_code == 1
    assert message in printed(result)
    assert not (work / "model").exists()


def test_where_the_text_is_must_be_said(run, monkeypatch, tmp_path):
    monkeypatch.delenv("CTXVEC_DATA", raising=False)
    arguments = ["ctxvec", "pretrain", str(tmp_path / "toy.cfg"), str(tmp_path / "work")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1 and "CTXVEC_DATA" in printed(result)


@pytest.mark.parametrize("name", ["pretrain_en_sm", "pretrain_original"])
def test_a_shipped_config_makes_a_few_steps(run, name, tmp_path):
    path = Path(__file__).parents[2] / "configs" / f"{name}.cfg"
    text = tmp_path / "text"
    config = read_pretrain_config(path, text)
    assert config.training.tokens >= 45_000_000
    changed = replace(
        config,
        train=["a.txt"],
        heldout=["held/b.txt"],
        exclude=[],
        training=replace(
            config.training, tokens=300, batch_tokens=100, n_samples=10, evaluate_every=2
        ),
    )
    folder = pretrain(changed, tmp_path / "work")
    assert folder is not None and load_native(folder).info["name"] == config.name


def test_a_missing_config_is_named(tmp_path):
    with pytest.raises(CtxvecError):
        read_pretrain_config(tmp_path / "absent.cfg", tmp_path)


def test_a_dry_run_tells_what_training_would_take(run):
    command, work = run
    result = command("--dry-run", "--json")
    estimate = json.loads(result.output.splitlines()[-1])
    assert estimate["corpus_tokens"] > 500 and estimate["tokens"] == 3000
    assert estimate["coverage"] == estimate["heldout_coverage"] == 1
    assert estimate["tokens_per_second"] > 0 and estimate["memory_bytes"] > 10_000
    assert not (work / "checkpoint.pt").exists()
    words = command("--dry-run").output
    for part in ("distinct words", "cover 100.0%", "tokens/s"):
        assert part in words.replace("\n", " ")


def test_the_time_budget_of_the_command_line(run):
    command, work = run
    result = command("--json", "--hours", "1e-7", config_text=CONFIG)
    assert result.exit_code == 0, result.output
    assert load_native(work / "model").info["tokens_seen"] < 200


def test_evaluation_texts_are_left_out(run, tmp_path):
    command, work = run
    (tmp_path / "text" / "c.txt").write_text("A sentence of an evaluation set. " * 3, "utf8")
    evaluation = tmp_path / "evaluation.txt"
    evaluation.write_text("A sentence of an evaluation set. " * 3, "utf8")
    assert command("--json", "--exclude", str(evaluation)).exit_code == 0
    meta = json.loads((work / "corpus" / "meta.json").read_text("utf8"))
    assert meta["excluded"]["documents"] == 1
    assert "1 documents" in (work / "model" / "README.md").read_text("utf8").replace("\n", " ")
    evaluation.write_text((tmp_path / "text" / "a.txt").read_text("utf8"), "utf8")
    result = command("--restart", "--exclude", str(evaluation))
    assert result.exit_code == 1 and "exclude" in printed(result)


def test_of_several_processes_the_first_one_speaks(run, monkeypatch):
    command, work = run
    monkeypatch.setenv("RANK", "1")
    assert command().output == ""
    assert (work / "model" / "model.safetensors").exists()
