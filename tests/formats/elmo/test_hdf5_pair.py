"""Reading of ELMo's files: the numbers of the original systems, and every way to be malformed."""

from __future__ import annotations

import builtins
import copy
import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from elmo_files import make_arrays, make_options, write
from oracle import Oracle

from spacy_ctxvec.errors import CtxvecError, MalformedModelError
from spacy_ctxvec.formats.elmo.hdf5_pair import read_bilm_hdf5, read_options
from spacy_ctxvec.layers.scalar_mix import ScalarMix_v1, settle
from spacy_ctxvec.nn.softmax import WordSoftmax

PUBLIC = {
    "bilm-tf/model": "lm_embeddings_sentences.json",
    "allennlp/elmo": "sentences.json",
}


def read_json(path: Path) -> Any:
    return json.loads(path.read_text("utf8"))


# --- Same weights, same vectors


@pytest.fixture(params=PUBLIC)
def public(request, reference):
    """Name, model, sentences[row][batch] and expected[row][batch] (n_tokens, width) of one set."""
    folder = reference / request.param
    model = read_bilm_hdf5(folder / "options.json", folder / "lm_weights.hdf5").build()
    sentences = [[s.split() for s in row] for row in read_json(folder / PUBLIC[request.param])]
    expected = []
    for row in range(3):
        with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
            expected.append([np.hstack(file[str(i)][...]) for i in range(10)])
    return request.param, model, sentences, expected


def test_carried_state_gives_the_published_vectors(public, embed, parity):
    name, model, sentences, expected = public
    model.carry_state("carry")
    got, want = [], []
    for i in range(10):
        batch = [row[i] for row in sentences]
        got += [x[:, -1] for x in embed(model, batch, sentence_marks=True)]
        want += [row[i] for row in expected]
    parity(f"{name}, top layer, 10 batches of 3, state carried", got, want)


def test_zero_state_gives_the_first_batch_and_no_other(public, embed, parity):
    name, model, sentences, expected = public
    first = [x[:, -1] for x in embed(model, [row[0] for row in sentences])]
    parity(f"{name}, top layer, batch 0, zero state", first, [row[0] for row in expected])
    second = embed(model, [row[1] for row in sentences])
    assert np.abs(second[0][:, -1] - expected[0][1]).max() > 0.1


def test_rows_beyond_the_batch_keep_their_state(public, embed):
    _, model, sentences, _ = public
    model.carry_state("carry")
    embed(model, [row[0] for row in sentences])
    third = [part[2].clone() for key in ((0, 0), (1, 1)) for part in model.state._rows[key]]
    embed(model, [row[1] for row in sentences[:2]])
    after = [part[2] for key in ((0, 0), (1, 1)) for part in model.state._rows[key]]
    assert all(torch.equal(x, y) for x, y in zip(third, after))


def test_token_vectors(reference, parity):
    folder = reference / "allennlp/elmo"
    model = read_bilm_hdf5(folder / "options.json", folder / "lm_weights.hdf5").build()
    words = (folder / "vocab_test.txt").read_text("utf8").split()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        want = file["embedding"][...]
    with torch.no_grad():
        got = model.word_vectors(words, sentence_marks=True).numpy()
    assert len(got) == 458
    parity("allennlp/elmo, token vectors", list(got), list(want))


@pytest.fixture
def tf_tiny(reference):
    folder = reference / "generated/tf_tiny"
    model = read_bilm_hdf5(folder / "options.json", folder / "weights.hdf5").build()
    return folder, model


def reference_mixes(shape: tuple[int, int], weights: list[float], gamma: float) -> dict:
    """Our mixes with the settings of the reference, of layers of `shape` (n_layers, width)."""
    settings = {
        "mix_avg": {"weights": weights, "standardize": False},
        "mix_avg_layernorm": {"weights": weights, "layer_norm": True},
        "top": {"mode": "top", "standardize": False},
    }
    mixes = {}
    for name, arguments in settings.items():
        mixes[name] = ScalarMix_v1(**arguments)
        settle(mixes[name], np.zeros(shape, "float32"), np.ones(shape, "float32"))
        mixes[name].set_param("gamma", np.array([gamma], dtype="float32"))
    return mixes


