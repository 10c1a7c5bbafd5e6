"""Which format a path holds is found from content."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.native import EncoderModel, save_native

OPTIONS = {
    "lstm": {"dim": 2, "projection_dim": 2, "n_layers": 1},
    "char_cnn": {"embedding": {"dim": 1}, "filters": [[1, 2]], "activation": "relu"},
}
SHAPES = {"char_embed": (261, 1), "CNN/W_cnn_0": (1, 1, 1, 2), "CNN/b_cnn_0": (2,)}
for _direction in (0, 1):
    _cell = f"RNN_{_direction}/RNN/MultiRNNCell/Cell0/LSTMCell"
    SHAPES |= {f"{_cell}/W_0": (4, 8), f"{_cell}/B": (8,)}


def write_options(path: Path) -> Path:
    path.write_text(json.dumps(OPTIONS), "utf8")
    return path


def write_weights(path: Path, value: float = 0.0) -> Path:
    with h5py.File(path, "w") as file:
        for name, shape in SHAPES.items():
            file[name] = np.full(shape, value, "float32")
    return path


def value_of(model: EncoderModel) -> float:
    return model.weights["char_encoder.convolutions.0.bias"][0].item()


@pytest.fixture
def elmo(tmp_path):
    """A folder whose file names tell nothing."""
    write_options(tmp_path / "first.json")
    write_weights(tmp_path / "second.bin", 1.0)
    return tmp_path


@pytest.fixture
def native(tmp_path, tiny_model):
    folder = tmp_path / "native"
    save_native(EncoderModel(tiny_model.config, tiny_model.state_dict(), {"lang": "en"}), folder)
    return folder


@pytest.mark.parametrize("name", ["", "first.json", "second.bin"])
def test_an_elmo_folder_and_its_files(elmo, name):
    assert value_of(load_model(elmo / name)) == 1.0


def test_a_path_may_be_text(elmo):
    assert value_of(load_model(str(elmo))) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["", "config.json", "model.safetensors"])
def test_a_native_folder_and_its_files(native, name, tiny_config):
    model = load_model(native / name)
    assert model.config == tiny_config and model.info["lang"] == "en"


def test_a_native_folder_without_its_weights_says_so(native):
    (native / "model.safetensors").unlink()
    with pytest.raises(MalformedModelError, match=r"model\.safetensors"):
        load_model(native)


def test_a_native_folder_with_a_broken_config_says_so(native):
    (native / "config.json").write_text("{", "utf8")
    with pytest.raises(MalformedModelError, match=r"config\.json"):
        load_model(native)


@pytest.mark.parametrize("name", ["small_options.json", "lm_small-weights.hdf5"])
def test_matching_names_make_the_pair(tmp_path, name):
    for size, value in (("small", 1.0), ("big", 2.0)):
        write_options(tmp_path / f"{size}_options.json")
        write_weights(tmp_path / f"lm_{size}-weights.hdf5", value)
    assert value_of(load_model(tmp_path / name)) == 1.0
    with pytest.raises(CtxvecError, match="several models") as error:
        load_model(tmp_path)
    assert "big_options.json" in str(error.value)


def test_one_of_two_weights_has_the_matching_name(tmp_path):
    write_options(tmp_path / "options.json")
    write_weights(tmp_path / "weights.hdf5", 1.0)
    write_weights(tmp_path / "weights_zero.hdf5", 0.0)
    assert value_of(load_model(tmp_path)) == 1.0
    assert value_of(load_model(tmp_path / "weights_zero.hdf5")) == 0.0


def test_embeddings_and_other_json_files_are_no_candidates(elmo):
    with h5py.File(elmo / "embeddings.hdf5", "w") as file:
        file["0"] = np.zeros((2, 3, 16), "float32")
    (elmo / "sentences.json").write_text('[["A", "sentence"]]', "utf8")
    (elmo / "vocab.txt").write_text("<S>\n</S>\n<UNK>", "utf8")
    assert value_of(load_model(elmo)) == 1.0
    with pytest.raises(CtxvecError, match=r"Found: embeddings\.hdf5\. Expected"):
        load_model(elmo / "embeddings.hdf5")


def test_the_only_weights_cut_off(elmo):
    path = elmo / "second.bin"
    path.write_bytes(path.read_bytes()[:700])
    with pytest.raises(MalformedModelError, match="a whole HDF5 file"):
        load_model(elmo)


def test_what_was_found_is_listed(tmp_path):
    (tmp_path / "char.dic").write_text("a\t0", "utf8")
    (tmp_path / "folder").mkdir()
    write_options(tmp_path / "options.json")
    with pytest.raises(CtxvecError, match=r"Found: char\.dic, folder/, options\.json\. Expected"):
        load_model(tmp_path)


def test_long_and_empty_listings(tmp_path):
    with pytest.raises(CtxvecError, match="Found: nothing"):
        load_model(tmp_path)
    for i in range(30):
        (tmp_path / f"{i:02}").touch()
    with pytest.raises(CtxvecError, match="19, and 10 more"):
        load_model(tmp_path)


def test_no_such_path(tmp_path):
    with pytest.raises(CtxvecError, match="no such file or folder"):
        load_model(tmp_path / "none")


def test_the_public_folders(reference):
    for name in ("bilm-tf/model", "allennlp/elmo", "generated/tf_tiny"):
        assert load_model(reference / name).config.n_layers == 2
    assert load_model(reference / "allennlp/elmo_multilingual/fr").info["name"] == "weights"


def test_a_copy_under_other_names(reference, tmp_path):
    folder = reference / "bilm-tf/model"
    shutil.copy(folder / "options.json", tmp_path / "a.json")
    shutil.copy(folder / "lm_weights.hdf5", tmp_path / "b")
    want = load_model(folder).weights
    assert all((w == want[name]).all() for name, w in load_model(tmp_path).weights.items())
