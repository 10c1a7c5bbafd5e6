"""Token layers of words and characters: what is looked up, the padding, and the gradients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.func import functional_call

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native
from spacy_ctxvec.nn.alphabet import N_MARKS, PADDING, UNKNOWN, WORD_END, WORD_START
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.vocabulary import as_bytes
from spacy_ctxvec.nn.word_char_encoder import WordCharEncoder
from spacy_ctxvec.text.corpus import SPECIALS
from spacy_ctxvec.training.pretrain import new_bilm
from spacy_ctxvec.training.token_layer import TokenLayer

WORDS = [*SPECIALS, "river", "東京", "abcdef", "<bos>"]
ALPHABET = "abcdefé東\u3000𝒳"
ODD = ["", "river", "東京都", "abcdefghij", "<bos>", "\ud800", "a\u3000b", "𝒳é", "<S>", "zz"]
PARTS = {
    "both": {"n_words": len(WORDS), "word_width": 3, "n_characters": N_MARKS + len(ALPHABET)},
    "words": {"n_words": len(WORDS), "word_width": 3},
    "characters": {"n_characters": N_MARKS + len(ALPHABET)},
}


@pytest.fixture(params=PARTS)
def sizes(request, tiny_config: BiLMConfig) -> BiLMConfig:
    return replace(tiny_config, max_characters=8, **PARTS[request.param])


def filled(config: BiLMConfig) -> BiLM:
    model = BiLM(config)
    encoder = model.word_char_encoder
    for parameter in encoder.parameters():
        parameter.data.uniform_(-0.5, 0.5)
    if encoder.words is not None:
        encoder.words.set_words(WORDS)
    if encoder.alphabet is not None:
        encoder.alphabet.set_text(as_bytes(ALPHABET))
    return model.eval()


@pytest.fixture
def model(sizes: BiLMConfig) -> BiLM:
    return filled(sizes)


@pytest.fixture
def whole(tiny_config: BiLMConfig) -> BiLM:
    return filled(replace(tiny_config, max_characters=8, **PARTS["both"]))


def test_ids_of_words(whole):
    a, b, p = N_MARKS, N_MARKS + 1, PADDING
    ids = whole.word_ids(["ab", "", "z\ud800é"])
    assert ids.tolist() == [
        [2, WORD_START, a, b, WORD_END, p, p, p, p],
        [2, WORD_START, WORD_END, p, p, p, p, p, p],
        [2, WORD_START, UNKNOWN, UNKNOWN, a + 6, WORD_END, p, p, p],
    ]
    assert whole.word_ids([]).shape == (0, 9)


def test_words_are_cut_before_they_are_looked_up(whole):
    known, longer, other = whole.word_ids(["abcdef", "abcdefghij", "abcdeg"])
    assert known[0] == 5 and (longer == known).all() and other[0] == 2


def test_marks_are_words_of_one_character(whole):
    marks = whole.mark_ids()
    assert marks[:, :5].tolist() == [[0, 3, 1, 4, 0], [1, 3, 2, 4, 0]]
    words = ["<bos>", "<eos>", "<S>"]
    literal = whole.word_ids(words, sentence_marks=True)
    assert (literal[:2] == marks).all()
    # As text they are spelled; a word of the vocabulary may look like them.
    plain = whole.word_ids(words)
    assert plain[:, 0].tolist() == [6, 2, 2] and (plain[:, 2] == UNKNOWN).all()
    assert (literal[2] == plain[2]).all()


def test_characters_beyond_the_table_are_unknown(tiny_config):
    model = BiLM(replace(tiny_config, n_characters=N_MARKS + 2))
    model.word_char_encoder.alphabet.set_text(as_bytes("abc"))
    assert model.word_ids(["abc"])[0, 1:4].tolist() == [N_MARKS, N_MARKS + 1, UNKNOWN]


def test_the_maximum_is_over_all_positions_padding_included(whole):
    encoder = whole.word_char_encoder.char_encoder
    ids = torch.from_numpy(whole.word_ids(ODD)[:, 1:])
    with torch.no_grad():
        x = encoder.embedding(ids).transpose(1, 2)
        plain = [c(x).amax(dim=2) for c in encoder.convolutions]
        want = torch.relu(torch.cat(plain, dim=1))
        for highway in encoder.highways:
            want = highway(want)
        assert torch.allclose(encoder(ids), want, atol=1e-6)
        short = torch.from_numpy(whole.word_ids(["a", ""])[:, 1:])  # most columns are dropped
        assert torch.allclose(encoder(short)[0], encoder(torch.cat([short, ids]))[0], atol=1e-6)


def test_each_part_adds_to_a_word(model):
    vectors = model.word_vectors(["river", "東京", "zz"])
    assert not torch.allclose(vectors[0], vectors[1])
    same = model.word_vectors(["qq", "zz"])  # unknown as words and by their characters
    assert torch.equal(same[0], same[1])


def test_gradients_by_finite_differences(sizes):
    encoder = filled(sizes).word_char_encoder.double()
    ids = torch.from_numpy(encoder.ids(ODD))
    names, parameters = zip(*encoder.named_parameters())
    table = "char_encoder.embedding.weight"
    padding = {name: p.detach()[:1].clone() for name, p in zip(names, parameters) if name == table}

    def run(*values: torch.Tensor) -> torch.Tensor:
        named = dict(zip(names, values))
        for name, row in padding.items():  # which does not learn
            named[name] = torch.cat([row, named[name][1:]])
        return functional_call(encoder, named, (ids,))

    assert torch.autograd.gradcheck(run, parameters, atol=1e-6, fast_mode=True)
    for parameter in parameters[2:]:
        parameter.requires_grad_(False)
    assert torch.autograd.gradcheck(run, parameters, atol=1e-6)


def test_gradients_reach_both_tables(whole):
    vectors = torch.cat([whole.mark_vectors(), whole.word_vectors(["river"])])
    whole(vectors, np.array([2, 2]), np.array([2])).sum().backward()
    rows = whole.word_char_encoder.words.embedding.weight.grad
    assert [bool(row.any()) for row in rows] == [True, True, False, True] + [False] * 3
    assert whole.word_char_encoder.char_encoder.embedding.weight.grad[WORD_START].any()


def test_the_token_layer_of_a_training_step_is_the_same(model):
    with torch.no_grad():
        want = torch.cat([model.mark_vectors(), model.word_vectors(ODD)])
        found = TokenLayer(model, ODD, torch.float32).vectors
    assert torch.allclose(found, want, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_both_vocabularies_travel_with_the_weights(model, sizes, tmp_path, embed, dtype):
    save_native(EncoderModel(sizes, model.state_dict()), tmp_path, dtype=dtype)
    again = load_native(tmp_path).build()
    assert (again.word_ids(ODD) == model.word_ids(ODD)).all()
    for got, want in zip(embed(again, [ODD]), embed(model, [ODD])):
        np.testing.assert_allclose(got, want, atol=1e-6 if dtype == "float32" else 5e-3)


def test_models_saved_before_there_were_such_settings_keep_theirs(tiny_config):
    saved = tiny_config.to_dict()
    del saved["n_characters"], saved["word_width"]
    assert BiLMConfig(**saved) == tiny_config and not tiny_config.is_projected


@pytest.mark.parametrize(
    "field, settings",
    [
        ("n_characters", {"n_characters": 5}),
        ("n_characters", {"n_characters": "7"}),
        ("word_width", {"n_words": 9, "word_width": -1}),
        ("word_width", {"word_width": 4}),  # of no words
        ("word_width", {"n_words": 9, "n_characters": 9}),  # nothing to join
    ],
)
def test_settings_that_cannot_work(tiny_config, field, settings):
    with pytest.raises(CtxvecError, match=f"The setting {field} ="):
        replace(tiny_config, **settings)


def test_training_from_the_start_is_refused(model):
    with pytest.raises(CtxvecError, match="can be read and adapted, not trained from the start"):
        new_bilm(model.config, None)


def test_the_encoder_is_chosen_by_the_settings(model):
    assert isinstance(model.token_encoder, WordCharEncoder)