def test_every_layer_and_mix_of_a_model_from_the_training_code(tf_tiny, embed, parity):
    folder, model = tf_tiny
    spec = read_json(folder / "batches.json")
    want = np.load(folder / "expected_embeddings.npz")
    found: dict[str, tuple[list[np.ndarray], list[np.ndarray]]] = {}
    model.carry_state("carry")
    for b, batch in enumerate(spec["batches"]):
        rows = embed(model, batch, sentence_marks=True)
        mixes = reference_mixes(rows[0].shape[1:], spec["scalar_W"], spec["gamma"])
        together = np.concatenate(rows)  # a layer norm is over the whole batch
        ends = np.cumsum([len(layers) for layers in rows])[:-1]
        mixed = {name: np.split(mix.predict(together), ends) for name, mix in mixes.items()}
        for row, layers in enumerate(rows):
            n = len(layers)
            made = {"lm_embeddings": layers.transpose(1, 0, 2)}
            made |= {name: parts[row] for name, parts in mixed.items()}
            for key, value in made.items():
                got, expected = found.setdefault(key, ([], []))
                got.append(value)
                expected.append(want[f"b{b}.{key}"][row][..., :n, :])
    for key, (got, expected) in found.items():
        parity(f"tf_tiny, {key}, state carried", got, expected)


def test_ids_and_token_vectors_of_a_model_from_the_training_code(tf_tiny, parity):
    from spacy_ctxvec.text.characters import encode_words

    folder, model = tf_tiny
    want = np.load(folder / "expected_embeddings.npz")
    got_vectors, want_vectors = [], []
    for b, batch in enumerate(read_json(folder / "batches.json")["batches"]):
        for row, words in enumerate(batch):
            marked = ["<S>", *words, "</S>"]
            ids = encode_words(marked, model.config.max_characters, sentence_marks=True)
            assert (ids == want[f"b{b}.ids"][row][: len(marked)]).all()
            with torch.no_grad():
                got_vectors.append(model.word_vectors(marked, sentence_marks=True).numpy())
            want_vectors.append(want[f"b{b}.token_embeddings"][row][: len(marked)])
    parity("tf_tiny, token vectors", got_vectors, want_vectors)


def test_full_softmax_perplexity_of_the_training_code(tf_tiny, parity):
    folder, model = tf_tiny
    vocabulary = (folder / "vocab.txt").read_text("utf8").splitlines()
    ids = {word: i for i, word in enumerate(vocabulary)}
    width = model.config.token_width
    softmax = WordSoftmax(input_width=width, width=width, n_words=len(vocabulary))
    stored = np.load(folder / "softmax.npz")
    softmax.weight.data.copy_(torch.from_numpy(stored["W"]))
    softmax.bias.data.copy_(torch.from_numpy(stored["b"]))
    for projection in softmax.projections:
        projection.weight.data.copy_(torch.eye(width))
        projection.bias.data.zero_()
    model.carry_state("carry")
    losses = []
    with torch.no_grad():
        for line in (folder / "data.txt").read_text("utf8").splitlines():
            for direction in (0, 1):
                words = ["<S>", *line.split(), "</S>"][:: 1 - 2 * direction]
                x = model.word_vectors(words[:-1], sentence_marks=True)
                steps, row = np.ones(len(x), dtype=np.int64), np.zeros(1, dtype=np.int64)
                top = model.run_stack(direction, x, steps, row)[-1]
                targets = [ids.get(word, ids["<UNK>"]) for word in words[1:]]
                losses.append(softmax.full_losses(direction, top, torch.tensor(targets)))
    got = np.exp(torch.cat(losses).double().mean().numpy())
    want = read_json(folder / "expected.json")["perplexity_full_softmax_batch1_unroll1"]
    parity(f"tf_tiny, perplexity {want:.7f}", [got], [np.array(want)])


@pytest.mark.parametrize("name", ["es/weights", "fr/weights", "fr/weights_zero", "it/weights"])
def test_options_with_training_keys_left_in(reference, embed, name):
    weights = reference / "allennlp/elmo_multilingual" / f"{name}.hdf5"
    model = read_bilm_hdf5(weights.parent / "options.json", weights).build()
    words = ["<S>", "año", "été", "</S>"]
    literal = embed(model, [words], sentence_marks=True)[0]
    plain = embed(model, [words])[0]
    assert np.isfinite(literal).all()
    with torch.no_grad():
        marks = model.mark_vectors().numpy()
    assert np.allclose(literal[[0, 3], 0, : marks.shape[1]], marks, atol=1e-6)
    if "zero" not in name:
        assert not np.allclose(literal[0, 0], plain[0, 0], atol=1e-6)


