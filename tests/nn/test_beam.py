"""Searches against brute force and a loop, their guarantees, and translations in any batch."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.nn import beam as search
from spacy_ctxvec.nn.attention import Memory
from spacy_ctxvec.nn.beam import Hypothesis, SearchSettings, largest, replace_unknown
from spacy_ctxvec.nn.mtlstm import MTLSTMConfig
from spacy_ctxvec.nn.nmt import BOS, EOS, PAD, UNK, DecoderState, NMTConfig, Translator

INPUT_WIDTH = 3
LENGTHS = np.array([2, 1, 3])


def toy(seed: int = 0, n_target_words: int = 7) -> Translator:
    """A model so restless that its translations differ, and are of any length.

    In float64, since it makes much of a rounding.
    """
    torch.manual_seed(seed)
    model = Translator(NMTConfig(n_target_words, 3, MTLSTMConfig(INPUT_WIDTH, hidden_width=4)))
    model.start_anew(1.0)
    for layer in model.decoder:
        layer.weight.data.mul_(4)
    model.generator.weight.data.mul_(2)
    model.generator.bias.data[EOS] -= 1
    return model.double()


def vectors(lengths: np.ndarray = LENGTHS, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = (int(lengths.sum()), INPUT_WIDTH)
    return 2 * torch.randn(shape, generator=generator, dtype=torch.float64)


def translate(
    model: Translator, vectors: torch.Tensor, lengths: np.ndarray, **limits
) -> list[list[Hypothesis]]:
    return search.translate(model, vectors, lengths, SearchSettings(**limits))


def greedy(model: Translator, vectors: torch.Tensor, lengths: np.ndarray, **limits):
    return [found[0] for found in translate(model, vectors, lengths, beam=1, **limits)]


def penalty(words: tuple[int, ...], alpha: float) -> float:
    return ((5 + len(words) + 1) / 6) ** alpha


@torch.no_grad()
def log_probability(model: Translator, source: torch.Tensor, words: tuple[int, ...]) -> float:
    targets = np.array([words], dtype=np.int64)
    return -model.loss(source, np.array([len(source)]), targets).nll


def brute_force(
    model: Translator,
    source: torch.Tensor,
    words: list[int],
    shortest: int,
    longest: int,
    alpha: float,
) -> list[tuple[tuple[int, ...], float, float]]:
    """All sentences of these words, ranked: (words, log-probability, score)."""
    sentences = [
        sentence
        for n in range(shortest, longest + 1)
        for sentence in itertools.product(words, repeat=n)
    ]
    log_ps = [log_probability(model, source, sentence) for sentence in sentences]
    scores = [p / penalty(sentence, alpha) for p, sentence in zip(log_ps, sentences)]
    return sorted(zip(sentences, log_ps, scores), key=lambda item: -item[2])


@pytest.mark.parametrize(
    "alpha, shortest, unknown", [(0.0, 0, True), (0.0, 2, False), (0.7, 0, True), (2.0, 1, True)]
)
def test_a_wide_beam_equals_brute_force(alpha, shortest, unknown):
    model = toy(n_target_words=6)
    words = [UNK, 4, 5] if unknown else [4, 5]
    found = translate(
        model, vectors(), LENGTHS, beam=40, max_length=3, min_length=shortest,
        length_penalty=alpha, unknown=unknown,
    )  # fmt: skip
    for hypotheses, source in zip(found, vectors().split(LENGTHS.tolist())):
        want = brute_force(model, source, words, shortest, 3, alpha)
        assert [h.words for h in hypotheses] == [sentence for sentence, _, _ in want]
        got = [(h.log_probability, h.score) for h in hypotheses]
        assert np.allclose(got, [numbers for _, *numbers in want], atol=1e-9)


@torch.no_grad()
def loop(model: Translator, source: torch.Tensor, longest: int) -> tuple[list[int], np.ndarray]:
    """Greedy search for one sentence, word by word; and its attention."""
    state, memory = model.start(source, np.array([len(source)]))
    words, attention = [BOS], []
    while len(words) <= longest:
        state, weights = model.step(torch.tensor(words[-1:]), state, memory)
        logits = model.logits(state.fed)[0].numpy()
        logits[[PAD, BOS]] = -np.inf
        if logits.argmax() == EOS:
            break
        words.append(int(logits.argmax()))
        attention.append(weights[0].numpy())
    return words[1:], np.array(attention).reshape(len(words) - 1, len(source))


SEEDS = st.integers(0, 10_000)


@settings(max_examples=15)
@given(seed=SEEDS, alpha=st.sampled_from([0.0, 0.6, 1.5]))
def test_a_beam_of_one_is_greedy(seed, alpha):
    model = toy(seed)
    got = translate(model, vectors(), LENGTHS, beam=1, max_length=6, length_penalty=alpha)
    plain = greedy(model, vectors(), LENGTHS, max_length=6)
    for (only,), same, source in zip(got, plain, vectors().split(LENGTHS.tolist())):
        words, attention = loop(model, source, 6)
        assert list(only.words) == list(same.words) == words
        assert np.allclose(only.attention, attention, atol=1e-5)
        assert only.log_probability == same.log_probability


@settings(max_examples=25)
@given(
    seed=SEEDS,
    beam=st.integers(2, 4),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
    lengths=st.tuples(st.integers(0, 3), st.integers(3, 8)),
    unknown=st.booleans(),
)
def test_what_every_beam_guarantees(seed, beam, alpha, lengths, unknown):
    model = toy(seed)
    limits = {"min_length": lengths[0], "max_length": lengths[1], "unknown": unknown}
    found = translate(model, vectors(), LENGTHS, beam=beam, length_penalty=alpha, **limits)
    plain = greedy(model, vectors(), LENGTHS, **limits)
    for hypotheses, one, source in zip(found, plain, vectors().split(LENGTHS.tolist())):
        assert 1 <= len(hypotheses) <= beam
        assert len({h.words for h in hypotheses}) == len(hypotheses)
        assert sorted((h.score for h in hypotheses), reverse=True) == [h.score for h in hypotheses]
        assert hypotheses[0].score >= one.log_probability / penalty(one.words, alpha) - 1e-6
        for h in hypotheses:
            assert lengths[0] <= len(h.words) <= lengths[1]
            assert not {PAD, BOS, EOS} & set(h.words) and (unknown or UNK not in h.words)
            want = log_probability(model, source, h.words)
            assert h.log_probability == pytest.approx(want, abs=1e-9)
            assert h.score == pytest.approx(want / penalty(h.words, alpha), abs=1e-9)
            assert h.attention.shape == (len(h.words), len(source))
            assert np.allclose(h.attention.sum(axis=1), 1, atol=1e-5)


@settings(max_examples=20)
@given(
    seed=SEEDS, lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5), beam=st.integers(1, 3)
)
def test_a_sentence_has_the_same_translations_in_every_batch(seed, lengths, beam):
    model, lengths = toy(seed), np.array(lengths)
    together = translate(model, vectors(lengths), lengths, beam=beam, max_length=6)
    for hypotheses, source in zip(together, vectors(lengths).split(lengths.tolist())):
        (alone,) = translate(model, source, np.array([len(source)]), beam=beam, max_length=6)
        assert [h.words for h in hypotheses] == [h.words for h in alone]
        for one, other in zip(hypotheses, alone):
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-9)
            assert np.allclose(one.attention, other.attention, atol=1e-5)


class Scripted:
    """Stands in for a translator: next words and their probabilities after each prefix.

    After a prefix that is not in the script, EOS is certain.
    """

    def __init__(self, script: dict[tuple[int, ...], dict[int, float]]):
        self.script = script
        self.prefixes: list[tuple[int, ...]] = [()]

    def start(self, vectors: torch.Tensor, lengths: np.ndarray) -> tuple[DecoderState, Memory]:
        n = len(lengths)
        nothing = torch.zeros(n, 1, 1)
        return DecoderState(torch.zeros(n, 1), []), Memory(nothing, nothing, nothing)

    def step(
        self, words: torch.Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, torch.Tensor]:
        """The number of its prefix is all that a row knows."""
        before = [self.prefixes[number] for number in state.fed[:, 0].int().tolist()]
        for prefix, word in zip(before, words.tolist()):
            self.prefixes.append(prefix if word == BOS else (*prefix, word))
        first = len(self.prefixes) - len(words)
        numbers = torch.arange(first, len(self.prefixes), dtype=torch.float32)
        return DecoderState(numbers[:, None], []), torch.ones(len(words), 1)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        probabilities = torch.zeros(len(hidden), 8)
        for row, number in enumerate(hidden[:, 0].int().tolist()):
            following = self.script.get(self.prefixes[number], {EOS: 1.0})
            for word, p in following.items():
                probabilities[row, word] = p
        return probabilities.log()

    def search(self, **settings: float) -> list[tuple[tuple[int, ...], float]]:
        """Words and probabilities of a sentence's translations."""
        (found,) = translate(self, torch.zeros(1, 1), np.array([1]), **settings)  # type: ignore
        return [(h.words, pytest.approx(math.exp(h.log_probability))) for h in found]


