"""A transformer as an encoder: its library's own layers, whatever is read together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformer_files import write_bert, write_roberta

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.transformer import read_transformer
from spacy_ctxvec.nn.pieces import MAX_PIECES, Pieces
from spacy_ctxvec.nn.transformer import Transformer, TransformerConfig, fitting, new_model
from spacy_ctxvec.nn.vocabulary import as_bytes

transformers = pytest.importorskip("transformers", reason="needs the package transformers")

SENTENCES = [["the", "bank", "is", "unseen"], ["old", "."], ["abc", "Zürich"], ["a"]]
LENGTHS = np.array([4, 2, 2, 1])


@pytest.fixture(scope="module", params=[write_bert, write_roberta])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(1)
    return request.param(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(folder: Path) -> Transformer:
    return read_transformer(folder).build()


def inputs(model: Transformer, words: list[str]) -> tuple[torch.Tensor, np.ndarray]:
    """`vectors` and `index` as `forward` takes them."""
    distinct = sorted(set(words))
    return torch.from_numpy(model.pieces.table(distinct)), np.array(
        [distinct.index(word) for word in words]
    )


def layers_of(model: Transformer, sentences: list[list[str]], **options) -> torch.Tensor:
    words = [word for sentence in sentences for word in sentence]
    vectors, index = inputs(model, words)
    with torch.no_grad():
        return model(vectors, index, np.array([len(s) for s in sentences]), **options)


def test_layers_are_those_of_the_library(folder: Path, model: Transformer) -> None:
    reader = transformers.AutoModel.from_pretrained(folder).eval()
    found = layers_of(model, SENTENCES).split(LENGTHS.tolist())
    for sentence, layers in zip(SENTENCES, found):
        pieces = model.pieces.ids(sentence)
        ids = [*model.pieces.before, *(i for word in pieces for i in word), *model.pieces.after]
        with torch.no_grad():
            output = reader(torch.tensor([ids]), output_hidden_states=True)
        hidden = torch.stack(output.hidden_states, dim=2)[0]
        start = len(model.pieces.before)
        for row, word in zip(layers, pieces):
            expected = hidden[start : start + len(word)].mean(dim=0)
            torch.testing.assert_close(row, expected, atol=1e-5, rtol=1e-5)
            start += len(word)


def test_marks_and_pieces(folder: Path, model: Transformer) -> None:
    text = json.loads((folder / "tokenizer.json").read_text("utf8"))
    is_bert = text["model"]["type"] == "WordPiece"
    assert (model.pieces.before, model.pieces.after) == (([2], [3]) if is_bert else ([0], [2]))
    bank, unseen, strange, nothing = model.pieces.ids(["bank", "unseen", "東", "\u200d"])
    assert len(unseen) > 1 and strange and nothing
    assert model.pieces.ids(["ab" * 500])[0] == model.pieces.ids(["ab" * 500])[0][:MAX_PIECES]
    if is_bert:
        assert (bank, strange) == ([5], [1])
    else:  # every word begins with a space
        (alone,) = model.pieces.ids(["bank"])
        assert alone == bank and bank[0] != model.pieces.ids(["xbank"])[0][-1]


def test_the_same_alone_and_together(model: Transformer) -> None:
    together = layers_of(model, SENTENCES)
    alone = torch.cat([layers_of(model, [sentence]) for sentence in SENTENCES])
    torch.testing.assert_close(alone, together, atol=1e-6, rtol=1e-5)
    groups = [np.array([3, 0]), np.array([2]), np.array([1])]
    in_groups = layers_of(model, SENTENCES, groups=groups)
    torch.testing.assert_close(in_groups, together, atol=1e-6, rtol=1e-5)


def test_more_pieces_than_positions_are_read_in_parts(model: Transformer) -> None:
    words = ["bank", "unseen"] * 40
    found = layers_of(model, [words, ["old"]])
    room = model.max_positions - 2
    sizes = [len(pieces) for pieces in model.pieces.ids(words)]
    first = int((np.cumsum(sizes) <= room).sum())
    torch.testing.assert_close(found[:first], layers_of(model, [words[:first]]))
    assert found.shape == (81, model.config.n_outputs, 8) and found.isfinite().all()


def test_layers_that_do_not_learn_have_no_gradient(model: Transformer) -> None:
    model.set_trainable(1)
    vectors, index = inputs(model, ["bank", "old"])
    model(vectors, index, np.array([2])).sum().backward()
    learns = {name for name, p in model.named_parameters() if p.grad is not None}
    assert learns and not any("embeddings" in name for name in learns)
    model.set_trainable(0)
    model(vectors, index, np.array([2])).square().sum().backward()
    assert any(p.grad is not None for n, p in model.named_parameters() if "embeddings" in n)
    model.zero_grad()


@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=12), min_size=1, max_size=6))
def test_parts_fit_and_lose_nothing(sequences: list[list[int]]) -> None:
    n_pieces = np.array([n for sequence in sequences for n in sequence])
    lengths = np.array([len(sequence) for sequence in sequences])
    parts, numbers = fitting(n_pieces, lengths, 7)
    assert np.array_equal(np.bincount(numbers, weights=parts), lengths)
    totals = np.add.reduceat(n_pieces, np.cumsum(parts) - parts)
    assert (totals <= 7).all() and (parts > 0).all() and (np.diff(numbers) >= 0).all()
    whole = [number for number, s in enumerate(sequences) if sum(s) <= 7]
    assert all((numbers == number).sum() == 1 for number in whole)


@pytest.mark.parametrize(
    "width, n_layers, settings, said",
    [
        (9, 2, {}, "settings.hidden_size"),
        (8, 3, {}, "settings.num_hidden_layers"),
        (8, 2, {"model_type": "no such"}, "settings"),
        (8, 2, {"num_attention_heads": 3}, "settings"),
        (8, 2, {"is_encoder_decoder": True}, "of type bert"),
    ],
)
def test_settings_that_do_not_fit(width: int, n_layers: int, settings: dict, said: str) -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    settings = {"model_type": "bert", "vocab_size": 9, **sizes, **settings}
    with pytest.raises(CtxvecError, match=said):
        new_model(TransformerConfig(width, n_layers, settings))


def test_a_tokenizer_goes_with_the_weights(folder: Path, model: Transformer) -> None:
    other = Pieces()
    other.load_state_dict(model.pieces.state_dict())
    assert other.ids(["unseen"]) == model.pieces.ids(["unseen"])
    assert as_bytes(other.text).tolist() == model.pieces.vocabulary.tolist()


def test_nothing_is_read_without_a_tokenizer() -> None:
    with pytest.raises(CtxvecError, match="no tokenizer yet"):
        Pieces().ids(["a"])


def test_words_that_are_spelled_like_marks_are_none(model: Transformer) -> None:
    found = model.pieces.ids(["</s>", "[CLS]", "<pad>", "[SEP]"])
    marks = {*model.pieces.before, *model.pieces.after}
    assert not marks & {id_ for ids in found for id_ in ids}


def test_layers_that_share_their_weights_learn_together() -> None:
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    more = {"vocab_size": 20, "embedding_size": 4, "intermediate_size": 12}
    model = Transformer(TransformerConfig(8, 2, {"model_type": "albert", **sizes, **more}))
    model.set_trainable(2)
    learns = {n for n, parameter in model.named_parameters() if parameter.requires_grad}
    assert learns and not any("word_embeddings" in name for name in learns)
    model.set_trainable(0)
    assert all(parameter.requires_grad for parameter in model.model.parameters())