@pytest.mark.parametrize("lang", ["es", "fr", "it"])
def test_agrees_with_an_independent_reader(reference, reader, embed, parity, lang):
    """Options with training's keys left in; special tokens, long and non-ASCII words."""
    folder = reference / "allennlp/elmo_multilingual" / lang
    files = folder / "options.json", folder / "weights.hdf5"
    sentences = [
        ["A", "naïve", "test", "of", "日本語", ",", "<UNK>", "x" * 60, "é" * 30, "."],
        ["\U0001f30d"],
        ["", "<", "</S", "\u200b"],
    ]
    got = embed(read_bilm_hdf5(*files).build(), sentences)
    # Its state goes on from sentence to sentence, so each is read anew.
    want = [np.swapaxes(reader.load_bilm(*files).embed(s), 0, 1) for s in sentences]
    parity(f"elmo_multilingual/{lang}, all layers", got, want)


def test_agrees_with_the_own_oracle(reference, embed):
    folder = reference / "allennlp/elmo"
    encoder = read_bilm_hdf5(folder / "options.json", folder / "lm_weights.hdf5")
    sentence = ["A", "naïve", "test", "of", "日本語", ",", "<S>", "and", "all", "."]
    want = Oracle(encoder.config, encoder.weights).layers(sentence)
    assert np.allclose(embed(encoder.build(), [sentence])[0], want, atol=1e-6, rtol=1e-5)


# --- Files made here