def test_a_beam_keeps_what_greedy_search_finds():
    """The greedy hypothesis falls behind two others, which come to nothing later."""
    many = {4: 0.26, 5: 0.25, 6: 0.25, 7: 0.24}
    model = Scripted(
        {
            (): {4: 0.4, 5: 0.35, 6: 0.25},
            (4,): many,
            (5,): {4: 0.5, 6: 0.5},
            **{(5, word): many for word in (4, 6)},
        }
    )
    assert model.search(beam=1) == [((4, 4), 0.4 * 0.26)]
    assert model.search(beam=2)[0] == ((4, 4), 0.4 * 0.26)


def test_a_search_waits_for_a_greedy_hypothesis_that_may_still_win():
    many = {EOS: 0.29, 4: 0.3, 5: 0.21, 6: 0.2}
    model = Scripted({(): {4: 0.34, EOS: 0.33, 5: 0.33}, (4,): many})
    model.script.update({(4,) * n: {4: 1.0} for n in range(2, 11)})
    assert model.search(beam=2)[0] == ((), 0.33)
    long = ((4,) * 11, 0.34 * 0.3)
    assert model.search(beam=2, length_penalty=2.0)[0] == long
    assert model.search(beam=1, length_penalty=2.0)[0] == long


def test_a_search_waits_for_a_hypothesis_that_is_ahead():
    model = Scripted(
        {
            (): {EOS: 0.4, 4: 0.35, 5: 0.25},
            (4,): {6: 0.9, EOS: 0.1},
            (5,): {EOS: 0.9, 6: 0.1},
        }
    )
    assert model.search(beam=2) == [((), 0.4), ((5,), 0.225)]
    assert model.search(beam=2, length_penalty=2.0)[0] == ((4, 6), 0.315)


