"""Model folders of ELMoForManyLangs with random weights, and their equations written out.

The equations share no code with the package. They are those of the original program: float64, one
word and one step at a time, with the state of each batch row carried on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

SIZES: dict[str, Any] = {
    "word_dim": 3,
    "char_dim": 2,
    "filters": [[1, 3], [2, 4], [4, 2]],
    "n_highway": 2,
    "activation": "relu",
    "max_characters_per_token": 9,
    "projection_dim": 4,
    "dim": 6,
    "n_layers": 2,
    "cell_clip": 0.5,
    "proj_clip": 0.3,
}
# A no-break space, an ideographic one and a line separator: the last one counts.
WHITE = "\u00a0\t11\n\u3000\t9\n\u2028\t10\n"
CHARACTER_DIC = (
    "<oov>\t0\na\t1\nb\t2\nc\t3\né\t4\n<bow>\t5\n東\t6\n<bos>\t7\n<eow>\t8\n"
    f"{WHITE}<pad>\t12\n<eos>\t13\nab\t14\n"
)
WORD_DIC = "<pad>\t0\nabc\t1\n<oov>\t2\n東\t3\n\u3000\t4\n<eos>\t5\nabcabca\t6\n<bos>\t7\n"
CONFIG_PATH = "/users/somebody/models/tiny.json"
BATCHES = [
    [["abc", "東", "d", "abcabcabc", "<S>"], ["\u3000", "\u2028", "\u00a0"], ["éa"]],
    [["", "東京", "abcabcabd"], ["abcabca", "ab"]],
]


def write_efml(
    folder: Path,
    *,
    config: dict[str, Any] | None = None,
    words: str = WORD_DIC,
    characters: str = CHARACTER_DIC,
    **changes: Any,
) -> Path:
    """A model folder of these sizes; without `word_dim` or `char_dim`, without that part."""
    sizes = {**SIZES, **changes}
    folder.mkdir(parents=True, exist_ok=True)
    embedder = ("word_dim", "char_dim", "filters", "n_highway", "activation")
    blocks = {
        "encoder": {
            "name": "elmo",
            **{
                k: sizes[k] for k in ("projection_dim", "dim", "n_layers", "cell_clip", "proj_clip")
            },
        },
        "token_embedder": {
            "name": "cnn",
            **{key: sizes[key] for key in (*embedder, "max_characters_per_token")},
        },
        "dropout": 0.1,
    }
    write_json(folder / "config.json", config or {"config_path": CONFIG_PATH, "seed": 1})
    write_json(folder / "tiny.json", blocks)
    tokens, encoder = tensors_of(sizes)
    if sizes["word_dim"]:
        (folder / "word.dic").write_text(words, "utf8")
    if sizes["char_dim"]:
        (folder / "char.dic").write_text(characters, "utf8")
    torch.save(tokens, folder / "token_embedder.pkl", _use_new_zipfile_serialization=False)
    torch.save(encoder, folder / "encoder.pkl", _use_new_zipfile_serialization=False)
    return folder


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value), "utf8")


def tensors_of(sizes: dict[str, Any]) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Random tensors of the two files."""
    width, hidden, features = sizes["projection_dim"], sizes["dim"], 0
    tokens: dict[str, tuple[int, ...]] = {}
    if sizes["word_dim"]:
        tokens["word_emb_layer.embedding.weight"] = (8, sizes["word_dim"])
    if sizes["char_dim"]:
        features = sum(n for _, n in sizes["filters"])
        tokens["char_emb_layer.embedding.weight"] = (15, sizes["char_dim"])
        for i, (w, n) in enumerate(sizes["filters"]):
            tokens[f"convolutions.{i}.weight"] = (n, sizes["char_dim"], w)
            tokens[f"convolutions.{i}.bias"] = (n,)
        for k in range(sizes["n_highway"]):
            tokens[f"highways._layers.{k}.weight"] = (2 * features, features)
            tokens[f"highways._layers.{k}.bias"] = (2 * features,)
    tokens["projection.weight"] = (width, sizes["word_dim"] + features)
    tokens["projection.bias"] = (width,)
    encoder: dict[str, tuple[int, ...]] = {}
    for direction in ("forward", "backward"):
        for layer in range(sizes["n_layers"]):
            name = f"{direction}_layer_{layer}"
            encoder[f"{name}.input_linearity.weight"] = (4 * hidden, width)
            encoder[f"{name}.state_linearity.weight"] = (4 * hidden, width)
            encoder[f"{name}.state_linearity.bias"] = (4 * hidden,)
            encoder[f"{name}.state_projection.weight"] = (width, hidden)
    generator = torch.Generator().manual_seed(0)
    made = [
        {name: 0.5 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
        for shapes in (tokens, encoder)
    ]
    return made[0], made[1]


class Equations:
    """The layers of batches of sentences, from the files alone."""

    def __init__(self, folder: Path):
        sizes = json.loads((folder / "tiny.json").read_text("utf8"))
        self.cnn, self.lstm = sizes["token_embedder"], sizes["encoder"]
        self.weights = {
            name: tensor.double().numpy()
            for file in ("token_embedder.pkl", "encoder.pkl")
            for name, tensor in torch.load(folder / file, weights_only=True).items()
        }
        self.words = dictionary(folder / "word.dic")
        self.characters = dictionary(folder / "char.dic")
        self.states: dict[tuple[str, int], tuple[np.ndarray, np.ndarray]] = {}

    def layers(self, batch: Sequence[Sequence[str]]) -> list[np.ndarray]:
        """(n_words, n_layers + 1, width) of each sentence. The state goes on in the row that a
        sentence has when they are sorted by falling length."""
        order = sorted(range(len(batch)), key=lambda i: -len(batch[i]))
        found = {i: self.sentence(batch[i], row) for row, i in enumerate(order)}
        return [found[i] for i in range(len(batch))]

    def sentence(self, words: Sequence[str], row: int) -> np.ndarray:
        most = self.cnn["max_characters_per_token"] - 2
        cut = [word[:most] for word in words]
        tokens = np.stack([self.token(word) for word in ["<bos>", *cut, "<eos>"]])
        forward = self.stack("forward", tokens, row)
        backward = self.stack("backward", tokens[::-1], row)
        both = [np.hstack([f, b[::-1]]) for f, b in zip(forward, backward)]
        return np.stack(both, axis=1)[1:-1]

    def token(self, word: str) -> np.ndarray:
        parts = []
        if self.words:
            row = self.words.get(word, self.words["<oov>"])
            parts.append(self.weights["word_emb_layer.embedding.weight"][row])
        if self.characters:
            parts.append(self.spelled(word))
        projection = self.weights["projection.weight"], self.weights["projection.bias"]
        return projection[0] @ np.concatenate(parts) + projection[1]

    def spelled(self, word: str) -> np.ndarray:
        known, oov = self.characters, self.characters["<oov>"]
        body = [word] if word in ("<bos>", "<eos>") else list(word)
        ids = [known["<eow>"], *(known.get(c, oov) for c in body), known["<bow>"]]
        ids += [known["<pad>"]] * (self.cnn["max_characters_per_token"] - len(ids))
        x = self.weights["char_emb_layer.embedding.weight"][ids].T
        features = []
        for i, (width, _) in enumerate(self.cnn["filters"]):
            kernel, bias = (self.weights[f"convolutions.{i}.{p}"] for p in ("weight", "bias"))
            starts = range(x.shape[1] - width + 1)
            values = [(kernel * x[:, s : s + width]).sum(axis=(1, 2)) for s in starts]
            features.append(np.max(values, axis=0) + bias)
        relu = self.cnn["activation"] == "relu"
        y = np.concatenate(features)
        y = np.maximum(y, 0) if relu else np.tanh(y)
        for k in range(self.cnn["n_highway"]):
            name = f"highways._layers.{k}"
            z = self.weights[f"{name}.weight"] @ y + self.weights[f"{name}.bias"]
            gate = sigmoid(z[len(y) :])
            y = gate * y + (1 - gate) * np.maximum(z[: len(y)], 0)
        return y

    def stack(self, direction: str, x: np.ndarray, row: int) -> list[np.ndarray]:
        """All layers of one direction; what they read among them."""
        layers = [x]
        for layer in range(self.lstm["n_layers"]):
            name = f"{direction}_layer_{layer}"
            y = self.run(name, layers[-1], row)
            layers.append(y + layers[-1] if layer else y)
        return layers

    def run(self, name: str, xs: np.ndarray, row: int) -> np.ndarray:
        w_x, w_h = (self.weights[f"{name}.{p}_linearity.weight"] for p in ("input", "state"))
        bias = self.weights[f"{name}.state_linearity.bias"]
        w_p = self.weights[f"{name}.state_projection.weight"]
        zeros = np.zeros(len(w_p)), np.zeros(w_p.shape[1])
        h, c = self.states.get((name, row), zeros)
        outputs = []
        for x in xs:
            i, f, g, o = np.split(w_x @ x + w_h @ h + bias, 4)
            c = clipped(sigmoid(i) * np.tanh(g) + sigmoid(f) * c, self.lstm["cell_clip"])
            h = clipped(w_p @ (sigmoid(o) * np.tanh(c)), self.lstm["proj_clip"])
            outputs.append(h)
        self.states[name, row] = h, c
        return np.stack(outputs)


def dictionary(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    if not path.exists():
        return found
    for line in path.read_text("utf8").split("\n")[:-1]:
        token, _, row = line.strip().rpartition("\t")
        found[token or "\u3000"] = int(row)
    return found


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def clipped(x: np.ndarray, clip: float | None) -> np.ndarray:
    return np.clip(x, -clip, clip) if clip else x