def tf_lstm(arrays: dict[str, np.ndarray], cell: str, xs: np.ndarray) -> np.ndarray:
    """The cell as TensorFlow wrote it: blocks i, j, f, o and a forget bias of 1 at run time."""
    kernel, bias = arrays[f"{cell}/W_0"], arrays[f"{cell}/B"]
    c, h = np.zeros(len(bias) // 4), np.zeros(len(kernel) - xs.shape[1])
    outputs = []
    for x in xs:
        i, j, f, o = np.split(np.concatenate([x, h]) @ kernel + bias, 4)
        c = c / (1 + np.exp(-(f + 1.0))) + np.tanh(j) / (1 + np.exp(-i))
        c = np.clip(c, -3, 3)
        h = np.tanh(c) / (1 + np.exp(-o))
        if f"{cell}/W_P_0" in arrays:
            h = np.clip(h @ arrays[f"{cell}/W_P_0"], -3, 3)
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize("changes", [{}, {"dim": 5}, {"highway": 0, "layers": 1}])
def test_gate_order_and_forget_bias(tmp_path, changes):
    arrays = make_arrays(**changes)
    model = read_bilm_hdf5(*write(tmp_path, make_options(**changes), arrays)).build()
    xs = np.random.default_rng(1).normal(size=(7, 5)).astype("float32")
    with torch.no_grad():
        got, _ = model.forward_lstms[0](torch.from_numpy(xs), torch.ones(7, dtype=torch.long))
    want = tf_lstm(arrays, "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell", xs)
    assert np.allclose(got, want, atol=1e-5)


def test_carry_gate_opens_the_transform(tmp_path):
    arrays = make_arrays()
    arrays["CNN_high_0/W_carry"][:] = 0
    arrays["CNN_high_0/b_carry"][:] = 50  # wide open
    model = read_bilm_hdf5(*write(tmp_path, make_options(), arrays)).build()
    x = torch.randn(2, 7)
    transform = x.numpy() @ arrays["CNN_high_0/W_transform"] + arrays["CNN_high_0/b_transform"]
    with torch.no_grad():
        got = model.char_encoder.highways[0](x)
    assert np.allclose(got, np.maximum(transform, 0), atol=1e-5)


def test_all_the_character_tables(tmp_path):
    short = make_arrays()
    long = {**short, "char_embed": np.pad(short["char_embed"], ((1, 0), (0, 0)))}
    options = make_options()
    first = read_bilm_hdf5(*write(tmp_path, options, short))
    options["char_cnn"]["n_characters"] = 261
    second = read_bilm_hdf5(*write(tmp_path, options, long))
    assert first.weights.keys() == second.weights.keys()
    assert all(torch.equal(first.weights[k], second.weights[k]) for k in first.weights)
    assert first.weights["char_encoder.embedding.weight"].shape == (262, 3)
    assert not first.weights["char_encoder.embedding.weight"][0].any()


def test_names_and_types_are_those_of_the_module(tmp_path):
    encoder = read_bilm_hdf5(*write(tmp_path, make_options(), make_arrays()))
    assert {w.dtype for w in encoder.weights.values()} == {torch.float32}
    state = encoder.build().state_dict()
    assert state.keys() == encoder.weights.keys()
    assert not state["layer_mean"].any() and (state["layer_deviation"] == 1).all()
    assert encoder.info["family"] == "elmo" and encoder.info["standardize"] is False


@pytest.mark.parametrize("projection", [5, None, "absent"])
def test_no_projection_where_none_is_needed(tmp_path, projection, embed):
    changes = {"dim": 5, "filters": [[1, 2], [2, 3]]}  # 5 features, 5 hidden, 5 out
    options = make_options(**changes)
    options["lstm"]["projection_dim"] = projection
    if projection == "absent":
        del options["lstm"]["projection_dim"]
    encoder = read_bilm_hdf5(*write(tmp_path, options, make_arrays(**changes)))
    assert not [name for name in encoder.weights if "projection" in name or "weight_hr" in name]
    assert encoder.config.output_clip == 0  # nothing is projected, so nothing is clipped
    assert encoder.config.cell_clip == 3
    assert np.isfinite(embed(encoder.build(), [["a", "b"]])[0]).all()


def test_optional_settings(tmp_path):
    options = make_options(highway=0, layers=1)
    for key in ("n_layers", "use_skip_connections"):
        del options["lstm"][key]
    for key in ("n_highway", "max_characters_per_token", "n_characters"):
        del options["char_cnn"][key]
    options["lstm"]["cell_clip"] = None
    options["char_cnn"]["activation"] = "tanh"
    config = read_bilm_hdf5(*write(tmp_path, options, make_arrays(highway=0, layers=1))).config
    assert (config.n_layers, config.skip, config.n_highway) == (1, False, 0)
    assert (config.max_characters, config.cell_clip, config.activation) == (50, 0.0, "tanh")


def test_datasets_of_other_programs_are_left_alone(tmp_path):
    arrays = {**make_arrays(), "optimizer/step": np.zeros(1, "float32")}
    read_bilm_hdf5(*write(tmp_path, make_options(), arrays))


def test_compressed_and_half_precision_data(tmp_path):
    arrays = make_arrays()
    paths = write(tmp_path, make_options(), {})
    with h5py.File(paths[1], "w") as file:
        for name, array in arrays.items():
            half = array.astype("float16")
            file.create_dataset(name, data=half, compression="gzip", chunks=half.shape)
    encoder = read_bilm_hdf5(*paths)
    kernel = encoder.weights["char_encoder.projection.weight"]
    assert np.allclose(kernel.T, arrays["CNN_proj/W_proj"], atol=1e-2)


# --- Malformed files

CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"


@pytest.mark.parametrize(
    "text, field",
    [
        ("{", "content"),
        ("[1]", "content"),
        ("", "content"),
        ("null", "content"),
        ('{"char_cnn": {}}', "lstm"),
        ('{"lstm": 3, "char_cnn": {}}', "lstm"),
        ('{"lstm": {}, "char_cnn": {}}', "lstm.dim"),
    ],
)
def test_broken_options(tmp_path, text, field):
    path = tmp_path / "options.json"
    path.write_text(text, "utf8")
    with pytest.raises(MalformedModelError) as error:
        read_options(path)
    assert str(path) in str(error.value) and f"its {field} should be" in str(error.value)


def test_options_that_are_not_text(tmp_path):
    (tmp_path / "options.json").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(MalformedModelError):
        read_options(tmp_path / "options.json")


@pytest.mark.parametrize(
    "block, key, value",
    [
        ("lstm", "dim", "64"),
        ("lstm", "dim", 6.5),
        ("lstm", "dim", True),
        ("lstm", "dim", -6),
        ("lstm", "dim", 0),
        ("lstm", "dim", None),
        ("lstm", "projection_dim", 0),
        ("lstm", "projection_dim", 7),
        ("lstm", "n_layers", 0),
        ("lstm", "cell_clip", -1),
        ("lstm", "cell_clip", "3"),
        ("lstm", "use_skip_connections", "yes"),
        ("char_cnn", "n_characters", 300),
        ("char_cnn", "activation", "gelu"),
        ("char_cnn", "activation", ["relu"]),
        ("char_cnn", "filters", []),
        ("char_cnn", "filters", [[1]]),
        ("char_cnn", "filters", [["1", 2]]),
        ("char_cnn", "filters", [[21, 2]]),
        ("char_cnn", "filters", 7),
        ("char_cnn", "max_characters_per_token", 2),
        ("char_cnn", "embedding", 3),
        ("char_cnn", "n_highway", -1),
    ],
)
def test_settings_that_cannot_be(tmp_path, block, key, value):
    options = make_options()
    options[block][key] = value
    path = tmp_path / "options.json"
    path.write_text(json.dumps(options), "utf8")
    with pytest.raises(MalformedModelError, match=r"options\.json"):
        read_options(path)


@pytest.mark.parametrize(
    "block, key", [("lstm", "dim"), ("lstm", "n_layers"), ("char_cnn", "n_highway")]
)
def test_absurd_sizes_are_refused_before_memory_is_asked_for(tmp_path, block, key):
    options = make_options()
    options[block][key] = 10**12
    with pytest.raises(MalformedModelError, match="dataset "):
        read_bilm_hdf5(*write(tmp_path, options, make_arrays()))


def test_word_input_is_refused(tmp_path):
    options = make_options()
    del options["char_cnn"]
    with pytest.raises(CtxvecError, match="fixed vocabulary of words"):
        read_bilm_hdf5(*write(tmp_path, options, make_arrays()))


@pytest.mark.parametrize("name", sorted(make_arrays()))
def test_a_missing_dataset_is_named(tmp_path, name):
    arrays = make_arrays()
    del arrays[name]
    with pytest.raises(MalformedModelError, match=f"weights.hdf5: its dataset {name} should be"):
        read_bilm_hdf5(*write(tmp_path, make_options(), arrays))


@pytest.mark.parametrize("name", sorted(make_arrays()))
def test_a_wrong_shape_is_named(tmp_path, name):
    arrays = make_arrays()
    arrays[name] = arrays[name][..., :-1]
    with pytest.raises(MalformedModelError, match=f"dataset {name} should be of shape"):
        read_bilm_hdf5(*write(tmp_path, make_options(), arrays))


@pytest.mark.parametrize("changes", [{"layers": 1}, {"highway": 0}, {"filters": [[1, 3]]}])
def test_more_layers_than_the_options_tell_of(tmp_path, changes):
    options = make_options(**changes)
    with pytest.raises(MalformedModelError):
        read_bilm_hdf5(*write(tmp_path, options, make_arrays()))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((7, 5), "int32"),
        np.full((7, 5), np.nan, "float32"),
        np.full((7, 5), b"text"),
        np.float32(3),
    ],
    ids=["integers", "nan", "strings", "scalar"],
)
def test_data_that_are_no_weights(tmp_path, value):
    arrays = {**make_arrays(), "CNN_proj/W_proj": value}
    with pytest.raises(MalformedModelError, match="dataset CNN_proj/W_proj"):
        read_bilm_hdf5(*write(tmp_path, make_options(), arrays))


