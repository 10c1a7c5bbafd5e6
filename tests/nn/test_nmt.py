"""The translation model against loops over steps, by finite differences, and in any batch."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.nn.mtlstm import MTLSTMConfig
from spacy_ctxvec.nn.nmt import BOS, EOS, PAD, UNK, Loss, NMTConfig, Translator

CONFIG = NMTConfig(
    n_target_words=9,
    target_width=4,
    encoder=MTLSTMConfig(input_width=3, hidden_width=2, n_layers=2),
    attention_bias=True,
    dropout=0.0,
)
TIED = replace(CONFIG, tied=True)
LENGTHS = np.array([2, 1, 4, 3])
TARGETS = [[5, 7], [8, UNK, 4, 5], [], [6]]


def seeded_model(config: NMTConfig = CONFIG) -> Translator:
    torch.manual_seed(1)
    model = Translator(config)
    model.start_anew(0.8)  # large enough that all parts are at work
    return model


def padded(sentences: list[list[int]], n_more: int = 0) -> np.ndarray:
    longest = max(map(len, sentences)) + n_more
    rows = [[*words, *[PAD] * (longest - len(words))] for words in sentences]
    return np.array(rows, dtype=np.int64)


def vectors(lengths: np.ndarray = LENGTHS, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    width = CONFIG.encoder.input_width
    return torch.randn(int(lengths.sum()), width, generator=generator).to(dtype)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


class Slow:
    """One sentence, one step and one layer at a time, from what the encoder makes of it."""

    def __init__(self, model: Translator, source: torch.Tensor):
        self.weights = {name: value.numpy() for name, value in model.state_dict().items()}
        encoded = model.encoder.encode(source, np.array([len(source)]))
        self.words = encoded.layers[-1].numpy()
        self.states = [(h[0].numpy(), c[0].numpy()) for h, c in encoded.states]
        self.fed = np.zeros(self.words.shape[1])

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def step(self, word: int) -> tuple[np.ndarray, np.ndarray]:
        """Log-probabilities of the next word, and attention."""
        x = np.concatenate([self.weights["embedding.weight"][word], self.fed])
        for layer, (h, c) in enumerate(self.states):
            gates = self.linear(f"decoder.{layer}", np.concatenate([x, h]))
            i, f, g, o = np.split(gates, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            x = sigmoid(o) * np.tanh(c)
            self.states[layer] = (x, c)
        a = np.exp(self.words @ self.linear("attention.score", x))
        a /= a.sum()
        combined = self.linear("attention.combine", np.concatenate([self.words.T @ a, x]))
        self.fed = np.tanh(combined)
        logits = self.linear("generator", self.fed)
        return logits - np.log(np.exp(logits).sum()), a


def slow_predictions(model: Translator) -> list[tuple[int, np.ndarray]]:
    """Each target word, EOS too, with the log-probabilities that it is judged by."""
    predictions: list[tuple[int, np.ndarray]] = []
    for source, target in zip(vectors().split(LENGTHS.tolist()), TARGETS):
        slow = Slow(model, source)
        for before, word in zip([BOS, *target], [*target, EOS]):
            predictions.append((word, slow.step(before)[0]))
    return predictions


@torch.no_grad()
def test_loss_equals_that_of_single_steps():
    model = seeded_model()
    want = slow_predictions(model)
    loss = model.loss(vectors(), LENGTHS, padded(TARGETS))
    assert loss.n_tokens == len(want) == 11
    nll = -sum(log_p[word] for word, log_p in want)
    assert loss.total.item() == loss.nll == pytest.approx(nll, rel=1e-5)


@torch.no_grad()
def test_step_equals_the_slow_one():
    model = seeded_model()
    slow = [Slow(model, source) for source in vectors().split(LENGTHS.tolist())]
    state, memory = model.start(vectors(), LENGTHS)
    for words in ([BOS] * 4, [4, 5, UNK, 8], [7, 7, 4, 4]):
        state, weights = model.step(torch.tensor(words), state, memory)
        log_p = model.logits(state.fed).log_softmax(1)
        for row, (word, one) in enumerate(zip(words, slow)):
            want, a = one.step(word)
            assert np.allclose(log_p[row], want, atol=1e-5)
            assert np.allclose(weights[row, : LENGTHS[row]], a, atol=1e-5)
            assert not weights[row, LENGTHS[row] :].any()


@torch.no_grad()
def test_label_smoothing():
    model, share = seeded_model(), 0.3
    loss = model.loss(vectors(), LENGTHS, padded(TARGETS), label_smoothing=share)
    predictions = slow_predictions(model)
    nll = -sum(log_p[word] for word, log_p in predictions)
    even = -sum(log_p.mean() for _, log_p in predictions)
    assert loss.total.item() == pytest.approx((1 - share) * nll + share * even, rel=1e-5)
    assert loss.nll == pytest.approx(nll, rel=1e-5)  # perplexities stay comparable
    logits = torch.tensor(np.stack([log_p for _, log_p in predictions]))
    words = torch.tensor([word for word, _ in predictions])
    library = cross_entropy(logits, words, reduction="sum", label_smoothing=share)
    assert loss.total.item() == pytest.approx(library.item(), rel=1e-5)


def test_perplexity():
    loss = Loss(torch.tensor(0.0), nll=4 * math.log(7), n_tokens=4)
    assert loss.perplexity == pytest.approx(7)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    model = seeded_model()
    torch.nn.init.zeros_(model.generator.weight)
    torch.nn.init.zeros_(model.generator.bias)
    assert model.loss(vectors(), LENGTHS, padded(TARGETS)).perplexity == pytest.approx(9)


WORDS = st.sampled_from([UNK, 4, 5, 6, 7, 8])
SENTENCES = st.tuples(st.integers(1, 4), st.lists(WORDS, max_size=5))


@settings(max_examples=12)
@given(batch=st.lists(SENTENCES, min_size=1, max_size=5), n_more=st.integers(0, 2), data=st.data())
@torch.no_grad()
def test_a_sentence_has_the_same_loss_in_every_batch(batch, n_more, data):
    model = seeded_model()
    lengths = np.array([n for n, _ in batch])
    sources, targets = vectors(lengths).split(lengths.tolist()), [words for _, words in batch]
    together = model.loss(vectors(lengths), lengths, padded(targets, n_more))
    alone = [
        model.loss(source, np.array([len(source)]), padded([target]))
        for source, target in zip(sources, targets)
    ]
    order = data.draw(st.permutations(range(len(batch))))
    shuffled = model.loss(
        torch.cat([sources[i] for i in order]), lengths[order], padded([targets[i] for i in order])
    )
    assert together.nll == pytest.approx(sum(loss.nll for loss in alone), rel=1e-5)
    assert together.nll == pytest.approx(shuffled.nll, rel=1e-5)
    assert together.n_tokens == sum(len(words) + 1 for words in targets)


class Whole(torch.nn.Module):
    """The loss in one call, with the parameters that are given, and the same dropout each time."""

    def __init__(self, model: Translator, smoothing: float):
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)
        targets = padded(TARGETS)
        return self.model.loss(source, LENGTHS, targets, label_smoothing=self.smoothing).total


@pytest.mark.parametrize(
    "config, dropout, smoothing",
    [(CONFIG, 0.0, 0.0), (CONFIG, 0.0, 0.2), (CONFIG, 0.4, 0.1), (TIED, 0.4, 0.1)],
)
def test_gradients_by_finite_differences(config, dropout, smoothing):
    model = seeded_model(config).double()
    model.encoder.dropout = dropout
    whole = Whole(model, smoothing)
    names, parameters = zip(*whole.named_parameters())
    source = vectors(dtype=torch.float64).requires_grad_()

    def loss(source: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return functional_call(whole, dict(zip(names, values)), (source,))

    # Along a random direction in each parameter.
    assert torch.autograd.gradcheck(loss, (source, *parameters), fast_mode=True)


def test_tied_words_have_one_vector():
    """It learns from both sides: what it gets is the sum of what two would get."""
    tied, untied = seeded_model(TIED), seeded_model()
    untied.load_state_dict(tied.state_dict())
    for model in (tied, untied):
        model.loss(vectors(), LENGTHS, padded(TARGETS)).total.backward()
    assert tied.embedding.weight is tied.generator.weight
    want = untied.embedding.weight.grad + untied.generator.weight.grad
    torch.testing.assert_close(tied.generator.weight.grad, want)


@pytest.mark.parametrize("part", ["encoder", "decoder", "embedding", "attention", "generator"])
def test_a_frozen_part_gets_no_gradient_and_the_others_the_same(part):
    model = seeded_model()
    model.loss(vectors(), LENGTHS, padded(TARGETS)).total.backward()
    want = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    getattr(model, part).requires_grad_(False)
    model.loss(vectors(), LENGTHS, padded(TARGETS)).total.backward()
    for name, weight in model.named_parameters():
        assert want[name] is not None
        if name.startswith(part):
            assert weight.grad is None
        else:
            assert torch.allclose(weight.grad, want[name], atol=1e-5)


def test_it_computes_in_the_precision_of_the_vectors():
    model = seeded_model()
    exact = model.loss(vectors(), LENGTHS, padded(TARGETS))
    exact.total.backward()
    want = {name: weight.grad for name, weight in model.named_parameters()}
    model.zero_grad()
    rough = model.loss(vectors(dtype=torch.bfloat16), LENGTHS, padded(TARGETS))
    rough.total.backward()
    assert rough.total.dtype == torch.float32
    assert rough.nll != exact.nll and rough.nll == pytest.approx(exact.nll, rel=0.02)
    for name, weight in model.named_parameters():
        assert weight.grad.dtype == torch.float32
        assert (weight.grad - want[name]).norm() < 0.05 * want[name].norm() + 0.01
    state, memory = model.start(vectors(dtype=torch.bfloat16), LENGTHS)
    state, _ = model.step(torch.full((4,), BOS), state, memory)
    assert [(h.dtype, c.dtype) for h, c in state.layers] == [(torch.bfloat16, torch.float32)] * 2


def test_dropout_works_where_gradients_are_recorded():
    model = seeded_model()

    def nll() -> float:
        return model.loss(vectors(), LENGTHS, padded(TARGETS)).nll

    plain = nll()
    model.encoder.dropout = 0.5
    with torch.no_grad():
        assert nll() == plain
    assert nll() != plain
    torch.manual_seed(5)
    first = nll()
    torch.manual_seed(5)
    assert nll() == first


def test_dropout_stands_where_the_original_has_it(monkeypatch):
    model, places = seeded_model(), []

    def dropped(x: torch.Tensor, random: object) -> torch.Tensor:
        places.append(tuple(x.shape))
        return x

    monkeypatch.setattr(model.encoder, "dropped", dropped)
    state, memory = model.start(vectors(), LENGTHS)
    # Source vectors, between the encoder's layers, its outputs.
    assert places == [(10, 3), (10, 4), (10, 4)]
    places.clear()
    model.step(torch.full((4,), BOS), state, memory)
    # Embeddings twice, as they are input of a layer too; h~ of before, twice for the same reason;
    # input of the second layer; h~.
    assert places == [(4, 4)] * 6


def test_dropout_zeroes_what_is_put_out():
    model = seeded_model()
    model.encoder.dropout = 0.5
    state, memory = model.start(vectors(), LENGTHS)
    assert (memory.values[0, :2] == 0).any()
    assert (model.step(torch.full((4,), BOS), state, memory)[0].fed == 0).any()


def test_parameters_start_between_the_bounds():
    model = Translator(CONFIG)
    assert model.encoder.dropout == CONFIG.dropout
    for name, parameter in model.named_parameters():
        assert parameter.abs().max() <= 0.1, name
        assert parameter.abs().max() > 0.02 and parameter.unique().numel() > 1, name


def test_it_has_biases_in_the_attention_only_if_told():
    names = dict(Translator(NMTConfig(9)).named_parameters())
    assert [name for name in names if name.startswith("attention")] == [
        "attention.score.weight", "attention.combine.weight",
    ]  # fmt: skip
    assert names["decoder.0.weight"].shape == (2400, 300 + 600 + 600)
    assert names["decoder.1.weight"].shape == (2400, 600 + 600)


@pytest.mark.parametrize(
    "name, value",
    [
        ("n_target_words", 4), ("n_target_words", 9.0), ("target_width", 0), ("target_width", True),
        ("encoder", None), ("attention_bias", 1), ("dropout", 1.0), ("dropout", -0.1),
        ("dropout", "0.2"), ("dropout", float("nan")), ("tied", 1),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_named(name, value):
    with pytest.raises(CtxvecError, match=f"The setting {name} ="):
        NMTConfig(**{"n_target_words": 9, name: value})


def test_tied_words_are_as_wide_as_the_decoder():
    with pytest.raises(CtxvecError, match=r"target_width = 5.* 4, twice `hidden_width`"):
        replace(TIED, target_width=5)


def test_config_round_trip():
    assert NMTConfig(**CONFIG.to_dict()) == CONFIG
