"""Checkpoints of the training code give the vectors and the perplexity that it computed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from bundles import write_bundle
from elmo_files import make_arrays, make_options, write
from oracle import Oracle

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats.elmo.hdf5_pair import read_bilm_hdf5
from spacy_ctxvec.formats.elmo.vocabulary import find_vocabulary, read_vocabulary
from spacy_ctxvec.formats.native import EncoderModel, load_softmax, save_native, save_softmax
from spacy_ctxvec.formats.tensorflow.checkpoint import (
    find_checkpoint,
    read_tf_checkpoint,
    read_tf_slots,
    read_tf_softmax,
)
from spacy_ctxvec.training.pretrain import load_language_model

Arrays = dict[str, np.ndarray]
CELL = re.compile(r"RNN_(\d)/RNN/MultiRNNCell/Cell(\d+)/LSTMCell/(.*)")
PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}
WORDS = ["<S>", "</S>", "<UNK>", "the", "cat", "sat", "."]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf8"))


def same(got: EncoderModel, want: EncoderModel) -> bool:
    names = got.weights.keys()
    equal = [torch.equal(got.weights[name], want.weights[name]) for name in names]
    return got.config == want.config and names == want.weights.keys() and all(equal)


# --- The training code's own checkpoint


@pytest.fixture
def tf_tiny(reference) -> Path:
    return reference / "generated/tf_tiny"


@pytest.fixture
def index(tf_tiny) -> Path:
    found = find_checkpoint(tf_tiny / "ckpt")
    assert found == tf_tiny / "ckpt/model.ckpt-300.index"
    return found


def test_the_weights_are_those_of_the_dumped_file(tf_tiny, index):
    got = read_tf_checkpoint(index, tf_tiny / "options.json")
    assert same(got, read_bilm_hdf5(tf_tiny / "options.json", tf_tiny / "weights.hdf5"))
    assert got.info["family"] == "tf-checkpoint" and got.info["global_step"] == 300
    assert got.info["name"] == "model.ckpt-300" and "assumed" not in got.info
    assert {weight.dtype for weight in got.weights.values()} == {torch.float32}


def test_every_layer_with_carried_state(tf_tiny, index, embed, parity):
    model = read_tf_checkpoint(index, tf_tiny / "ckpt/options.json").build()
    model.carry_state("carry")
    expected = np.load(tf_tiny / "expected_embeddings.npz")
    got, want = [], []
    for b, batch in enumerate(read_json(tf_tiny / "batches.json")["batches"]):
        for row, layers in enumerate(embed(model, batch, sentence_marks=True)):
            got.append(layers.transpose(1, 0, 2))
            want.append(expected[f"b{b}.lm_embeddings"][row][:, : len(layers)])
    parity("tf_tiny, checkpoint, all layers, state carried", got, want)


def test_perplexity_of_both_directions(tf_tiny, index, parity):
    model = read_tf_checkpoint(index, tf_tiny / "options.json").build()
    softmax, words = read_tf_softmax(index, tf_tiny / "vocab.txt")
    ids = {word: i for i, word in enumerate(words)}
    model.carry_state("carry")
    losses: list[list[torch.Tensor]] = [[], []]
    for line in (tf_tiny / "data.txt").read_text("utf8").splitlines():
        for direction in (0, 1):
            tokens = ["<S>", *line.split(), "</S>"][:: 1 - 2 * direction]
            targets = torch.tensor([ids.get(token, ids["<UNK>"]) for token in tokens[1:]])
            with torch.no_grad():
                x = model.word_vectors(tokens[:-1], sentence_marks=True)
                steps, row = np.ones(len(x), dtype=np.int64), np.zeros(1, dtype=np.int64)
                top = model.run_stack(direction, x, steps, row)[-1]
                losses[direction].append(softmax.full_losses(direction, top, targets))
    logs = [torch.cat(parts).double().mean().numpy() for parts in losses]
    expected = read_json(tf_tiny / "expected.json")
    assert sum(map(len, losses[0])) == expected["tokens"]
    keys = "fwd_ppl", "bwd_ppl", "perplexity_full_softmax_batch1_unroll1"
    for key, log in zip(keys, [*logs, np.mean(logs)]):
        want = np.array(expected[key])
        parity(f"tf_tiny, checkpoint, {key} {want:.4f}", [np.exp(log)], [want])


def test_slots_of_the_optimiser(tf_tiny, index):
    slots = read_tf_slots(index, tf_tiny / "options.json")
    model = read_tf_checkpoint(index, tf_tiny / "options.json").build()
    shapes = {name: weight.shape for name, weight in model.named_parameters()}
    assert {name: slot.shape for name, slot in slots.items()} == shapes
    characters = slots.pop("char_encoder.embedding.weight")
    assert not characters[0].any() and (characters[1:] >= 1).all()
    assert all((slot >= 1).all() for slot in slots.values())  # they start there


# --- Checkpoints made here


def trained(name: str) -> str:
    """The name of a variable in training, for that of the HDF5 file."""
    match = CELL.fullmatch(name)
    if not match:
        return f"lm/{name}"
    direction, layer, part = match.groups()
    return f"lm/RNN_{direction}/rnn/multi_rnn_cell/cell_{layer}/lstm_cell/{PARTS[part]}"


def of_one_layer(name: str) -> str:
    return trained(name).replace("multi_rnn_cell/cell_0/", "")


def in_module(name: str) -> str:
    match = CELL.fullmatch(name)
    if not match:
        return f"module/bilm/{name}"
    direction, layer, part = match.groups()
    cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}"
    return f"module/bilm/{cell}/rnn/lstm_cell/{PARTS[part]}"


def oldest(name: str) -> str:
    return f"lm/{name}"


def without_prefix(name: str) -> str:
    return in_module(name).removeprefix("module/bilm/")


def renamed(arrays: Arrays, name: Callable[[str], str]) -> Arrays:
    return {name(key): array for key, array in arrays.items()}


def with_more(tensors: Arrays) -> Arrays:
    """What else a training keeps."""
    slots = {f"{name}/Adagrad": np.ones_like(array) for name, array in tensors.items()}
    others = {"global_step": np.array(1250), "train_perplexity": np.array(40.5, "float32")}
    return {**tensors, **slots, **others}


def read_made(folder: Path, tensors: Arrays, options: Any = None) -> EncoderModel:
    path = None
    if options is not None:
        path = folder / "options.json"
        path.write_text(json.dumps(options), "utf8")
    return read_tf_checkpoint(write_bundle(folder / "model.ckpt-1250", tensors), path)


@pytest.mark.parametrize("name", [trained, in_module, oldest, without_prefix])
def test_all_spellings_of_the_names(tmp_path, name):
    arrays = make_arrays()
    want = read_bilm_hdf5(*write(tmp_path, make_options(), arrays))
    tensors = with_more(renamed(arrays, name))
    assert same(read_made(tmp_path, tensors, make_options()), want)


def test_the_spelling_of_a_single_layer(tmp_path):
    arrays, options = make_arrays(layers=1), make_options(layers=1)
    want = read_bilm_hdf5(*write(tmp_path, options, arrays))
    assert same(read_made(tmp_path, renamed(arrays, of_one_layer), options), want)


def test_several_shards(tmp_path):
    arrays = make_arrays()
    path = tmp_path / "model.ckpt-1"
    index = write_bundle(path, renamed(arrays, trained), n_shards=3, per_block=5)
    paths = write(tmp_path, make_options(), arrays)
    assert same(read_tf_checkpoint(index, paths[0]), read_bilm_hdf5(*paths))


SIZES: list[dict[str, Any]] = [
    {},
    {"layers": 1, "highway": 0},
    {"dim": 5, "filters": [[1, 2], [2, 3]]},  # no projections
    {"layers": 3, "filters": [[1, 3]], "highway": 2},
]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("n_rows", [261, 262])
def test_sizes_without_options(tmp_path, sizes, n_rows):
    arrays, options = make_arrays(n_rows, **sizes), make_options(**sizes)
    options["char_cnn"]["max_characters_per_token"] = 50
    want = read_bilm_hdf5(*write(tmp_path, options, arrays))
    got = read_made(tmp_path, with_more(renamed(arrays, trained)))
    assert same(got, want)
    assert got.info["assumed"] == {
        "activation": "relu",
        "skip": True,
        "cell_clip": 3.0,
        "output_clip": want.config.output_clip,
        "max_characters": 50,
    }


def test_a_module(tmp_path, embed):
    folder = tmp_path / "elmo_3"
    (folder / "variables").mkdir(parents=True)
    mix = {
        "module/aggregation/weights": np.zeros(3, "float32"),
        "module/aggregation/scaling": np.ones((), "float32"),
        "module/bilm/Variable": np.zeros((128, 6), "float32"),  # a carried state
    }
    write_bundle(folder / "variables/variables", {**renamed(make_arrays(), in_module), **mix})
    found = find_checkpoint(folder)
    assert found == folder / "variables/variables.index"
    model = read_tf_checkpoint(found)
    assert (model.info["family"], model.info["name"]) == ("tf-hub", "elmo_3")
    assert "global_step" not in model.info
    sentence = ["a", "naïve", "cat"]
    want = Oracle(model.config, model.weights).layers(sentence)
    assert np.allclose(embed(model.build(), [sentence])[0], want, atol=1e-6, rtol=1e-5)


def test_slots_are_arranged_as_weights_are(tmp_path):
    arrays = make_arrays()
    tensors = renamed(arrays, trained)
    tensors |= {f"{name}/Adagrad": array for name, array in tensors.items()}
    index = write_bundle(tmp_path / "x", tensors)
    weights, slots = read_tf_checkpoint(index).weights, read_tf_slots(index)
    assert slots and all(torch.equal(slot, weights[name]) for name, slot in slots.items())


# --- The softmax, and models of words


def write_words(folder: Path, words: list[str]) -> Path:
    path = folder / "vocab.txt"
    path.write_text("".join(f"{word}\n" for word in words), "utf8")
    return path


def softmax_arrays(n_words: int = len(WORDS), width: int = 5) -> Arrays:
    random = np.random.default_rng(1)
    return {
        "lm/softmax/W": random.normal(size=(n_words, width)).astype("float32"),
        "lm/softmax/b": random.normal(size=n_words).astype("float32"),
    }


def test_a_model_folder_with_its_softmax(tmp_path):
    tensors = with_more({**renamed(make_arrays(), trained), **softmax_arrays()})
    index = write_bundle(tmp_path / "model.ckpt-1", tensors)
    softmax, words = read_tf_softmax(index, write_words(tmp_path, WORDS))
    hidden = torch.randn(4, 5)
    logits = hidden @ torch.from_numpy(tensors["lm/softmax/W"]).T
    logits = logits + torch.from_numpy(tensors["lm/softmax/b"])
    targets = torch.tensor([0, 3, 6, 2])
    want = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    for direction in (0, 1):
        assert torch.allclose(softmax.full_losses(direction, hidden, targets), want, atol=1e-5)
    save_native(read_tf_checkpoint(index), tmp_path / "out")
    save_softmax(softmax, words, tmp_path / "out")
    _, loaded, found = load_language_model(tmp_path / "out")
    assert found == words == WORDS
    assert all(torch.equal(x, softmax.state_dict()[n]) for n, x in loaded.state_dict().items())
    assert all(parameter.requires_grad for parameter in softmax.parameters())


SHUFFLED = ["</S>", "<S>", "the", "<UNK>", "cat", "sat", "."]


def test_words_in_another_order(tmp_path):
    tensors = {**renamed(make_arrays(), trained), **softmax_arrays()}
    index = write_bundle(tmp_path / "x", tensors)
    softmax, words = read_tf_softmax(index, write_words(tmp_path, SHUFFLED))
    assert words == WORDS
    rows = [SHUFFLED.index(word) for word in words]
    assert (softmax.weight.detach().numpy() == tensors["lm/softmax/W"][rows]).all()
    assert (softmax.bias.detach().numpy() == tensors["lm/softmax/b"][rows]).all()
    folder = tmp_path / "saved"
    folder.mkdir()
    save_softmax(softmax, words, folder)
    assert load_softmax(folder)[1] == WORDS


def word_model() -> tuple[dict[str, Any], Arrays]:
    options, arrays = make_options(), make_arrays()
    del options["char_cnn"]
    arrays = {name: array for name, array in arrays.items() if name.startswith("RNN_")}
    random = np.random.default_rng(2)
    arrays["embedding"] = random.normal(size=(len(WORDS), 5)).astype("float32")
    return options, arrays


@pytest.mark.parametrize("with_options", [True, False])
def test_a_model_of_one_direction(tmp_path, embed, with_options):
    options, arrays = make_options(), make_arrays()
    both = read_bilm_hdf5(*write(tmp_path, options, arrays)).build()
    arrays = {name: array for name, array in arrays.items() if not name.startswith("RNN_1")}
    index = write_bundle(tmp_path / "x", with_more(renamed(arrays, trained)))
    model = read_tf_checkpoint(index, tmp_path / "options.json" if with_options else None)
    assert (model.config.directions, model.config.width) == ("forward", 5)
    sentence = ["the", "naïve", "cat"]
    got, want = (embed(encoder, [sentence])[0] for encoder in (model.build(), both))
    assert np.allclose(got, want[..., :5], atol=1e-6)


@pytest.mark.parametrize("words", [WORDS, SHUFFLED])
def test_models_that_read_words(tmp_path, embed, words):
    options, arrays = word_model()
    paths, vocabulary = write(tmp_path, options, arrays), write_words(tmp_path, words)
    index = write_bundle(tmp_path / "x", with_more(renamed(arrays, trained)))
    model = read_tf_checkpoint(index, paths[0], vocabulary)
    assert same(model, read_bilm_hdf5(*paths, vocabulary))
    told = read_tf_checkpoint(index, None, vocabulary)
    assert same(told, model) and told.info["assumed"]["skip"] is True
    assert read_tf_slots(index, paths[0], vocabulary)["word_encoder.embedding.weight"].all()
    layers = embed(model.build(), [["the", "dog", "sat"]])[0]
    rows = [words.index(word) for word in ("the", "<UNK>", "sat")]
    assert (layers[:, 0] == np.tile(arrays["embedding"][rows], 2)).all()


def test_the_words_that_are_read_may_be_those_that_are_predicted(tmp_path):
    _, arrays = word_model()
    tensors = {**renamed(arrays, trained), "lm/softmax/b": np.zeros(len(WORDS), "float32")}
    softmax, _ = read_tf_softmax(
        write_bundle(tmp_path / "x", tensors), write_words(tmp_path, WORDS)
    )
    assert (softmax.weight.detach().numpy() == arrays["embedding"]).all()


def test_models_of_words_whose_words_are_missing(tmp_path):
    options, arrays = word_model()
    paths = write(tmp_path, options, arrays)
    index = write_bundle(tmp_path / "x", renamed(arrays, trained))
    for read, at in [
        (lambda: read_tf_checkpoint(index, paths[0]), "options.json"),
        (lambda: read_tf_checkpoint(index), "x.index"),
        (lambda: read_bilm_hdf5(*paths), "options.json"),
    ]:
        with pytest.raises(CtxvecError, match=f"{at} describes a biLM over a fixed vocabulary"):
            read()


@pytest.mark.parametrize("words", [WORDS[:-1], [*WORDS, "more"]])
def test_more_or_fewer_words_than_rows(tmp_path, words):
    options, arrays = word_model()
    paths, vocabulary = write(tmp_path, options, arrays), write_words(tmp_path, words)
    index = write_bundle(tmp_path / "x", {**renamed(arrays, trained), **softmax_arrays()})
    with pytest.raises(MalformedModelError, match="embedding"):
        read_bilm_hdf5(*paths, vocabulary)
    with pytest.raises(MalformedModelError, match="embedding"):
        read_tf_checkpoint(index, paths[0], vocabulary)
    with pytest.raises(MalformedModelError, match=r"vocab\.txt: its number of words"):
        read_tf_softmax(index, vocabulary)


def test_no_softmax(tmp_path):
    index = write_bundle(tmp_path / "x", renamed(make_arrays(), in_module))
    with pytest.raises(CtxvecError, match="holds no softmax/W"):
        read_tf_softmax(index, write_words(tmp_path, WORDS))


def test_lines_of_a_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\r\n</S>\r\n <UNK> \n!!!MAXTERMID\nété\n\nb".encode())
    assert read_vocabulary(path).words == ["<S>", "</S>", "<UNK>", "été", "", "b"]
    path.write_bytes(b"<S>\n</S>\nthe\n")
    with pytest.raises(MalformedModelError, match="line <UNK>"):
        read_vocabulary(path)
    path.write_bytes(b"<S>\n</S>\n<UNK>\n\xff\n")
    with pytest.raises(MalformedModelError, match="UTF-8"):
        read_vocabulary(path)
    with pytest.raises(CtxvecError, match="none"):
        read_vocabulary(tmp_path / "none.txt")


def test_where_a_vocabulary_is(tmp_path):
    assert find_vocabulary(tmp_path) is None
    (tmp_path / "vocab_a.txt").touch()
    assert find_vocabulary(tmp_path) == tmp_path / "vocab_a.txt"
    (tmp_path / "vocab_b.txt").touch()
    assert find_vocabulary(tmp_path) is None
    (tmp_path / "vocab.txt").touch()
    assert find_vocabulary(tmp_path) == tmp_path / "vocab.txt"


# --- Where a checkpoint is


def test_the_latest_checkpoint(tmp_path):
    assert find_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/model.ckpt-9"\n')
    for step in (9, 1250, 300):
        write_bundle(tmp_path / f"model.ckpt-{step}", {"a": np.zeros(1, "float32")})
    (tmp_path / "books-9999.index").touch()  # an index of something else
    assert find_checkpoint(tmp_path) == tmp_path / "model.ckpt-1250.index"
    for name in ("model.ckpt-9", "model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001"):
        assert find_checkpoint(tmp_path / name) == tmp_path / "model.ckpt-9.index"
    assert find_checkpoint(tmp_path / "none") is None


def test_a_checkpoint_without_a_step(tmp_path):
    index = write_bundle(tmp_path / "model", {"a": np.zeros(1, "float32")})
    assert find_checkpoint(tmp_path) == index
    (tmp_path / "variables").mkdir()
    write_bundle(tmp_path / "variables/variables", {"a": np.zeros(1, "float32")})
    assert find_checkpoint(tmp_path) == index


# --- Malformed checkpoints


@pytest.mark.parametrize("tensors", [{}, {"lm/char_embed": np.zeros((261, 3), "float32")}])
def test_no_bilm(tmp_path, tensors):
    with pytest.raises(MalformedModelError, match=r"those of one biLM.*found: none"):
        read_made(tmp_path, tensors)


def test_two_bilms(tmp_path):
    tensors = {**renamed(make_arrays(), trained), **renamed(make_arrays(), in_module)}
    with pytest.raises(MalformedModelError, match="found: lm/, module/bilm/"):
        read_made(tmp_path, tensors)


def test_one_variable_in_two_spellings(tmp_path):
    arrays = make_arrays()
    tensors = {**renamed(arrays, trained), **renamed(arrays, oldest)}
    with pytest.raises(MalformedModelError, match="another variable"):
        read_made(tmp_path, tensors)


@pytest.mark.parametrize("name", sorted(make_arrays()))
def test_a_missing_variable(tmp_path, name):
    tensors = renamed(make_arrays(), trained)
    del tensors[trained(name)]
    for options in (None, make_options()):
        with pytest.raises(MalformedModelError, match=r"its (tensor|variables|shapes)"):
            read_made(tmp_path, tensors, options)


@pytest.mark.parametrize("name", sorted(make_arrays()))
@pytest.mark.parametrize("change", ["shorter", "scalar", "whole numbers"])
def test_a_variable_of_another_kind(tmp_path, name, change):
    tensors = renamed(make_arrays(), trained)
    array = tensors[trained(name)]
    tensors[trained(name)] = {
        "shorter": array[..., :-1],
        "scalar": np.array(1, "float32"),
        "whole numbers": array.astype("int32"),
    }[change]
    with pytest.raises(MalformedModelError, match=f"tensor {trained(name)}"):
        read_made(tmp_path, tensors, make_options())
    if change != "shorter":
        with pytest.raises(MalformedModelError, match="tensor lm/"):
            read_made(tmp_path, tensors)


@pytest.mark.parametrize(
    "name", ["lm/CNN/W_cnn_2", "lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/w_f_diag"]
)
def test_a_variable_that_nothing_asks_for(tmp_path, name):
    tensors = {**renamed(make_arrays(), trained), name: np.zeros(3, "float32")}
    with pytest.raises(MalformedModelError, match=f"tensor {name} should be absent"):
        read_made(tmp_path, tensors, make_options())


def test_sizes_that_cannot_be(tmp_path):
    arrays = make_arrays(filters=[[51, 2]])  # wider than the longest word
    with pytest.raises(MalformedModelError, match="those of a biLM"):
        read_made(tmp_path, renamed(arrays, trained))


@pytest.mark.parametrize("step", [np.nan, np.inf])
def test_a_step_that_is_no_number(tmp_path, step):
    tensors = renamed(make_arrays(), trained)
    with pytest.raises(MalformedModelError, match="tensor global_step"):
        read_made(tmp_path, {**tensors, "global_step": np.array(step, "float32")})


@pytest.mark.parametrize("file", ["x.index", "x.data-00000-of-00001"])
@pytest.mark.parametrize("kind", ["cut", "flipped"])
def test_files_damaged_anywhere(tmp_path, file, kind):
    """Flips of what means nothing (a footer's zeros) and of slots leave the model as it was."""
    tensors = with_more(renamed(make_arrays(), trained))
    index = write_bundle(tmp_path / "x", tensors)
    want, path = read_tf_checkpoint(index), tmp_path / file
    whole, n_refused = path.read_bytes(), 0
    for number in range(200):
        random = np.random.default_rng(number)
        data = bytearray(whole)
        if kind == "cut":
            data = data[: random.integers(len(whole))]
        else:
            data[random.integers(len(whole))] ^= 1 << random.integers(8)
        path.write_bytes(data)
        try:
            assert same(read_tf_checkpoint(index), want)
        except MalformedModelError:
            n_refused += 1
    assert n_refused > (60 if file.startswith("x.data") else 180)
