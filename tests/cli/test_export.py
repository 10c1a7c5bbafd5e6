"""`spacy ctxvec export`: nothing changes on the way, and nothing is overwritten unasked."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import spacy
import torch
from printing import printed
from spacy.cli._util import app
from spacy.strings import get_string_id
from toys import trained
from typer.testing import CliRunner, Result

from spacy_ctxvec.cli.opening import open_pipeline
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.native import (
    EncoderModel,
    load_native,
    load_softmax,
    save_native,
    save_softmax,
)
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.nn.bilm import BiLM
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax

TEXT = "The bank of the river, and a bank."
WORDS = ["<S>", "</S>", "<UNK>", "the", "bank"]


@pytest.fixture(params=["float32", "float16"])
def work(request: pytest.FixtureRequest, tmp_path: Path, tiny_model: BiLM) -> Path:
    """A working folder with a model in it."""
    info = {"name": "tiny", "lang": "en", "licence": "CC0"}
    model = EncoderModel(tiny_model.config, tiny_model.state_dict(), info)
    folder = tmp_path / "work" / "model"
    save_native(model, folder, dtype=request.param, card="# A card")
    softmax = WordSoftmax(input_width=tiny_model.config.token_width, width=4, n_words=len(WORDS))
    save_softmax(softmax, WORDS, folder, dtype=request.param)
    return folder.parent


def export(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ctxvec", "export", *map(str, arguments)])


def same(a: EncoderModel, b: EncoderModel) -> bool:
    return a.config == b.config and all(
        torch.equal(weight, b.weights[name]) and weight.dtype == b.weights[name].dtype
        for name, weight in a.weights.items()
    )


def test_a_model_folder_goes_round_unchanged(work: Path, tmp_path: Path) -> None:
    result = export(work, tmp_path / "out", "--with-softmax", "--json")
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert "softmax.safetensors" in record["files"] and record["bytes"] > 0
    for name in record["files"]:
        assert (tmp_path / "out" / name).read_bytes() == (work / "model" / name).read_bytes()
    assert len(record["files"]) == len(list((work / "model").iterdir()))


def test_the_softmax_comes_only_when_asked_for(work: Path, tmp_path: Path) -> None:
    assert export(work / "model", tmp_path / "out").exit_code == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"config.json", "model.safetensors", "README.md"}
    result = export(tmp_path / "out", tmp_path / "again", "--with-softmax")
    assert result.exit_code == 1 and "softmax.safetensors" in printed(result)
    assert not (tmp_path / "again").exists()


def test_another_precision_and_language(work: Path, tmp_path: Path) -> None:
    options = ("--dtype", "float16", "--lang", "sv", "--with-softmax")
    assert export(work, tmp_path / "out", *options).exit_code == 0
    found = load_native(tmp_path / "out")
    assert found.dtype == "float16" and found.info["lang"] == "sv"
    halves = {name: w.half() for name, w in load_native(work / "model").weights.items()}
    assert same(EncoderModel(found.config, halves), found)
    assert load_softmax(tmp_path / "out")[1] == WORDS


def test_a_pipeline_has_the_same_vectors(work: Path, tmp_path: Path) -> None:
    result = export(work, tmp_path / "pipeline", "--format", "spacy")
    assert result.exit_code == 0, result.output
    nlp = spacy.load(tmp_path / "pipeline")
    assert nlp.pipe_names == ["ctxvec"] and nlp.meta["license"] == "CC0"
    assert nlp.meta["name"] == "tiny"
    want = open_pipeline(str(work / "model"))(TEXT)
    assert np.array_equal(nlp(TEXT)._.ctxvec.layers, want._.ctxvec.layers)
    assert nlp.get_pipe("ctxvec").model.get_dim("nO") == 12


def test_a_pipeline_that_knows_words_from_the_start(work: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("the\nbank\nthe\n", "utf8")
    out = tmp_path / "pipeline"
    assert export(work, out, "-f", "spacy", "--words", words).exit_code == 0
    assert export(out, tmp_path / "again", "-f", "spacy", "--lang", "sv").exit_code == 0
    want = open_pipeline(str(work / "model"))(TEXT)._.ctxvec.layers
    for folder in (out, tmp_path / "again"):
        nlp = spacy.load(folder)
        kept = nlp.get_pipe("ctxvec").model.shims[0].inputs.table
        assert set(kept.keys.tolist()) == {get_string_id("the"), get_string_id("bank")}
        np.testing.assert_allclose(nlp(TEXT)._.ctxvec.layers, want, atol=1e-5)
    assert export(out, tmp_path / "half", "--dtype", "float16").exit_code == 0
    assert load_native(tmp_path / "half").vectors is None


def test_out_of_a_pipeline_and_back(work: Path, tmp_path: Path) -> None:
    export(work, tmp_path / "pipeline", "--format", "spacy", "--lang", "sv")
    assert spacy.load(tmp_path / "pipeline").lang == "sv"
    assert export(tmp_path / "pipeline", tmp_path / "out").exit_code == 0
    found = load_native(tmp_path / "out")
    whole = {name: w.float() for name, w in load_native(work / "model").weights.items()}
    assert same(EncoderModel(found.config, whole), found)
    assert found.info["lang"] == "sv" and found.info["name"] == "tiny"
    result = export(tmp_path / "pipeline", tmp_path / "never", "--with-softmax")
    assert result.exit_code == 1 and "encoders alone" in printed(result)


def test_the_encoder_of_a_trained_pipeline(tmp_path: Path) -> None:
    nlp, _ = trained(("tagger",), frozen=True)
    nlp.to_disk(tmp_path / "trained")
    want = nlp(TEXT)._.ctxvec.layers
    assert export(tmp_path / "trained", tmp_path / "alone", "-f", "spacy").exit_code == 0
    alone = spacy.load(tmp_path / "alone")
    assert alone.pipe_names == ["ctxvec"]
    assert np.array_equal(alone(TEXT)._.ctxvec.layers, want)
    assert export(tmp_path / "trained", tmp_path / "native").exit_code == 0
    assert np.array_equal(open_pipeline(str(tmp_path / "native"))(TEXT)._.ctxvec.layers, want)


def test_the_shipped_model_keeps_its_licence(tmp_path: Path) -> None:
    assert export("en_sm", tmp_path / "out").exit_code == 0
    assert (tmp_path / "out" / "LICENSE").is_file()
    assert load_model(tmp_path / "out").info["name"] == "en_sm"


def test_only_models_and_pipelines_are_replaced(work: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(work, out, "--with-softmax")
    result = export(work, out)
    assert result.exit_code == 1 and "--force" in printed(result)
    assert export(work, out, "--force").exit_code == 0
    assert not (out / "softmax.safetensors").exists()  # nothing stays of the model before
    assert export(work, out, "--force", "--format", "spacy").exit_code == 0
    assert export(out, out, "--force").exit_code == 0
    assert load_native(out).info["name"] == "tiny"
    (out / "notes.txt").write_text("mine", "utf8")
    result = export(work, out, "--force")
    assert result.exit_code == 1 and "notes.txt" in printed(result)
    assert (out / "notes.txt").exists()
    result = export(work, out / "notes.txt", "--force")
    assert result.exit_code == 1 and "a file" in printed(result)
    (tmp_path / "empty").mkdir()
    assert export(work, tmp_path / "empty").exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "out", "work"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--format", "spacy", "--with-softmax"], "--with-softmax is for --format native"),
        (["--format", "hdf5", "--words", "w.txt"], "--words is for --format tokens or spacy"),
        (["--format", "efml", "--lang", "de"], "--lang is for --format native or spacy, and not"),
        (["--format", "spacy", "--dtype", "float16"], "--dtype is for --format native"),
        (["--format", "spacy", "--lang", "qq"], 'lang = "qq"'),
    ],
)
def test_options_that_a_format_cannot_take(
    work: Path, tmp_path: Path, arguments: list[str], said: str
) -> None:
    result = export(work, tmp_path / "out", *arguments)
    assert result.exit_code == 1 and said in printed(result)


def test_there_must_be_a_model(tmp_path: Path) -> None:
    result = export(tmp_path / "absent", tmp_path / "out")
    assert result.exit_code == 1 and "no such file or folder" in printed(result)
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "checkpoint.pt").write_bytes(b"")
    result = export(tmp_path / "begun", tmp_path / "out")
    assert result.exit_code == 1 and "come to its end" in printed(result)
    assert not (tmp_path / "out").exists()


def cove_model(tmp_path: Path, *, own_vectors: bool) -> Path:
    """An MT-LSTM as a model folder with vectors, or as a pipeline whose vocab has them."""
    sizes = MTLSTMConfig(5, 4)
    words = np.array([get_string_id(word) for word in ("bank", "river")], dtype=np.uint64)
    vectors = np.arange(10, dtype="float32").reshape(2, 5)
    table = WordTable.of(words, np.arange(2), vectors) if own_vectors else None
    info = {"lang": "en", "name": "toy"}
    save_native(EncoderModel(sizes, MTLSTM(sizes).state_dict(), info, table), tmp_path / "cove")
    if own_vectors:
        return tmp_path / "cove"
    nlp = spacy.blank("en")
    for word, vector in zip(("bank", "river"), vectors):
        nlp.vocab.set_vector(word, vector)
    block = {"@architectures": "spacy-ctxvec.CoVe.v1", "width": 8, "input_width": 5}
    nlp.add_pipe("ctxvec", config={"model": block})
    loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(tmp_path / "cove")}
    nlp.config["initialize"]["components"]["ctxvec"] = {"loader": loader}
    nlp.initialize()
    nlp.to_disk(tmp_path / "pipeline")
    return tmp_path / "pipeline"


@pytest.mark.parametrize("own_vectors", [True, False])
def test_an_mt_lstm_takes_its_vectors_along(tmp_path: Path, own_vectors: bool) -> None:
    source, out = cove_model(tmp_path, own_vectors=own_vectors), tmp_path / "out"
    want = open_pipeline(str(source))(TEXT)._.ctxvec.layers
    for _ in range(2):
        result = export(source, out, "--format", "spacy", "--force")
        assert result.exit_code == 0, result.output
    assert np.array_equal(spacy.load(out)(TEXT)._.ctxvec.layers, want) and want.any()


def test_a_model_with_vectors_is_replaced_when_asked(tmp_path: Path) -> None:
    source = cove_model(tmp_path, own_vectors=True)
    for _ in range(2):
        assert export(source, tmp_path / "out", "--force").exit_code == 0
    assert (tmp_path / "out" / "vectors.safetensors").exists()


@pytest.mark.parametrize("from_pipeline", [False, True])
def test_cove_goes_out_as_the_published_file(tmp_path: Path, from_pipeline: bool) -> None:
    source, out = cove_model(tmp_path, own_vectors=True), tmp_path / "out" / "cove.pth"
    if from_pipeline:
        assert export(source, tmp_path / "pipeline", "--format", "spacy").exit_code == 0
    result = export(
        tmp_path / "pipeline" if from_pipeline else source, out, "--format", "pth", "--json"
    )
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["files"] == ["cove.pth"] and record["bytes"] == out.stat().st_size
    lstm = torch.nn.LSTM(5, 4, num_layers=2, bidirectional=True)
    lstm.load_state_dict(torch.load(out, weights_only=True))
    weights = load_model(source).weights
    assert torch.equal(lstm.weight_hh_l1_reverse, weights["backward_lstms.1.weight_hh"].float())
    before = out.read_bytes()
    again = export(source, out, "--format", "pth")
    assert again.exit_code == 1 and "--force" in printed(again) and out.read_bytes() == before
    assert export(source, out, "--format", "pth", "--force").exit_code == 0


def test_a_bilm_has_no_such_file(work: Path, tmp_path: Path) -> None:
    result = export(work, tmp_path / "x.pth", "--format", "pth")
    assert result.exit_code == 1 and "biLM" in printed(result)
    assert not (tmp_path / "x.pth").exists()


@pytest.mark.parametrize("form", ["hdf5", "efml"])
def test_folders_for_others(work: Path, tmp_path: Path, form: str) -> None:
    """A biLM of characters has a place in the one and not in the other."""
    out = tmp_path / "out"
    result = export(work, out, "--format", form)
    if form == "efml":
        assert result.exit_code == 1 and not out.exists()
        return
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["options.json", "weights.hdf5"]
    want = open_pipeline(str(work / "model"))(TEXT)._.ctxvec.layers
    np.testing.assert_allclose(open_pipeline(str(out))(TEXT)._.ctxvec.layers, want, atol=1e-6)
    assert export(work, out, "--format", form).exit_code == 1
    assert export(work, out, "--format", form, "--force").exit_code == 0


def test_vectors_of_words(work: Path, tmp_path: Path, tiny_model: BiLM) -> None:
    words = ["<S>", "</S>", "<UNK>", "bank", "naïve"]
    (tmp_path / "words.txt").write_text("\n".join(words), "utf8")
    result = export(
        work, tmp_path / "out.hdf5", "--format", "tokens", "--words", tmp_path / "words.txt"
    )
    assert result.exit_code == 0, result.output
    model = load_model(work / "model").build()
    with h5py.File(tmp_path / "out.hdf5") as file, torch.no_grad():
        want = model.word_vectors(words, sentence_marks=True).numpy()
        np.testing.assert_allclose(file["embedding"][...], want, atol=1e-6)
    result = export(work, tmp_path / "other.hdf5", "--format", "tokens")
    assert result.exit_code == 1 and "--words" in printed(result)