def test_a_scalar_character_table(tmp_path):
    arrays = {**make_arrays(), "char_embed": np.float32(1)}
    with pytest.raises(MalformedModelError, match="dataset char_embed"):
        read_bilm_hdf5(*write(tmp_path, make_options(), arrays))


@pytest.mark.parametrize("swap", ["group", "dataset"])
def test_groups_and_datasets_in_each_others_place(tmp_path, swap):
    arrays = make_arrays()
    paths = write(tmp_path, make_options(), arrays)
    with h5py.File(paths[1], "a") as file:
        if swap == "group":
            del file[f"{CELL}/B"]
            file.create_group(f"{CELL}/B")
        else:
            del file[CELL]
            file[CELL] = np.zeros(3, "float32")
    with pytest.raises(MalformedModelError, match=CELL):
        read_bilm_hdf5(*paths)


@pytest.mark.parametrize("kind", ["external link", "soft link", "external group"])
def test_links_are_refused(tmp_path, kind):
    paths = write(tmp_path, make_options(), make_arrays())
    elsewhere = tmp_path / "elsewhere.hdf5"
    shutil.copy(paths[1], elsewhere)
    name = "RNN_1" if kind == "external group" else "CNN_proj/W_proj"
    with h5py.File(paths[1], "a") as file:
        del file[name]
        if kind == "soft link":
            file["real"] = np.zeros((7, 5), "float32")
            file[name] = h5py.SoftLink("/real")
        else:
            file[name] = h5py.ExternalLink("elsewhere.hdf5", name)
    with pytest.raises(MalformedModelError, match="should be in the file itself"):
        read_bilm_hdf5(*paths)


