"""Options and HDF5 written so that the original programs' readers read them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from elmo_files import make_arrays, make_options, write

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.elmo.export import save_bilm_hdf5
from spacy_ctxvec.formats.elmo.hdf5_pair import read_bilm_hdf5
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig

SIZES = [
    {},
    {"layers": 1, "highway": 0},
    {"dim": 5, "filters": [[1, 2], [2, 3]]},  # no projections
    {"layers": 3, "filters": [[1, 3]], "highway": 2},
]
PUBLIC = {
    "bilm-tf/model": "lm_weights.hdf5",
    "allennlp/elmo": "lm_weights.hdf5",
    "allennlp/elmo_multilingual/es": "weights.hdf5",
    "generated/tf_tiny": "weights.hdf5",
}
SENTENCE = ["A", "naïve", "test", "of", "日本語", ",", "w" * 70, "."]


def arrays_in(path: Path) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.update({name: item[...]}) if hasattr(item, "shape") else None
        )
    return found


def there_and_back(options: Path, weights: Path, folder: Path) -> None:
    """HDF5 to a model folder to HDF5, bit for bit; what is more changes nothing."""
    save_native(read_bilm_hdf5(options, weights), folder / "native")
    save_bilm_hdf5(load_native(folder / "native"), folder / "back")
    before, after = arrays_in(weights), arrays_in(folder / "back/weights.hdf5")
    for name, array in after.items():
        neutral = np.eye(len(array)) if array.ndim > 1 else np.zeros(len(array))
        want = before.get(name, neutral.astype(np.float32))
        assert array.dtype == want.dtype == np.float32
        assert array.tobytes() == np.ascontiguousarray(want).tobytes(), name
    assert before.keys() <= after.keys()
    again = read_bilm_hdf5(folder / "back/options.json", folder / "back/weights.hdf5")
    assert again.config == load_native(folder / "native").config


@pytest.mark.parametrize("sizes", SIZES)
def test_to_the_same_bits(tmp_path, sizes):
    there_and_back(*write(tmp_path, make_options(**sizes), make_arrays(**sizes)), tmp_path)


@pytest.mark.parametrize("name", PUBLIC)
def test_public_files_to_the_same_bits(reference, tmp_path, name):
    folder = reference / name
    there_and_back(folder / "options.json", folder / PUBLIC[name], tmp_path)


def models(tiny_config, tiny_plain_config) -> dict[str, BiLM]:
    """Trained here: the forget bias is in the weights, and projections may be missing."""
    torch.manual_seed(0)
    plain = replace(tiny_plain_config, skip=True, max_characters=50)
    return {"clips": BiLM(replace(tiny_config, max_characters=50)), "plain": BiLM(plain)}


@pytest.mark.parametrize("name", ["clips", "plain"])
def test_own_models_are_read_again(tmp_path, tiny_config, tiny_plain_config, embed, name):
    module = models(tiny_config, tiny_plain_config)[name].eval()
    save_bilm_hdf5(EncoderModel(module.config, dict(module.state_dict())), tmp_path / "out")
    want = embed(module, [SENTENCE])[0]
    got = embed(load_model(tmp_path / "out").build(), [SENTENCE])[0]
    assert np.allclose(got, want, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("name", ["clips", "plain"])
def test_an_independent_reader(reader, tmp_path, tiny_config, tiny_plain_config, embed, name):
    module = models(tiny_config, tiny_plain_config)[name].eval()
    save_bilm_hdf5(EncoderModel(module.config, dict(module.state_dict())), tmp_path)
    theirs = reader.load_bilm(tmp_path / "options.json", tmp_path / "weights.hdf5").embed(SENTENCE)
    assert np.allclose(np.swapaxes(theirs, 0, 1), embed(module, [SENTENCE])[0], atol=1e-6)


def test_a_model_of_words(tmp_path, tiny_config, embed):
    words = ["<S>", "</S>", "<UNK>", "the", "bank"]
    module = BiLM(replace(tiny_config, n_words=len(words))).eval()
    module.word_encoder.set_words(words)
    save_bilm_hdf5(EncoderModel(module.config, dict(module.state_dict())), tmp_path)
    assert "char_cnn" not in json.loads((tmp_path / "options.json").read_text("utf8"))
    sentence = [["the", "river", "bank"]]
    got, want = (embed(model, sentence)[0] for model in (load_model(tmp_path).build(), module))
    assert np.allclose(got, want, atol=1e-6)


def test_what_has_no_place_there(tmp_path, tiny_config):
    changes = [{"directions": "forward"}, {"n_characters": 9}, {"warm": True}, {"aligned": True}]
    modules = [BiLM(replace(tiny_config, **change)) for change in changes]
    for module in [
        *modules,
        MTLSTM(MTLSTMConfig(3, 4)),
        BiLM(BiLMConfig(width=16, hidden_width=4)),
    ]:
        with pytest.raises(CtxvecError, match="--format native"):
            save_bilm_hdf5(EncoderModel(module.config, dict(module.state_dict())), tmp_path / "o")
    assert not (tmp_path / "o").exists()


def test_another_projection_between_equal_widths(tmp_path):
    options = make_options(dim=5)
    arrays = make_arrays(dim=5)
    arrays["RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_P_0"] = np.ones((5, 5), "float32")
    with pytest.raises(CtxvecError, match="identity"):
        read_bilm_hdf5(*write(tmp_path, options, arrays))
