"""The biLM against a second implementation, by finite differences, and in any batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import Oracle
from torch.func import functional_call

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig

SENTENCES = [
    ["a"],
    ["She", "sat", "on", "the", "bank", "of", "the", "river", "."],
    ["", "", "averyveryverylongword", ""],
    ["naïve", "日本語のテスト", "Ünïcödé", "🙂", "e\u0301"],
    ["\ud800", "a\udfffb", "<S>", "</S>", "<UNK>"],
    ["\n", " ", "\x00", "\t"],
    ["word"] * 70,
]


def test_equals_the_oracle(either_model, embed):
    config, weights = either_model.config, either_model.state_dict()
    free = Oracle(replace(config, cell_clip=0.0, output_clip=0.0), weights)
    is_clipped = False
    for sentence, layers in zip(SENTENCES, embed(either_model, SENTENCES)):
        want = Oracle(config, weights).layers(sentence)
        assert np.allclose(layers, want, atol=1e-5)
        is_clipped |= not np.allclose(want, free.layers(sentence), atol=1e-3)
    assert is_clipped == bool(config.cell_clip)  # the clips were tried


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("skip", [True, False])
def test_equals_the_oracle_with_one_clip_alone(embed, activation, skip):
    config = BiLMConfig(
        width=6, hidden_width=3, n_layers=2, skip=skip, cell_clip=0.05, activation=activation,
        filters=((1, 3),), char_width=2, max_characters=5,
    )  # fmt: skip
    model = BiLM(config).eval()
    want = Oracle(config, model.state_dict()).layers(SENTENCES[1])
    assert np.allclose(embed(model, [SENTENCES[1]])[0], want, atol=1e-5)


WORDS = st.text(max_size=15)  # any unicode
BATCHES = st.lists(st.lists(WORDS, min_size=1, max_size=6), min_size=1, max_size=5)


@settings(max_examples=25)
@given(batch=BATCHES, data=st.data())
def test_a_sentence_has_the_same_vectors_in_every_batch(tiny_config, embed, batch, data):
    torch.manual_seed(2)
    model = BiLM(tiny_config).eval()
    together = embed(model, batch)
    order = data.draw(st.permutations(range(len(batch))))
    shuffled = embed(model, [batch[i] for i in order])
    for position, i in enumerate(order):
        alone = embed(model, [batch[i]])[0]
        assert np.allclose(together[i], alone, atol=1e-5)
        assert np.allclose(shuffled[position], alone, atol=1e-5)


def test_the_fused_kernel_is_batch_invariant_too(tiny_plain_model, embed):
    for sentence, layers in zip(SENTENCES, embed(tiny_plain_model, SENTENCES)):
        assert np.allclose(layers, embed(tiny_plain_model, [sentence])[0], atol=1e-5)


def test_weights_kept_for_predictions_change_nothing(tiny_plain_model, embed):
    """Alone, in a rectangle and in a ragged batch."""
    batches = [[SENTENCES[1]], [SENTENCES[1]] * 9, SENTENCES]
    want = [embed(tiny_plain_model, batch) for batch in batches]
    tiny_plain_model.keep_kernels()
    for batch, layers in zip(batches, want):
        for got, expected in zip(embed(tiny_plain_model, batch), layers):
            assert np.allclose(got, expected, atol=1e-5)


def test_threads_change_nothing(either_model, embed):
    one = embed(either_model, SENTENCES)
    torch.set_num_threads(2)
    two = embed(either_model, SENTENCES)
    assert torch.get_num_threads() == 2
    assert all(np.allclose(x, y, atol=1e-6) for x, y in zip(one, two))


def test_directions_do_not_mix(either_model, embed):
    """Forward numbers know nothing of later words, backward ones nothing of earlier words."""
    half = either_model.config.token_width
    first = embed(either_model, [["a", "b", "c"]])[0]
    other = embed(either_model, [["a", "b", "x"]])[0]
    assert np.allclose(first[:2, :, :half], other[:2, :, :half], atol=1e-6)
    assert not np.allclose(first[:2, 1:, half:], other[:2, 1:, half:], atol=1e-4)


def test_a_word_has_other_vectors_in_another_context(either_model, embed):
    bank, other = embed(either_model, [["river", "bank"], ["savings", "bank"]])
    assert np.allclose(bank[1, 0], other[1, 0], atol=1e-6)
    assert not np.allclose(bank[1, 1:], other[1, 1:], atol=1e-4)


def test_carried_state(either_model, embed):
    sentence = SENTENCES[1]
    fresh = embed(either_model, [sentence])[0]
    either_model.carry_state("carry")
    first, second = (embed(either_model, [sentence])[0] for _ in range(2))
    assert np.array_equal(first, fresh) and not np.allclose(second, fresh, atol=1e-4)
    either_model.carry_state("reset")
    assert np.array_equal(embed(either_model, [sentence])[0], fresh)


def test_a_warm_start(tiny_config, tiny_plain_config, embed):
    """Every sequence starts from the stored state, and so does the first batch that carries one."""
    for config in (tiny_config, tiny_plain_config):
        model = BiLM(replace(config, warm=True)).eval()
        model.start_output.uniform_(-0.2, 0.2)
        model.start_cell.uniform_(-0.4, 0.4)
        together = embed(model, SENTENCES)
        for sentence, layers in zip(SENTENCES, together):
            want = Oracle(model.config, model.state_dict()).layers(sentence)
            assert np.allclose(layers, want, atol=1e-5)
        model.carry_state("carry")
        assert np.allclose(embed(model, [SENTENCES[1]])[0], together[1], atol=1e-5)


@pytest.mark.parametrize("directions", ["both", "forward", "backward"])
def test_layers_that_may_learn(tiny_config, directions):
    model = BiLM(replace(tiny_config, directions=directions))
    model.set_trainable(2)
    learning = {name.split(".")[1] for name, p in model.named_parameters() if p.requires_grad}
    assert learning == {"1"}  # of each direction, the upper layer


def test_marks_among_words(tiny_config):
    model = BiLM(replace(tiny_config, n_words=4))
    model.word_encoder.set_words(["<S>", "</S>", "<UNK>", "the"])
    words = ["<S>", "</S>", "the", "other"]
    assert model.word_ids(words).tolist() == [2, 2, 3, 2]
    assert model.word_ids(words, sentence_marks=True).tolist() == [0, 1, 3, 2]


def test_carried_state_is_that_of_one_longer_sentence_without_marks(tiny_plain_model):
    """Two calls in carry mode equal one call over both texts, where nothing frames them."""
    lstm = tiny_plain_model.forward_lstms[0]
    x = torch.randn(9, tiny_plain_model.config.token_width)
    whole, _ = lstm(x, torch.ones(9, dtype=torch.long))
    first, state = lstm(x[:4], torch.ones(4, dtype=torch.long))
    second, _ = lstm(x[4:], torch.ones(5, dtype=torch.long), state)
    assert torch.allclose(whole, torch.cat([first, second]), atol=1e-6)


class Whole(torch.nn.Module):
    """Words to layers in one call, with the parameters that are given."""

    def __init__(self, model: BiLM):
        super().__init__()
        self.model = model

    def forward(self) -> torch.Tensor:
        words = self.model.word_vectors(["ab", "c", "é"])
        vectors = torch.cat([self.model.mark_vectors(), words])
        return self.model(vectors, np.array([2, 3, 4, 2]), np.array([3, 1]))


def test_gradients_by_finite_differences():
    config = BiLMConfig(
        width=4, hidden_width=3, n_layers=2, skip=True, cell_clip=0.4, output_clip=0.3,
        char_width=2, filters=((1, 2), (2, 2)), n_highway=1, max_characters=6,
    )  # fmt: skip
    whole = Whole(BiLM(config).double())
    names, parameters = zip(*whole.named_parameters())

    def layers(*values: torch.Tensor) -> torch.Tensor:
        return functional_call(whole, dict(zip(names, values)), ())

    # Along a random direction in each parameter; its parts are checked number by number.
    assert torch.autograd.gradcheck(layers, parameters, atol=1e-6, fast_mode=True)


@pytest.mark.parametrize(
    "field, value",
    [
        ("width", 7), ("width", 0), ("width", 8.0), ("width", "8"), ("hidden_width", 0),
        ("hidden_width", 2.5), ("n_layers", 0), ("cell_clip", -1.0), ("activation", "gelu"),
        ("filters", ()), ("filters", ((51, 3),)), ("filters", ((1, 0),)), ("max_characters", 2),
        ("n_highway", -1), ("char_width", -3), ("n_highway", 1.5), ("max_characters", 50.0),
        ("output_clip", float("nan")), ("cell_clip", "3"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_named(field, value):
    with pytest.raises(CtxvecError, match=f"The setting {field} ="):
        BiLMConfig(**{field: value})


def test_config_round_trip(tiny_config):
    assert BiLMConfig(**tiny_config.to_dict()) == tiny_config


def test_dropout_works_where_gradients_are_recorded(tiny_model):
    def read() -> np.ndarray:
        vectors = torch.cat([tiny_model.mark_vectors(), tiny_model.word_vectors(["a", "b"])])
        return tiny_model(vectors, np.array([2, 3]), np.array([2])).detach().numpy()

    with torch.no_grad():
        plain = read()
    tiny_model.dropout = 0.5
    with torch.no_grad():
        assert np.array_equal(read(), plain)
    assert not np.allclose(read(), plain)
