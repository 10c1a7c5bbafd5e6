"""`spacy ctxvec convert`: any model in, a model folder or a package out, checked on the way."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from bundles import write_bundle
from click.testing import Result
from efml_files import write_efml
from elmo_files import make_arrays, make_options, write
from printing import printed
from spacy.cli._util import app
from thinc.api import Config
from typer.testing import CliRunner

from spacy_ctxvec.analysis import self_check as checking
from spacy_ctxvec.cli.opening import model_block, open_pipeline
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.native import EncoderModel, check_sizes, save_native, save_softmax
from spacy_ctxvec.formats.remote import sha256_of
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.architectures import new_encoder
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax


def convert(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["ctxvec", "convert", *map(str, arguments)])


@pytest.fixture
def elmo(tmp_path: Path) -> Path:
    folder = tmp_path / "elmo"
    folder.mkdir()
    write(folder, make_options(), make_arrays())
    return folder


def as_allennlp(folder: Path) -> Path:
    """The ELMo of a folder, inside a task's model as AllenNLP keeps it."""
    model = load_model(folder)
    config, ours = model.config, model.weights
    start = "text_field_embedder.token_embedder_elmo._elmo."
    tokens, lstms = f"{start}_elmo_lstm._token_embedder.", f"{start}_elmo_lstm._elmo_lstm."
    chars = {k.removeprefix("char_encoder."): v for k, v in ours.items() if k.startswith("char")}
    tensors = {
        f"{tokens}_char_embedding_weights": chars["embedding.weight"],
        f"{tokens}_projection.weight": chars["projection.weight"],
        f"{tokens}_projection.bias": chars["projection.bias"],
        "encoder.weight": torch.ones(3),
        "encoder.n_steps": torch.tensor(7),
    }
    for i in range(len(config.filters)):
        for part in ("weight", "bias"):
            tensors[f"{tokens}char_conv_{i}.{part}"] = chars[f"convolutions.{i}.{part}"]
    for k in range(config.n_highway):
        for part in ("weight", "bias"):
            parts = [chars[f"highways.{k}.transform.{part}"], -chars[f"highways.{k}.gate.{part}"]]
            tensors[f"{tokens}_highways._layers.{k}.{part}"] = torch.cat(parts)
    names = {
        "input_linearity.weight": "weight_ih",
        "state_linearity.weight": "weight_hh",
        "state_linearity.bias": "bias",
        "state_projection.weight": "weight_hr",
    }
    hidden = config.hidden_width
    for direction, layer in np.ndindex(2, config.n_layers):
        stack = ("forward", "backward")[direction]
        for theirs, own in names.items():
            tensor = ours[f"{stack}_lstms.{layer}.{own}"].clone()
            if own == "bias":
                tensor[hidden : 2 * hidden] += 1  # added when the weights were first loaded
            tensors[f"{lstms}{stack}_layer_{layer}.{theirs}"] = tensor
    for j, weight in enumerate((0.5, -1.0, 2.0)):
        tensors[f"{start}scalar_mix_0.scalar_parameters.{j}"] = torch.tensor([weight])
    tensors[f"{start}scalar_mix_0.gamma"] = torch.tensor([1.5])
    out = folder.parent / "allennlp"
    out.mkdir()
    torch.save(tensors, out / "weights.th")
    (out / "config.json").write_text('{"model": {"type": "simple_tagger"}}', "utf8")
    (out / "options.json").write_bytes((folder / "options.json").read_bytes())
    return out


def zipped(folder: Path, inner: str = "") -> Path:
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w") as archive:
        for file in folder.iterdir():
            archive.write(file, f"{inner}{file.name}")
    return path


def layers(model: object, sentence: str = "The bank of the river") -> np.ndarray:
    return open_pipeline(str(model))(sentence)._.ctxvec.layers


