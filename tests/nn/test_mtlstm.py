"""The MT-LSTM: the original's numbers, and independence of the batch."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.cove import read_pth
from spacy_ctxvec.nn.mtlstm import MTLSTM, MTLSTMConfig, cove

CONFIG = MTLSTMConfig(input_width=3, hidden_width=4)
MODES = {
    "last": {"inputs": False},
    "both": {"layer0": True, "inputs": False},
    "layer0_only": {"layer0": True, "layer1": False, "inputs": False},
    "both_res": {"layer0": True, "inputs": True},
}


@pytest.fixture
def published(reference, tmp_path):
    """The original program's weights, sentences, their lengths and its outputs."""
    folder = reference / "generated" / "cove"
    recipe = json.loads((folder / "recipe.json").read_text("utf8"))
    state = {}
    for name, shape, k in recipe["order"]:
        numbers = 0.12 * np.sin(0.7310 * np.arange(np.prod(shape)) + k)
        state[name] = torch.from_numpy(numbers.reshape(shape).astype("float32"))
    torch.save(state, tmp_path / "wmtlstm.pth")
    model = read_pth(tmp_path / "wmtlstm.pth").build()
    x = (0.4 * np.sin(1.37 * np.arange(3 * 5 * 300) + 2)).astype("float32").reshape(3, 5, 300)
    sentences = [torch.from_numpy(row[:n]) for row, n in zip(x, recipe["lengths"])]
    with np.load(folder / "expected.npz") as file:
        want = {name: [row[:n] for row, n in zip(file[name], recipe["lengths"])] for name in MODES}
    return model, sentences, want


def read(model: MTLSTM, sentences: list[torch.Tensor], groups=None) -> list[torch.Tensor]:
    """Layers of each sentence, (n_tokens, n_layers, width)."""
    lengths = np.array([len(sentence) for sentence in sentences])
    with torch.no_grad():
        layers = model(torch.cat(sentences), np.arange(lengths.sum()), lengths, groups)
    return list(layers.split(lengths.tolist()))


@pytest.mark.parametrize("mode", MODES)
def test_the_numbers_of_the_original(published, parity, mode):
    model, sentences, want = published
    layers = read(model, sentences)
    got = [cove(x, y, **MODES[mode]).numpy() for x, y in zip(sentences, layers)]
    parity(f"CoVe, {mode}, padded", got, want[mode])
    alone = [cove(x, read(model, [x])[0], **MODES[mode]).numpy() for x in sentences]
    parity(f"CoVe, {mode}, alone", alone, want[mode])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.randoms())
def test_a_sentence_does_not_depend_on_its_batch(lengths, random):
    torch.manual_seed(0)
    model = MTLSTM(CONFIG)
    sentences = [torch.randn(n, CONFIG.input_width) for n in lengths]
    order = list(range(len(lengths)))
    random.shuffle(order)
    groups = [np.array(order[::2]), np.array(order[1::2])] if len(order) > 1 else None
    together = read(model, sentences, groups)
    for number, sentence in enumerate(sentences):
        torch.testing.assert_close(together[number], read(model, [sentence])[0])


def test_pytorch_agrees():
    model = MTLSTM(CONFIG)
    theirs = torch.nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)
    for name, weight in theirs.named_parameters():
        part, _, place = name.replace("bias_ih", "bias").partition("_l")
        layer, *reverse = place.split("_")
        stack = model.backward_lstms if reverse else model.forward_lstms
        getattr(stack[int(layer)], part).data.copy_(weight)
    x = torch.randn(7, 3)
    want, (h, c) = theirs(x[None])
    encoded = model.encode(x, np.array([7]))
    torch.testing.assert_close(encoded.layers[1], want[0])
    for layer, (got_h, got_c) in enumerate(encoded.states):
        torch.testing.assert_close(got_h[0], h[2 * layer : 2 * layer + 2, 0].flatten())
        torch.testing.assert_close(got_c[0], c[2 * layer : 2 * layer + 2, 0].flatten())


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_final_states_are_those_of_each_sentence(lengths):
    torch.manual_seed(0)
    model = MTLSTM(CONFIG)
    x = torch.randn(sum(lengths), CONFIG.input_width)
    together = model.encode(x, np.array(lengths))
    for number, sentence in enumerate(x.split(lengths)):
        alone = model.encode(sentence, np.array([len(sentence)]))
        for got, want in zip(together.states, alone.states):
            torch.testing.assert_close(got[0][number], want[0][0])
            torch.testing.assert_close(got[1][number], want[1][0])


def test_gradients():
    model = MTLSTM(MTLSTMConfig(input_width=2, hidden_width=2)).double()
    x = torch.randn(5, 2, dtype=torch.float64)
    lengths = np.array([2, 3])
    names, weights = zip(*model.named_parameters())

    def layers(*values: torch.Tensor) -> torch.Tensor:
        given = dict(zip(names, values))
        return torch.func.functional_call(model, given, (x, np.arange(5), lengths))

    assert torch.autograd.gradcheck(layers, tuple(w.detach().requires_grad_() for w in weights))


def test_layers_can_be_frozen_from_below():
    model = MTLSTM(CONFIG)
    model.set_trainable(1)
    assert not any(p.requires_grad for p in model.forward_lstms[0].parameters())
    assert all(p.requires_grad for p in model.backward_lstms[1].parameters())


@pytest.mark.parametrize("wrong", [{"hidden_width": 0}, {"n_layers": "2"}, {"input_width": True}])
def test_wrong_sizes(wrong):
    with pytest.raises(CtxvecError, match=next(iter(wrong))):
        MTLSTMConfig(**wrong)
