"""Reading of ELMoForManyLangs: the numbers of the original, and every way to be malformed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from efml_files import BATCHES, CHARACTER_DIC, SIZES, WORD_DIC, Equations, write_efml, write_json

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats.efml.dictionaries import read_dictionary
from spacy_ctxvec.formats.efml.export import save_efml
from spacy_ctxvec.formats.efml.reading import is_efml, read_efml
from spacy_ctxvec.formats.efml.sizes import PUBLISHED, find_sizes, read_config
from spacy_ctxvec.formats.native import EncoderModel, load_native, save_native
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.vocabulary import as_bytes

FILES = ("config.json", "tiny.json", "word.dic", "char.dic", "token_embedder.pkl", "encoder.pkl")
KINDS: dict[str, dict[str, Any]] = {
    "both": {},
    "words alone": {"char_dim": 0},
    "characters alone": {"word_dim": 0},
    "tanh, no highway, no clips": {
        "activation": "tanh", "n_highway": 0, "cell_clip": None, "proj_clip": 0,
    },
    "one layer, wide projection": {"n_layers": 1, "projection_dim": 8, "n_highway": 1},
}  # fmt: skip


# --- Same weights, same vectors


def by_length(batch: list[list[str]]) -> list[int]:
    """The order of the batch rows in the original program."""
    return sorted(range(len(batch)), key=lambda i: -len(batch[i]))


def test_two_calls_of_the_original_program(reference, embed, parity):
    folder = reference / "generated/efml_tiny"
    model = read_efml(folder).build()
    model.carry_state("carry")
    sentences = json.loads((folder / "sentences.json").read_text("utf8"))["sentences"]
    expected = np.load(folder / "expected.npz")
    order = by_length(sentences)
    got, want = [], []
    for call in range(2):
        got += embed(model, [sentences[i] for i in order], sentence_marks=True)
        want += [expected[f"call{call}.sent{i}"].transpose(1, 0, 2) for i in order]
    parity("efml_tiny, all layers, 2 calls, state carried", got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_equations(tmp_path, embed, kind):
    folder = write_efml(tmp_path, **KINDS[kind])
    model = read_efml(folder).build()
    model.carry_state("carry")
    equations = Equations(folder)
    for batch in [*BATCHES, [["<bos>", "a", "<eos>"]]]:
        rows = [batch[i] for i in by_length(batch)]
        for got, want in zip(
            embed(model, rows, sentence_marks=True), equations.layers(rows), strict=True
        ):
            np.testing.assert_allclose(got, want, atol=1e-5)


def test_marks_in_a_text_are_spelled_unless_asked_for(tmp_path, embed):
    model = read_efml(write_efml(tmp_path)).build()
    plain = embed(model, [["<bos>"]])[0]
    literal = embed(model, [["<bos>"]], sentence_marks=True)[0]
    mark = model.mark_vectors()[0].detach().numpy()
    assert np.allclose(literal[0, 0, :4], mark, atol=1e-5)
    assert not np.allclose(plain[0, 0, :4], mark, atol=1e-2)


def test_what_is_known_of_the_model(tmp_path):
    model = read_efml(write_efml(tmp_path / "ab"))
    assert (model.info["name"], model.info["family"]) == ("ab", "elmoformanylangs")
    assert model.info["standardize"] is False and "lang" not in model.info
    sizes = BiLMConfig(
        width=8, hidden_width=6, skip=True, cell_clip=0.5, output_clip=0.3, char_width=2,
        filters=((1, 3), (2, 4), (4, 2)), n_highway=2, max_characters=9, n_words=8, word_width=3,
        n_characters=12,
    )  # fmt: skip
    assert model.config == sizes


# --- Dictionaries


def test_white_space_is_the_ideographic_space_and_the_last_one_counts(tmp_path):
    (tmp_path / "dic").write_text(CHARACTER_DIC, "utf8")
    rows = read_dictionary(tmp_path / "dic")
    assert rows["\u3000"] == 10 and "\u00a0" not in rows and "\u2028" not in rows
    model = read_efml(write_efml(tmp_path / "model")).build()
    unknown, space = model.word_ids(["\u00a0", "\u3000"])
    assert unknown[0] == 2 and space[0] > 2 and unknown[2] != space[2]


def test_words_keep_what_stripping_takes_from_their_ends(tmp_path):
    (tmp_path / "dic").write_bytes(" a b\t3\r\n\u3000\u3000c\t\t".encode().rstrip() + b"\t4\n")
    assert read_dictionary(tmp_path / "dic") == {"a b": 3, "c": 4}


def test_sentence_marks_that_are_no_words_are_unknown_words(tmp_path, embed):
    words = WORD_DIC.replace("<eos>\t5\n", "").replace("<bos>\t7\n", "")
    folder = write_efml(tmp_path, words=words)
    got = embed(read_efml(folder).build(), BATCHES[0][:1])[0]
    np.testing.assert_allclose(got, Equations(folder).layers(BATCHES[0][:1])[0], atol=1e-5)


@pytest.mark.parametrize(
    "text, found",
    [
        ("a\tb\t1\n", "line 1"),
        ("a\t0\nb\n", "line 2"),
        ("a\t0\n\nb\t1\n", "line 2"),
        ("a\t-1\n", "line 1"),
        ("a\t1.5\n", "line 1"),
        ("", "line 1"),
        ("a\t1\n", "line of <"),
        (CHARACTER_DIC.replace("<eow>", "eow") + WORD_DIC.replace("<oov>", "oov"), "line of <"),
        (f"{CHARACTER_DIC}{WORD_DIC}x\t99\n", "more than 99 rows"),
    ],
)
@pytest.mark.parametrize("name", ["word.dic", "char.dic"])
def test_dictionaries_that_are_none(tmp_path, name, text, found):
    if name == "word.dic":
        text = text.replace("<oov>\t0\n", "")
    write_efml(tmp_path)
    (tmp_path / name).write_text(text, "utf8")
    with pytest.raises(MalformedModelError, match=found):
        read_efml(tmp_path)


def test_a_dictionary_in_another_encoding(tmp_path):
    write_efml(tmp_path)
    (tmp_path / "char.dic").write_bytes(CHARACTER_DIC.encode("utf-16"))
    with pytest.raises(MalformedModelError, match=r"char\.dic.*UTF-8"):
        read_efml(tmp_path)


# --- The file of the sizes


@pytest.mark.parametrize(
    "stated", ["tiny.json", r"C:\Users\a\tiny.json", "/gone/other.json", "..", "", None, 3, "a\0b"]
)
def test_the_sizes_are_found_whatever_path_is_stated(tmp_path, stated):
    write_efml(tmp_path, config={"config_path": stated})
    write_json(tmp_path / "meta.json", {"language": "x"})
    assert find_sizes(tmp_path).path.name == "tiny.json"
    assert read_efml(tmp_path).config.hidden_width == 6


def test_of_several_files_with_sizes_the_stated_one_is_read(tmp_path):
    write_efml(tmp_path)
    other = json.loads((tmp_path / "tiny.json").read_text("utf8"))
    write_json(tmp_path / "other.json", other)
    assert find_sizes(tmp_path).path.name == "tiny.json"
    write_json(tmp_path / "config.json", {"config_path": "third.json"})
    with pytest.raises(MalformedModelError, match=r"config_path.*third\.json"):
        read_efml(tmp_path)


def test_published_models_whose_sizes_are_missing(tmp_path):
    """Some of the published folders lack the file; all have the same sizes."""
    write_efml(tmp_path, config={"config_path": f"/Users/somebody/{PUBLISHED}"})
    (tmp_path / "tiny.json").unlink()
    config = read_config(find_sizes(tmp_path), n_words=9, n_characters=7)
    assert (config.width, config.hidden_width, config.n_words) == (1024, 4096, 9)
    assert sum(n for _, n in config.filters) == 2048
    with pytest.raises(MalformedModelError, match=r"word_emb_layer.*\(8, 100\).*\(8, 3\)"):
        read_efml(tmp_path)


@pytest.mark.parametrize(
    "block, key, value, found",
    [
        ("encoder", "dim", None, "encoder.dim"),
        ("encoder", "dim", SIZES["projection_dim"], "encoder.projection_dim"),
        ("encoder", "projection_dim", 0, "sizes of a biLM"),
        ("encoder", "n_layers", 10**12, r"forward_layer_2\.input_linearity\.weight"),
        ("encoder", "n_layers", 1, "layer_1"),
        ("encoder", "proj_clip", "3", "encoder.proj_clip"),
        ("token_embedder", "filters", [[1]], "token_embedder.filters"),
        ("token_embedder", "filters", [[1, 3], [2, 4], [4, 3]], r"highways\._layers\.0"),
        ("token_embedder", "n_highway", 10**12, "highways._layers.2"),
        ("token_embedder", "activation", "gelu", "token_embedder.activation"),
        ("token_embedder", "max_characters_per_token", 3, "sizes of a biLM"),
        ("token_embedder", "word_dim", 4, "word_emb_layer"),
        ("token_embedder", "word_dim", 0, "projection.weight"),
        ("token_embedder", "char_dim", -1, "token_embedder.char_dim"),
    ],
)
def test_sizes_that_do_not_fit(tmp_path, block, key, value, found):
    write_efml(tmp_path)
    sizes = json.loads((tmp_path / "tiny.json").read_text("utf8"))
    sizes[block][key] = value
    write_json(tmp_path / "tiny.json", sizes)
    with pytest.raises(MalformedModelError, match=found):
        read_efml(tmp_path)


@pytest.mark.parametrize("block", ["encoder", "token_embedder"])
def test_other_kinds_are_refused_by_name(tmp_path, block):
    write_efml(tmp_path)
    sizes = json.loads((tmp_path / "tiny.json").read_text("utf8"))
    sizes[block]["name"] = "LSTM"
    write_json(tmp_path / "tiny.json", sizes)
    with pytest.raises(CtxvecError, match=f'{block}.name = "lstm". Only'):
        read_efml(tmp_path)


def test_a_model_that_reads_nothing(tmp_path):
    write_efml(tmp_path, word_dim=0, char_dim=0)
    with pytest.raises(MalformedModelError, match=r"token_embedder\.word_dim"):
        read_efml(tmp_path)


# --- Tensors


def test_every_tensor_is_checked(tmp_path):
    write_efml(tmp_path)
    for name in ("token_embedder.pkl", "encoder.pkl"):
        tensors = torch.load(tmp_path / name, weights_only=True)
        for key, tensor in tensors.items():
            not_finite = tensor.clone()
            not_finite.view(-1)[-1] = float("nan")
            wrong = [tensor[..., :-1], tensor[None], tensor.int(), tensor.to_sparse(), not_finite]
            few = tensor.reshape(-1)[:1].clone().expand(tensor.shape)
            for other in [*wrong, few, "x", None]:
                changed = {**tensors, key: other}
                if other is None:
                    del changed[key]
                torch.save(changed, tmp_path / name)
                with pytest.raises(MalformedModelError, match=f"tensor {key}"):
                    read_efml(tmp_path)
        torch.save({**tensors, "more": torch.zeros(2)}, tmp_path / name)
        with pytest.raises(MalformedModelError, match="tensor more should be absent"):
            read_efml(tmp_path)
        torch.save(tensors, tmp_path / name)
    read_efml(tmp_path)


@pytest.mark.parametrize("value", [Path("x"), [1, 2], torch.zeros(3)])
def test_files_that_hold_something_else(tmp_path, value):
    write_efml(tmp_path)
    torch.save(value, tmp_path / "encoder.pkl")
    with pytest.raises(MalformedModelError, match=r"encoder\.pkl"):
        read_efml(tmp_path)


def test_half_precision(tmp_path):
    write_efml(tmp_path)
    want = read_efml(tmp_path)
    for name in ("token_embedder.pkl", "encoder.pkl"):
        tensors = torch.load(tmp_path / name, weights_only=True)
        torch.save({key: tensor.half() for key, tensor in tensors.items()}, tmp_path / name)
    for name, tensor in read_efml(tmp_path).weights.items():
        assert tensor.dtype == want.weights[name].dtype
        assert torch.allclose(tensor.float(), want.weights[name].float(), atol=2e-3)


@pytest.mark.parametrize("name", FILES)
def test_missing_files(tmp_path, name):
    write_efml(tmp_path)
    (tmp_path / name).unlink()
    named = "config.json" if name == "tiny.json" else name
    with pytest.raises(MalformedModelError, match=named):
        read_efml(tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_damage_anywhere_is_an_error_or_harmless(tmp_path, name):
    whole = (write_efml(tmp_path) / name).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(100):
        flipped = bytearray(whole)
        flipped[random.integers(len(whole))] ^= int(random.integers(1, 256))
        for data in (whole[: random.integers(len(whole))], bytes(flipped)):
            (tmp_path / name).write_bytes(data)
            is_efml(tmp_path)
            with contextlib.suppress(CtxvecError):
                read_efml(tmp_path)


# --- Recognition, and the way back


def test_recognition(tmp_path):
    folder = write_efml(tmp_path / "efml")
    assert is_efml(folder)
    (folder / "config.json").write_text("{", "utf8")
    assert is_efml(folder)
    for name in ("token_embedder.pkl", "encoder.pkl"):
        (folder / name).unlink()
    assert not is_efml(folder) and not is_efml(tmp_path) and not is_efml(tmp_path / "none")
    write_json(folder / "config.json", {"config_path": "x"})
    assert is_efml(folder)  # so that the message tells which file is missing


@pytest.mark.parametrize("kind", KINDS)
def test_written_and_read_again_no_bit_is_changed(tmp_path, kind):
    model = read_efml(write_efml(tmp_path / "there", **KINDS[kind]))
    save_efml(model, tmp_path / "back")
    again = read_efml(tmp_path / "back")
    assert again.config == model.config and again.weights.keys() == model.weights.keys()
    for name, tensor in model.weights.items():
        assert torch.equal(again.weights[name], tensor), name


def test_what_is_written_is_the_same_model_to_the_original(tmp_path):
    folder = write_efml(tmp_path / "there")
    save_efml(read_efml(folder), tmp_path / "back")
    (tmp_path / "back" / "sizes.json").rename(tmp_path / "back" / "tiny.json")
    there, back = Equations(folder), Equations(tmp_path / "back")
    for batch in BATCHES:
        for want, got in zip(there.layers(batch), back.layers(batch)):
            np.testing.assert_allclose(got, want, atol=1e-12)


def test_through_the_own_format(tmp_path):
    model = read_efml(write_efml(tmp_path / "there"))
    save_native(model, tmp_path / "native")
    again = load_native(tmp_path / "native")
    assert again.config == model.config and again.info == model.info
    save_efml(again, tmp_path / "back")
    for name, tensor in read_efml(tmp_path / "back").weights.items():
        assert torch.equal(tensor, model.weights[name])


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"n_characters": 0, "n_words": 0, "word_width": 0}, "vocabulary of characters"),
        ({"directions": "forward", "width": 4}, "lacks a direction"),
        ({"skip": False}, "skip connections"),
        ({"hidden_width": 4}, "no projection"),
    ],
)
def test_models_that_the_format_has_no_place_for(tmp_path, changes, reason):
    config = read_efml(write_efml(tmp_path / "there")).config
    other = BiLMConfig(**{**config.to_dict(), **changes})
    with pytest.raises(CtxvecError, match=f"cannot be written.*{reason}"):
        save_efml(EncoderModel(other, BiLM(other).state_dict()), tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize("part", ["words", "alphabet"])
@pytest.mark.parametrize("token", [" ", "\t", "b"])
def test_vocabularies_that_the_dictionaries_cannot_hold(tmp_path, part, token):
    """White space, and what is there already."""
    model = read_efml(write_efml(tmp_path / "there"))
    text = {"words": f"<S>\n</S>\n<UNK>\nb\n{token}\n", "alphabet": f"b{token}"}[part]
    name = f"word_char_encoder.{part}.vocabulary"
    weights = {**model.weights, name: as_bytes(text)}
    with pytest.raises(CtxvecError, match="dictionaries cannot hold"):
        save_efml(EncoderModel(model.config, weights), tmp_path / "back")