def test_a_folder_becomes_a_model_folder(elmo: Path, tmp_path: Path) -> None:
    result = convert(elmo, tmp_path / "out", "--lang", "de")
    assert result.exit_code == 0, result.output
    said = printed(result)
    for part in (
        "elmo",
        "language de",
        "weights.hdf5",
        "sha256",
        "plain equations",
        "hidden_width 6",
    ):
        assert part in said
    assert np.array_equal(layers(tmp_path / "out"), layers(elmo))
    assert load_model(tmp_path / "out").info["lang"] == "de"
    again = convert(elmo, tmp_path / "out")
    assert again.exit_code == 1 and "--force" in printed(again)
    assert convert(elmo, tmp_path / "out", "--force").exit_code == 0


@pytest.mark.parametrize("inner", ["", "elmo/"])
def test_an_archive(elmo: Path, tmp_path: Path, inner: str) -> None:
    result = convert(zipped(elmo, inner), tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["name"] == "elmo" and report["largest_difference"] < 1e-5
    assert np.array_equal(layers(tmp_path / "out"), layers(elmo))


def test_an_archive_of_what_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("words", "utf8")
    path = zipped(tmp_path / "text")
    result = convert(path, tmp_path / "out")
    assert result.exit_code == 1 and str(path) in printed(result) and "a.txt" in printed(result)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [True, False])
