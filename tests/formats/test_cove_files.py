"""CoVe's public files: each layout, and what is refused."""

from __future__ import annotations

import argparse
import pickle
import zipfile

import h5py
import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import MalformedModelError
from spacy_ctxvec.formats.cove import pth_arrays, read_pth
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.native import load_native, save_native
from spacy_ctxvec.nn.mtlstm import MTLSTMConfig


def reference_lstm() -> torch.nn.LSTM:
    torch.manual_seed(5)
    return torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)


def read(model, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model(x, np.arange(len(x)), np.array([len(x)]))[:, 1]


@pytest.fixture
def state():
    return {name: tensor.clone() for name, tensor in reference_lstm().state_dict().items()}


def prefixed(state, prefix):
    return {prefix + name: tensor for name, tensor in state.items()}


LAYOUTS = {
    "bare": lambda state: state,
    "module": lambda state: prefixed(state, "rnn."),
    "checkpoint": lambda state: {
        "model": {
            **prefixed(state, "encoder.rnn."),
            **prefixed(torch.nn.LSTM(3, 4).state_dict(), "decoder.rnn."),
            "encoder.embeddings.weight": torch.zeros(7, 3),
        },
        "epoch": 3,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("zipped", [True, False])
def test_every_layout(tmp_path, state, layout, zipped):
    path = tmp_path / "weights.pth"
    torch.save(LAYOUTS[layout](state), path, _use_new_zipfile_serialization=zipped)
    model = load_model(path)
    assert model.config == MTLSTMConfig(input_width=3, hidden_width=4)
    x = torch.randn(6, 3)
    want = reference_lstm()(x[None])[0][0].detach()
    torch.testing.assert_close(read(model.build(), x), want)


def test_there_and_back_to_the_same_bits(tmp_path, state):
    torch.save(state, tmp_path / "weights.pth")
    save_native(read_pth(tmp_path / "weights.pth"), tmp_path / "native")
    again = pth_arrays(load_native(tmp_path / "native"))
    assert list(again) == list(state)
    assert all(torch.equal(again[name], state[name]) for name in state)


def write_keras(path, state, *, root="model_weights"):
    with h5py.File(path, "w") as file:
        for layer in (0, 1):
            name = f"bidirectional_{layer + 9}"  # so that 10 comes after 9
            group = file.create_group(f"{root}/{name}/{name}")
            for suffix, direction in {"": "forward", "_reverse": "backward"}.items():
                cell = group.create_group(f"{direction}_lstm_{layer + 1}")
                end = f"l{layer}{suffix}"
                cell["kernel:0"] = state[f"weight_ih_{end}"].numpy().T
                cell["recurrent_kernel:0"] = state[f"weight_hh_{end}"].numpy().T
                cell["bias:0"] = (state[f"bias_ih_{end}"] + state[f"bias_hh_{end}"]).numpy()
    return path


@pytest.mark.parametrize("root", ["model_weights", "/"])
def test_the_keras_file(tmp_path, state, root):
    model = load_model(write_keras(tmp_path / "Keras_CoVe.h5", state, root=root))
    x = torch.randn(6, 3)
    want = reference_lstm()(x[None])[0][0].detach()
    torch.testing.assert_close(read(model.build(), x), want)


def test_a_payload_is_not_run(tmp_path):
    ran = tmp_path / "ran"

    class Payload:
        def __reduce__(self):
            return open, (str(ran), "w")

    torch.save({"weight_ih_l0": Payload()}, tmp_path / "evil.pth")
    with pytest.raises(MalformedModelError, match="can run code"):
        load_model(tmp_path / "evil.pth")
    assert not ran.exists()


def test_a_checkpoint_with_other_objects_says_what_to_do(tmp_path, state):
    checkpoint = {"model": prefixed(state, "encoder.rnn."), "opt": argparse.Namespace(a=1)}
    torch.save(checkpoint, tmp_path / "checkpoint.pt")
    with pytest.raises(MalformedModelError, match="save the state dict of its encoder alone"):
        load_model(tmp_path / "checkpoint.pt")


WRONG = {
    "no LSTM": lambda state: {"a": torch.zeros(2)},
    "two LSTMs": lambda state: {**prefixed(state, "a."), **prefixed(state, "b.")},
    "one direction": lambda state: torch.nn.LSTM(3, 4).state_dict(),
    "a projection": lambda state: {**state, "weight_hr_l0": torch.zeros(2, 2)},
    "a wrong shape": lambda state: {**state, "weight_hh_l1": torch.zeros(16, 5)},
    "whole numbers": lambda state: {**state, "bias_hh_l0": torch.zeros(16, dtype=torch.int64)},
    "no numbers": lambda state: {**state, "bias_hh_l0": torch.full((16,), torch.nan)},
    "a vector": lambda state: {**state, "weight_ih_l0": torch.zeros(16)},
    "no rows": lambda state: {**state, "weight_ih_l0": torch.zeros(0, 3)},
    "a list": lambda state: [1, 2],
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_mt_lstm_is_refused(tmp_path, state, what):
    torch.save(WRONG[what](state), tmp_path / "weights.pth")
    with pytest.raises(MalformedModelError, match=r"weights\.pth"):
        load_model(tmp_path / "weights.pth")


def test_cut_off_files(tmp_path, state):
    torch.save(state, tmp_path / "weights.pth")
    write_keras(tmp_path / "weights.h5", state)
    for name in ("weights.pth", "weights.h5"):
        data = (tmp_path / name).read_bytes()
        for end in np.linspace(20, len(data) - 1, 40, dtype=int):
            (tmp_path / name).write_bytes(data[:end])
            with pytest.raises(MalformedModelError):
                load_model(tmp_path / name)


def test_a_plain_pickle_is_not_even_tried(tmp_path):
    (tmp_path / "weights.pth").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ValueError, match=r"weights\.pth"):
        load_model(tmp_path / "weights.pth")


def test_compressed_pickles_are_refused(tmp_path, state):
    """What torch.save writes is stored as it is; a compressed one may unpack to anything."""
    torch.save(state, tmp_path / "weights.pth")
    with zipfile.ZipFile(tmp_path / "weights.pth") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "packed.pth", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    with pytest.raises(MalformedModelError, match="compressed"):
        load_model(tmp_path / "packed.pth")