@pytest.mark.parametrize("kind", ["external storage", "virtual"])
def test_data_in_other_files_are_refused(tmp_path, kind):
    paths = write(tmp_path, make_options(), make_arrays())
    (tmp_path / "raw").write_bytes(bytes(7 * 5 * 4))
    with h5py.File(paths[1], "a") as file:
        del file["CNN_proj/W_proj"]
        if kind == "virtual":
            layout = h5py.VirtualLayout((7, 5), "float32")
            layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "x", (7, 5))
            file.create_virtual_dataset("CNN_proj/W_proj", layout)
        else:
            place = [(str(tmp_path / "raw"), 0, 7 * 5 * 4)]
            file.create_dataset("CNN_proj/W_proj", (7, 5), "float32", external=place)
    with pytest.raises(MalformedModelError, match="in other files"):
        read_bilm_hdf5(*paths)


def test_a_declared_size_that_the_file_does_not_hold(tmp_path):
    huge = {"dim": 10**7, "layers": 1, "width": 5}
    arrays = make_arrays(layers=1)
    for d in (0, 1):
        for part in ("W_0", "B", "W_P_0"):
            del arrays[f"RNN_{d}/RNN/MultiRNNCell/Cell0/LSTMCell/{part}"]
    paths = write(tmp_path, make_options(**huge), arrays)
    with h5py.File(paths[1], "a") as file:
        name = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0"
        file.create_dataset(name, (10, 4 * 10**7), "float32", chunks=(10, 10))  # never written
    with pytest.raises(MalformedModelError, match="bytes, as declared"):
        read_bilm_hdf5(*paths)


@pytest.mark.parametrize("data", [b"", b"not hdf5", b"\x89HDF\r\n\x1a\n" + bytes(100)])
def test_files_that_are_not_hdf5(tmp_path, data):
    paths = write(tmp_path, make_options(), {})
    paths[1].write_bytes(data)
    with pytest.raises(MalformedModelError, match=r"weights\.hdf5"):
        read_bilm_hdf5(*paths)


def test_a_file_cut_off_anywhere(tmp_path):
    paths = write(tmp_path, make_options(), make_arrays())
    whole = paths[1].read_bytes()
    for size in range(0, len(whole), len(whole) // 40):
        paths[1].write_bytes(whole[:size])
        with pytest.raises(MalformedModelError, match=r"weights\.hdf5"):
            read_bilm_hdf5(*paths)


def test_missing_files(tmp_path):
    paths = write(tmp_path, make_options(), make_arrays())
    with pytest.raises(MalformedModelError, match=r"none\.hdf5"):
        read_bilm_hdf5(paths[0], tmp_path / "none.hdf5")
    with pytest.raises(MalformedModelError, match=r"none\.json"):
        read_bilm_hdf5(tmp_path / "none.json", paths[1])


def test_without_h5py_the_extra_is_named(tmp_path, monkeypatch):
    paths = write(tmp_path, make_options(), make_arrays())
    real_import = copy.copy(builtins.__import__)

    def no_h5py(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "h5py":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_h5py)
    with pytest.raises(CtxvecError, match=r"pip install 'spacy-ctxvec\[import\]'"):
        read_bilm_hdf5(*paths)
