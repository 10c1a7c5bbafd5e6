"""The package's own model folder."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats.native import EncoderModel, load_native, load_weights, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig

INFO = {"lang": "en", "name": "tiny", "tokenization": "white space", "tokens_seen": 12}


@pytest.fixture
def folder(tmp_path, either_model):
    model = EncoderModel(either_model.config, either_model.state_dict(), INFO)
    save_native(model, tmp_path, card="# A card: naïve")
    return tmp_path


def test_a_round_trip_changes_nothing(folder, either_model):
    found = load_native(folder)
    assert found.config == either_model.config and found.info == INFO
    built = found.build()
    assert not built.training
    for name, tensor in either_model.state_dict().items():
        assert torch.equal(built.state_dict()[name], tensor)
    assert (folder / "README.md").read_text("utf8") == "# A card: naïve"
    assert not list(folder.glob("*.new"))


def test_half_precision_loads_as_float32(tmp_path, either_model, embed):
    model = EncoderModel(either_model.config, either_model.state_dict(), INFO)
    save_native(model, tmp_path, dtype="float16")
    found = load_native(tmp_path)
    assert {w.dtype for w in found.weights.values()} == {torch.float16}
    built = found.build()
    assert {w.dtype for w in built.state_dict().values()} == {torch.float32}
    sentence = ["a", "test", "of", "halves"]
    got, want = embed(built, [sentence])[0], embed(either_model, [sentence])[0]
    assert np.allclose(got, want, atol=1e-2) and not np.array_equal(got, want)


def test_saving_again_replaces(folder, tiny_model):
    changed = {name: torch.zeros_like(w) for name, w in tiny_model.state_dict().items()}
    save_native(EncoderModel(tiny_model.config, changed, {}), folder)
    found = load_native(folder)
    assert found.info == {} and not any(w.any() for w in found.weights.values())


def change_config(folder, **changes):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text("utf8")), **changes}), "utf8")


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"format": 2}, "format"),
        ({"architecture": "bert"}, "architecture"),
        ({"sizes": None}, "sizes"),
        ({"sizes": {"breadth": 3}}, "sizes"),
        ({"sizes": {"width": 7}}, "sizes"),
        ({"sizes": {"width": "12"}}, "sizes"),
        ({"sizes": {"width": 12.0}}, "sizes"),
        ({"sizes": {"filters": 3}}, "sizes"),
        ({"sizes": {"filters": [[1]]}}, "sizes"),
    ],
)
def test_a_malformed_config_is_named(folder, changes, field):
    change_config(folder, **changes)
    with pytest.raises(MalformedModelError, match=rf"config\.json: its {field} should be"):
        load_native(folder)


@pytest.mark.parametrize("text", ["", "{", "[]", "3"])
def test_a_config_that_is_no_object(folder, text):
    (folder / "config.json").write_text(text, "utf8")
    with pytest.raises(MalformedModelError, match=r"config\.json"):
        load_native(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(MalformedModelError, match=name):
        load_native(folder)


def test_weights_cut_off_anywhere(folder):
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:size])
        with pytest.raises(MalformedModelError, match=r"model\.safetensors"):
            load_native(folder)


def test_weights_of_other_sizes_are_named(tiny_model, tiny_plain_config):
    with pytest.raises(CtxvecError, match="The weights do not fit the encoder"):
        load_weights(BiLM(tiny_plain_config), tiny_model.state_dict())


@pytest.mark.parametrize("change", ["missing", "extra", "shape"])
def test_one_wrong_weight_is_named(tiny_model, tiny_config, change):
    weights = dict(tiny_model.state_dict())
    name = "backward_lstms.1.weight_hr"
    if change == "missing":
        del weights[name]
    elif change == "extra":
        weights[name := "other.weight"] = torch.zeros(1)
    else:
        weights[name] = weights[name].T
    with pytest.raises(CtxvecError, match=name):
        load_weights(BiLM(tiny_config), weights)


@pytest.mark.parametrize("sizes", [{"hidden_width": 11}, {"hidden_width": 10**9}, {"n_layers": 3}])
def test_declared_sizes_that_the_weights_do_not_have(tiny_model, sizes):
    config = BiLMConfig(**{**tiny_model.config.to_dict(), **sizes})
    with pytest.raises(CtxvecError, match="The weights do not fit the encoder"):
        EncoderModel(config, tiny_model.state_dict()).build()