def test_an_end_takes_no_place_in_the_beam():
    model = Scripted({(): {EOS: 0.5, 4: 0.3, 5: 0.2}, (4,): {6: 0.4, 7: 0.6}})
    assert model.search(beam=2) == [((), 0.5), ((5,), 0.2)]


def test_sentences_without_words_run_nothing():
    nobody: Translator = None  # type: ignore[assignment]
    found = translate(nobody, torch.zeros(0, INPUT_WIDTH), np.array([0, 0]), min_length=1)
    for (only,) in found:
        assert (only.words, only.log_probability, only.score) == ((), 0.0, 0.0)
        assert only.attention.shape == (0, 0)
    assert translate(nobody, torch.zeros(0, INPUT_WIDTH), np.array([], dtype=np.int64)) == []


def test_one_word_is_all_that_is_looked_at():
    (hypotheses,) = translate(toy(), vectors()[:1], np.array([1]), min_length=2, max_length=4)
    assert all((h.attention == 1).all() and len(h.attention) >= 2 for h in hypotheses)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_sentence_that_would_never_end_is_ended(beam):
    model = toy()
    model.generator.bias.data[EOS] = -50
    for hypotheses in translate(model, vectors(), LENGTHS, beam=beam, max_length=4):
        assert [len(h.words) for h in hypotheses] == [4] * beam
        assert all(h.log_probability < -40 for h in hypotheses)  # that of EOS is counted


