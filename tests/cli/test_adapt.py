"""`spacy ctxvec adapt`: options, what is printed, and plain words for mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from printing import printed
from spacy.cli._util import app
from typer.testing import CliRunner, Result

from spacy_ctxvec.cli.adapt import training_config
from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native, save_softmax
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", ".", "river", "a"]
LINES = "the enzyme binds a receptor .\na ligand binds the enzyme\n"


@pytest.fixture
def model(tmp_path: Path, tiny_plain_config: BiLMConfig) -> Path:
    folder = tmp_path / "model"
    info = {"lang": "en", "name": "tiny"}
    weights = BiLM(tiny_plain_config).state_dict()
    save_native(EncoderModel(tiny_plain_config, weights, info), folder, dtype="float16")
    width = tiny_plain_config.token_width
    softmax = WordSoftmax(input_width=width, width=4, n_words=len(WORDS))
    save_softmax(softmax, WORDS, folder, dtype="float16")
    return folder


@pytest.fixture
def adapt(tmp_path: Path, model: Path):
    (tmp_path / "text.txt").write_text(LINES * 4, "utf8")
    (tmp_path / "held.txt").write_text(LINES, "utf8")

    def command(*options: str, path: str | Path = model) -> Result:
        texts = ["--text", f"{tmp_path}/text.txt", "--heldout", f"{tmp_path}/held.txt"]
        arguments = [path, tmp_path / "work", *texts, *options]
        return CliRunner().invoke(app, ["ctxvec", "adapt", *map(str, arguments)])

    return command


def last_record(result: Result) -> dict[str, object]:
    return json.loads(result.stdout.splitlines()[-1])


def test_the_figures_are_printed_and_the_model_is_written(adapt, tmp_path) -> None:
    result = adapt("--new-words", "3", "--epochs", "2")
    assert result.exit_code == 0, result.output
    for said in ("old, 8 words", "with new words, 11 words", "before", "after", "Model:"):
        assert said in printed(result)
    folder = tmp_path / "work" / "model"
    model = load_native(folder)
    assert model.dtype == "float16" and model.info["name"] == "tiny_adapted"
    assert model.build().has_statistics
    assert open_pipeline(str(folder))("the ligand")[1].has_vector


def test_the_records(adapt, tmp_path) -> None:
    result = adapt("--json", "--tokens", "200", "--new-words", "0", "--name", "mine")
    record = last_record(result)
    assert record["model"] == str(tmp_path / "work" / "model") and record["new_words"] == 0
    assert record["tokens"] >= 200 and list(record["vocabularies"]) == ["old"]
    assert load_native(tmp_path / "work" / "model").info["name"] == "mine"


def test_again_is_nothing_new_and_restart_begins_anew(adapt, tmp_path) -> None:
    first = last_record(adapt("--json", "--epochs", "1"))
    assert last_record(adapt("--json", "--epochs", "1")) == first
    assert adapt("--new-words", "1", "--epochs", "1").exit_code == 1
    result = adapt("--json", "--new-words", "1", "--epochs", "1", "--restart")
    assert last_record(result)["new_words"] == 1


def test_a_pipeline_model_gets_a_new_softmax(adapt, model, tmp_path) -> None:
    (model / "softmax.safetensors").unlink()
    result = adapt()
    assert result.exit_code == 1 and "--new-softmax" in printed(result)
    result = adapt("--new-softmax")
    assert result.exit_code == 0, result.output
    assert "not trained then" in printed(result)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tokens", "5", "--epochs", "2"], "Give one of them"),
        (["--text", "absent.txt"], "No file in"),
        (["--unit", "page"], 'unit = "page"'),
        (["--lang", "qq"], 'lang = "qq"'),
        (["--exclude", "{folder}/text.txt", "--exclude", "{folder}/long.txt"], "holds no words"),
    ],
)
def test_mistakes_are_named(adapt, tmp_path, options, said) -> None:
    long = " ".join(f"w{i}" for i in range(40))
    (tmp_path / "long.txt").write_text(long, "utf8")
    if "--exclude" in options:
        (tmp_path / "text.txt").write_text(long, "utf8")
    result = adapt(*(option.format(folder=tmp_path) for option in options))
    assert result.exit_code == 1
    assert said in printed(result)
    assert not (tmp_path / "work" / "model").exists()


def test_other_text_in_the_same_folder_is_refused(adapt, tmp_path) -> None:
    adapt("--epochs", "1")
    (tmp_path / "text.txt").write_text(LINES * 5, "utf8")
    result = adapt("--epochs", "1")
    assert result.exit_code == 1 and "other settings" in printed(result)


def test_how_long_to_train() -> None:
    assert training_config(None, None, 0.0, 1e-3).epochs == 3
    config = training_config(None, 500, 2.0, 1e-4)
    assert (config.epochs, config.tokens, config.hours) == (0, 500, 2)
    assert training_config(0.5, None, 0.0, 1e-3).epochs == 0.5
    with pytest.raises(CtxvecError):
        training_config(1.0, 5, 0.0, 1e-3)


@pytest.mark.parametrize("options", [(), ("--new-softmax",)])
def test_the_encoder_of_a_translation_model_is_refused(adapt, model, options) -> None:
    sizes = MTLSTMConfig(3, 4)
    save_native(EncoderModel(sizes, MTLSTM(sizes).state_dict(), {"lang": "en"}), model)
    result = adapt(*options)
    assert result.exit_code == 1 and "is not a biLM" in printed(result)
