"""`spacy ctxvec evaluate-lm`: the figures are those of `training.perplexity`, of any text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from printing import printed
from spacy.cli._util import app
from typer.testing import CliRunner, Result

from spacy_ctxvec.formats.native import EncoderModel, save_native, save_softmax
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.building import build_corpus
from spacy_ctxvec.training.perplexity import evaluate

WORDS = ["<S>", "</S>", "<UNK>", "the", "bank", ".", "river", "a"]
TEXT = "The bank of the river. A bank.\n\nthe river bank is a bank .\n\na bank\n"


@pytest.fixture
def make(tmp_path: Path, tiny_config: BiLMConfig):
    """`make(info, width)`: a model folder `model`, whose softmax reads layers of `width`."""

    def write(info: dict[str, object], width: int = tiny_config.token_width) -> Path:
        folder = tmp_path / "work" / "model"
        save_native(EncoderModel(tiny_config, BiLM(tiny_config).state_dict(), info), folder)
        softmax = WordSoftmax(input_width=width, width=4, n_words=len(WORDS))
        save_softmax(softmax, WORDS, folder)
        return folder

    return write


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, "utf8")
    return path


def run(*arguments: object, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["ctxvec", "evaluate-lm", *map(str, arguments)], input=given)


def expected(folder: Path, text: Path, unit: str, max_tokens: int | None) -> dict[str, object]:
    from spacy_ctxvec.formats.native import load_native, load_softmax

    corpus = build_corpus(
        [text], folder.parent / "corpus", lang="en", unit=unit, max_tokens=10_000
    ).recoded(WORDS)
    softmax, _ = load_softmax(folder)
    return evaluate(load_native(folder).build(), softmax, corpus, max_tokens).rounded()


@pytest.mark.parametrize("unit", ["paragraph", "sentence", "document"])
@pytest.mark.parametrize("max_tokens", [None, 7])
def test_the_figures_are_those_of_a_direct_call(make, text, unit, max_tokens) -> None:
    folder = make({"lang": "en", "name": "tiny"})
    limit = ["--max-tokens", max_tokens] if max_tokens else []
    result = run(folder, text, "--unit", unit, "--json", *limit)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    want = expected(folder, text, unit, max_tokens)
    assert {name: found[name] for name in want} == want
    assert (found["name"], found["n_words"], found["unit"]) == ("tiny", len(WORDS), unit)


def test_in_words_of_a_working_folder(make, text) -> None:
    folder = make({"lang": "en", "name": "tiny"})
    result = run(folder.parent, text)
    assert result.exit_code == 0, result.output
    want = expected(folder, text, "paragraph", None)
    for said in (
        f"{want['forward']:,.2f}",
        f"{want['backward_marks']:,.2f}",
        f"{want['n_tokens']:,} tokens",
        f"{want['unknown_rate']:.1%}",
        "sentence marks",
        "do not compare",
    ):
        assert said in printed(result)


def test_folders_and_standard_input_are_read(make, text, tmp_path) -> None:
    folder = make({"lang": "en"})
    (tmp_path / "texts").mkdir()
    text.rename(tmp_path / "texts" / "text.txt")
    of_folder = json.loads(run(folder, tmp_path / "texts", "--json").stdout)
    of_input = json.loads(run(folder, "-", "--json", given=TEXT).stdout)
    assert of_folder == of_input and of_input["n_tokens"] == 18


def test_the_language_must_be_known(make, text) -> None:
    folder = make({})
    result = run(folder, text)
    assert result.exit_code == 1 and "--lang" in printed(result)
    assert json.loads(run(folder, text, "--lang", "de", "--json").stdout)["lang"] == "de"


def test_a_model_without_softmax(make, text) -> None:
    result = run("en_sm", text)
    assert result.exit_code == 1 and "holds no softmax.safetensors" in printed(result)
    folder = make({"lang": "en"})
    (folder / "softmax.safetensors").unlink()
    result = run(folder, text)
    assert result.exit_code == 1 and "softmax.safetensors" in printed(result)


def test_a_softmax_of_another_model(make, text) -> None:
    result = run(make({"lang": "en"}, width=5), text)
    assert result.exit_code == 1 and "input width should be 6" in printed(result)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.txt"], "No file in"),
        (["{text}", "--unit", "page"], 'unit = "page"'),
        (["{text}", "--lang", "qq"], 'lang = "qq"'),
        (["{empty}"], "holds no words"),
    ],
)
def test_mistakes_are_named(make, text, tmp_path, arguments, said) -> None:
    (tmp_path / "empty.txt").write_text("\n", "utf8")
    places = {"text": text, "empty": tmp_path / "empty.txt"}
    result = run(make({"lang": "en"}), *(one.format(**places) for one in arguments))
    assert result.exit_code == 1
    assert said in printed(result)


def test_no_model_and_no_finished_one(text, tmp_path) -> None:
    result = run(tmp_path / "absent", text)
    assert result.exit_code == 1 and "no such file or folder" in printed(result)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.pt").write_bytes(b"")
    result = run(tmp_path / "begun", text)
    assert result.exit_code == 1 and "come to its end" in printed(result)