def test_a_length_penalty_makes_translations_longer():
    lengths = np.full(20, 2)

    def n_words(alpha: float) -> int:
        found = translate(
            toy(), vectors(lengths), lengths, beam=8, max_length=9, length_penalty=alpha
        )
        return sum(len(hypotheses[0].words) for hypotheses in found)

    assert n_words(0.0) < n_words(1.0) < n_words(3.0)


def test_equal_hypotheses_come_in_order_of_their_ids():
    model = toy(n_target_words=6)
    for part in model.generator.parameters():
        torch.nn.init.zeros_(part)
    (hypotheses,) = translate(model, vectors()[:2], LENGTHS[:1], beam=13, max_length=2)
    words = [h.words for h in hypotheses]
    assert words == [(), (1,), (4,), (5,), *itertools.product([1, 4, 5], repeat=2)]
    assert [h.log_probability for h in hypotheses] == pytest.approx(
        [-math.log(6) * (len(h.words) + 1) for h in hypotheses]
    )


def test_no_gradients_are_recorded_and_nothing_is_dropped():
    model = toy()
    model.encoder.dropout = 0.9
    with torch.enable_grad():
        got = [h.words for h in greedy(model, vectors(), LENGTHS, max_length=6)]
    assert got == [tuple(loop(model, source, 6)[0]) for source in vectors().split(LENGTHS.tolist())]


NUMBERS = st.sampled_from([-math.inf, 0.0, 1.0, 2.0, 3.0])


@given(rows=st.lists(st.lists(NUMBERS, min_size=9, max_size=9), min_size=1), k=st.integers(1, 10))
def test_largest_takes_the_first_of_equal_numbers(rows, k):
    values, places = largest(torch.tensor(rows), k)
    want = np.argsort(-np.array(rows), axis=1, kind="stable")[:, :k]
    assert np.array_equal(places, want)
    assert np.array_equal(values, np.take_along_axis(np.array(rows), want, axis=1))


def test_unknown_words_are_replaced_by_what_they_looked_at():
    attention = np.array([[0.1, 0.8, 0.1], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2]], dtype=np.float32)
    source = ["eine", "Katze", "Berlins"]
    words = replace_unknown(["a", "<unk>", "<unk>"], attention, source)
    assert words == ["a", "Berlins", "eine"]
    assert replace_unknown(["<unk>", "?"], attention[:2], source, unknown="?") == [
        "<unk>",
        "Berlins",
    ]
    assert replace_unknown([], np.zeros((0, 3), dtype=np.float32), source) == []


@pytest.mark.parametrize(
    "name, value",
    [
        ("beam", 0), ("beam", 2.5), ("max_length", 0), ("min_length", -1), ("min_length", 7),
        ("length_penalty", -0.1), ("length_penalty", math.inf), ("length_penalty", math.nan),
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_named(name, value):
    with pytest.raises(CtxvecError, match=f"The setting {name} ="):
        translate(toy(), vectors(), LENGTHS, **{"max_length": 6, name: value})


def test_it_learns_to_copy():
    """Words that the source has, in its order: the whole model at work."""
    torch.manual_seed(0)
    config = NMTConfig(8, 8, MTLSTMConfig(input_width=4, hidden_width=16, n_layers=1), dropout=0.0)
    model, rng = Translator(config), np.random.default_rng(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    lengths = np.tile([1, 2, 3], 20)
    for _ in range(60):
        words = rng.integers(4, 8, int(lengths.sum()))
        targets = np.full((len(lengths), 3), PAD)
        targets[np.arange(3) < lengths[:, None]] = words
        loss = model.loss(torch.eye(4)[words - 4], lengths, targets)
        optimizer.zero_grad()
        (loss.total / len(lengths)).backward()
        optimizer.step()
    assert loss.perplexity < 1.1
    source = np.array([7, 4, 5, 6])
    found = translate(model, torch.eye(4)[source - 4], np.array([1, 0, 3]), beam=3, max_length=5)
    assert [hypotheses[0].words for hypotheses in found] == [(7,), (), (4, 5, 6)]