def test_an_elmo_inside_a_model_of_allennlp(elmo: Path, tmp_path: Path, options: bool) -> None:
    """Without its options, what shapes do not tell is taken from the published models."""
    folder = as_allennlp(elmo)
    if not options:
        (folder / "options.json").unlink()
    result = convert(zipped(folder), tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["family"] == "allennlp-archive"
    assert report["mixes"] == [{"weights": [0.5, -1.0, 2.0], "gamma": 1.5}]
    assert ("assumed" in report) != options
    np.testing.assert_allclose(layers(tmp_path / "out"), layers(elmo), atol=1e-6)


def test_models_of_allennlp_that_hold_no_elmo_or_too_little(elmo: Path, tmp_path: Path) -> None:
    folder = as_allennlp(elmo)
    tensors = torch.load(folder / "weights.th", weights_only=True)
    for change in ("none", "part", "shape"):
        damaged = dict(tensors)
        name = next(
            name for name in tensors if name.endswith("forward_layer_0.state_linearity.bias")
        )
        if change == "none":
            damaged = {"encoder.weight": torch.ones(3)}
        elif change == "part":
            del damaged[name]
        else:
            damaged[name] = torch.ones(2)
        torch.save(damaged, folder / "weights.th")
        result = convert(folder, tmp_path / "out")
        assert result.exit_code == 1 and "weights.th" in printed(result)


def test_a_checkpoint_brings_its_softmax(tmp_path: Path) -> None:
    arrays = make_arrays()
    start = "lm/"
    spellings = {
        "/RNN/MultiRNNCell/Cell": "/rnn/multi_rnn_cell/cell_",
        "/LSTMCell/W_0": "/lstm_cell/kernel",
        "/LSTMCell/B": "/lstm_cell/bias",
        "/LSTMCell/W_P_0": "/lstm_cell/projection/kernel",
    }
    tensors = {}
    for name, array in arrays.items():
        for old, new in spellings.items():
            name = name.replace(old, new)
        tensors[start + name] = array
    words = ["<S>", "</S>", "<UNK>", "the", "bank"]
    random = np.random.default_rng(0)
    tensors[start + "softmax/W"] = random.normal(size=(len(words), 5)).astype("float32")
    tensors[start + "softmax/b"] = random.normal(size=len(words)).astype("float32")
    (tmp_path / "ckpt").mkdir()
    write_bundle(tmp_path / "ckpt" / "model.ckpt-10", tensors)
    (tmp_path / "ckpt" / "vocab.txt").write_text("\n".join(words), "utf8")
    (tmp_path / "ckpt" / "options.json").write_text(json.dumps(make_options()), "utf8")
    result = convert(tmp_path / "ckpt", tmp_path / "out", "--lang", "en")
    assert result.exit_code == 0, result.output
    assert "over 5 words" in printed(result)
    (tmp_path / "text.txt").write_text("the bank of the bank\n", "utf8")
    command = ["ctxvec", "evaluate-lm", str(tmp_path / "out"), str(tmp_path / "text.txt"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["forward"] > 1


def test_a_folder_of_elmoformanylangs(tmp_path: Path) -> None:
    write_efml(tmp_path / "xx.model")
    result = convert(tmp_path / "xx.model", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "elmoformanylangs" in printed(result)
    assert np.array_equal(layers(tmp_path / "out", "abc d"), layers(tmp_path / "xx.model", "abc d"))


def test_cross_lingual_alignment(elmo: Path, tmp_path: Path) -> None:
    """Aligning every layer is aligning their mix."""
    matrix = torch.randn(10, 10)
    torch.save(matrix, tmp_path / "align.pth")
    result = convert(elmo, tmp_path / "out", "--alignment", tmp_path / "align.pth")
    assert result.exit_code == 0, result.output
    want = layers(elmo) @ matrix.numpy().T
    np.testing.assert_allclose(layers(tmp_path / "out"), want, atol=1e-5)
    torch.save(torch.ones(3, 3), tmp_path / "align.pth")
    result = convert(elmo, tmp_path / "other", "--alignment", tmp_path / "align.pth")
    assert result.exit_code == 1 and "(10, 10)" in printed(result)


@pytest.mark.parametrize("name", ["align.pth", "align.npy"])
def test_alignments_as_numpy_has_them(elmo: Path, tmp_path: Path, name: str) -> None:
    """As the programs that make them save them; the second one comes after the first."""
    matrix = 3 * np.eye(10, dtype=np.float64 if name.endswith("npy") else np.float32)
    if name.endswith("npy"):
        np.save(tmp_path / name, matrix)
    else:
        torch.save(matrix, tmp_path / name)
    for source, out in ((elmo, "once"), (tmp_path / "once", "twice")):
        result = convert(source, tmp_path / out, "--alignment", tmp_path / name)
        assert result.exit_code == 0, result.output
    np.testing.assert_allclose(layers(tmp_path / "twice"), 9 * layers(elmo), rtol=1e-5)
    assert not load_model(tmp_path / "twice").build().has_statistics


def test_a_warm_start(elmo: Path, tmp_path: Path) -> None:
    """Every text starts from one state that is not zero, alone or in a batch."""
    (tmp_path / "text.txt").write_text("A bank.\n\nThe river and its bank\n" * 50, "utf8")
    result = convert(elmo, tmp_path / "out", "--warm-up", tmp_path / "text.txt")
    assert result.exit_code == 0, result.output
    nlp = open_pipeline(str(tmp_path / "out"))
    assert nlp.config["components"]["ctxvec"]["model"]["state"] == "warm"
    texts = ["The bank", "A river of the bank and the bank", "bank"]
    alone = [nlp(text)._.ctxvec.layers for text in texts]
    for doc, want in zip(nlp.pipe(texts), alone):
        np.testing.assert_allclose(doc._.ctxvec.layers, want, atol=1e-6)
    assert np.abs(alone[0] - layers(elmo, texts[0])).max() > 0.01
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")(texts[1])._.ctxvec.layers
    assert np.array_equal(again, nlp(texts[1])._.ctxvec.layers)
    (tmp_path / "empty.txt").write_text("\n\n", "utf8")
    result = convert(elmo, tmp_path / "none", "--warm-up", tmp_path / "empty.txt")
    assert result.exit_code == 1 and "no sentence" in printed(result)


def test_a_package_that_installs(elmo: Path, tmp_path: Path) -> None:
    result = convert(elmo, tmp_path / "out", "--lang", "en", "--package")
    assert result.exit_code == 0, result.output
    folder = tmp_path / "out" / "en_weights-1.0.0"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index",
               "--no-build-isolation", "--target", str(tmp_path / "site"), str(folder)]  # fmt: skip
    subprocess.run(command, check=True)
    code = "import spacy; print(spacy.load('en_weights')('The bank')._.ctxvec.layers.shape)"
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.split("\n")[0] == "(2, 3, 10)"
    again = convert(elmo, tmp_path / "out", "--lang", "en", "--package")
    assert again.exit_code == 1 and "--force" in printed(again)


def test_vectors_that_are_not_those_of_the_equations(
    elmo: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(checking.plain, "ACTIVATIONS", {"relu": lambda x: x})
    result = convert(elmo, tmp_path / "out")
    assert result.exit_code == 1 and "Nothing was written" in printed(result)
    assert not (tmp_path / "out").exists()


def test_the_blocks_for_a_training_config(elmo: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A bank.\n" * 9, "utf8")
    assert convert(elmo, tmp_path / "out", "--warm-up", tmp_path / "text.txt").exit_code == 0
    blocks = Config().from_disk(tmp_path / "out" / "component.cfg")
    nlp = spacy.blank("en")
    nlp.add_pipe("ctxvec", config={"model": blocks["components"]["ctxvec"]["model"]})
    nlp.config["initialize"]["components"] = blocks["initialize"]["components"]
    nlp.initialize()
    got = nlp("The bank")._.ctxvec.layers
    np.testing.assert_array_equal(got, layers(tmp_path / "out", "The bank"))


def test_settings_that_no_shape_tells(elmo: Path) -> None:
    """The forget bias may be in the weights or beside them; another clip is another encoder."""
    model = load_model(elmo)
    block = model_block(model)

    def loaded(**changes: object) -> spacy.Language:
        nlp = spacy.blank("en")
        nlp.add_pipe("ctxvec", config={"model": {**block, **changes}})
        loader = {"@misc": "spacy-ctxvec.load_model.v1", "path": str(elmo)}
        nlp.config["initialize"]["components"] = {"ctxvec": {"loader": loader}}
        nlp.initialize()
        return nlp

    got = loaded(forget_bias=0.0)("The bank of the river")._.ctxvec.layers
    np.testing.assert_allclose(got, layers(elmo), atol=1e-6)
    for name, value in {"cell_clip": 1.0, "skip": False, "max_characters": 7}.items():
        with pytest.raises(CtxvecError, match=f"Write {name} = "):
            loaded(**{name: value})
    with pytest.raises(CtxvecError, match="--warm-up"):
        loaded(state="warm")


def test_a_warm_model_may_be_read_cold(elmo: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A bank.\n" * 9, "utf8")
    assert convert(elmo, tmp_path / "out", "--warm-up", tmp_path / "text.txt").exit_code == 0
    model = load_model(tmp_path / "out")
    cold_block = {**model_block(model), "state": "reset"}
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("ctxvec", config={"model": cold_block})
    shim_of(pipe.model).adopt("cold", model)
    np.testing.assert_array_equal(nlp("The bank")._.ctxvec.layers, layers(elmo, "The bank"))


def test_what_is_read_is_not_replaced(elmo: Path, tmp_path: Path) -> None:
    """Nor is anything that this package has not written."""
    for out in (elmo, elmo.parent):
        result = convert(elmo, out, "--force")
        assert result.exit_code == 1 and (elmo / "weights.hdf5").exists()
    other = tmp_path / "other"
    other.mkdir()
    for name in ("options.json", "weights.hdf5"):
        (other / name).write_bytes((elmo / name).read_bytes())
    result = convert(elmo, other, "--force")
    assert result.exit_code == 1 and "other content" in printed(result)
    assert (other / "weights.hdf5").exists()


def test_what_came_with_a_model_goes_with_it(work: Path, tmp_path: Path) -> None:
    result = convert(work, tmp_path / "out", "--lang", "en")
    assert result.exit_code == 0, result.output
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"README.md", "softmax.safetensors", "vocab.txt", "component.cfg"} <= names


@pytest.fixture
def work(tmp_path: Path, tiny_model: BiLM) -> Path:
    folder = tmp_path / "own"
    model = EncoderModel(tiny_model.config, tiny_model.state_dict(), {"name": "en_own"})
    save_native(model, folder, card="# A card")
    words = ["<S>", "</S>", "<UNK>", "the"]
    softmax = WordSoftmax(input_width=tiny_model.config.token_width, width=4, n_words=len(words))
    save_softmax(softmax, words, folder)
    return folder


def test_a_package_whose_name_has_its_language(work: Path, tmp_path: Path) -> None:
    result = convert(work, tmp_path / "out", "--lang", "en", "--package", "--json")
    assert result.exit_code == 0, result.output
    assert Path(json.loads(result.stdout)["out"]).is_dir()
    result = convert(work, tmp_path / "out", "--package", "--dtype", "float16")
    assert result.exit_code == 1 and "--dtype" in printed(result)


def test_a_vocabulary_that_does_not_fit_is_left_out(tmp_path: Path) -> None:
    tensors = {"lm/" + name: array for name, array in make_arrays().items()} | {
        "lm/softmax/W": np.zeros((5, 5), "float32"),
        "lm/softmax/b": np.zeros(5, "float32"),
    }
    (tmp_path / "ckpt").mkdir()
    write_bundle(tmp_path / "ckpt" / "model.ckpt-1", tensors)
    (tmp_path / "ckpt" / "vocab.txt").write_text("<S>\n</S>\n<UNK>\nthe\n", "utf8")
    (tmp_path / "ckpt" / "options.json").write_text(json.dumps(make_options()), "utf8")
    result = convert(tmp_path / "ckpt" / "model.ckpt-1", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert "left out" in printed(result)


def test_a_checksum_that_is_not_that_of_the_file(elmo: Path, tmp_path: Path) -> None:
    path = zipped(elmo)
    result = convert(path, tmp_path / "out", "--sha256", "0" * 64)
    assert result.exit_code == 1 and "sha256" in printed(result)
    assert convert(path, tmp_path / "out", "--sha256", sha256_of(path)[:12]).exit_code == 0


def test_options_as_archives_of_allennlp_keep_them(elmo: Path, tmp_path: Path) -> None:
    folder = as_allennlp(elmo)
    (folder / "fta").mkdir()
    (folder / "options.json").rename(folder / "fta" / "model.token_embedders.elmo.options_file")
    result = convert(folder, tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    assert "assumed" not in json.loads(result.stdout)


def test_archives_in_archives_stay_packed(elmo: Path, tmp_path: Path) -> None:
    inner = zipped(elmo)
    outer = tmp_path / "outer.zip"
    with zipfile.ZipFile(outer, "w") as archive:
        archive.write(inner, "inner.zip")
    result = convert(outer, tmp_path / "out")
    assert result.exit_code == 1 and not (tmp_path / "out").exists()


def test_public_models_are_listed(tmp_path: Path) -> None:
    assert "elmo-original" in convert("--list").output
    assert "cove" in json.loads(convert("--list", "--json").stdout)
    result = convert(tmp_path / "absent")
    assert result.exit_code == 1 and "MODEL OUT" in printed(result)
    result = convert("ftp://host/model", tmp_path / "out")
    assert result.exit_code == 1 and "no address" in printed(result)
    result = convert(tmp_path / "absent", tmp_path / "out")
    assert result.exit_code == 1 and "no such file" in printed(result)


@pytest.mark.parametrize("option", ["--alignment", "--warm-up"])
def test_options_that_are_for_bilms(tmp_path: Path, option: str) -> None:
    lstm = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    torch.save(lstm.state_dict(), tmp_path / "cove.pth")
    torch.save(torch.eye(8), tmp_path / "file")
    if option == "--warm-up":
        (tmp_path / "file").write_text("text", "utf8")
    result = convert(tmp_path / "cove.pth", tmp_path / "out", option, tmp_path / "file")
    assert result.exit_code == 1 and "only biLMs" in printed(result)


def test_weights_of_another_start_do_not_fit(tiny_config: BiLMConfig) -> None:
    cold, warm = new_encoder(tiny_config), new_encoder(replace(tiny_config, warm=True))
    with pytest.raises(CtxvecError, match="start_"):
        check_sizes(warm, dict(cold.state_dict()))
