"""What is in the files of a model of ELMoForManyLangs, and what it is called here.

config.json           the path of a file with the sizes: see `sizes`
word.dic, char.dic    rows of words and of characters: see `dictionaries`
token_embedder.pkl    the token layer; the gate of its highways keeps the input, where that of
                      `nn.char_encoder.Highway` opens the transform: their sum is 1
encoder.pkl           the LSTMs in the layout of AllenNLP, which is PyTorch's
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from ...nn.bilm import BiLMConfig

WORDS, CHARACTERS = "word.dic", "char.dic"
TOKENS, ENCODER = "token_embedder.pkl", "encoder.pkl"
WORD_TABLE = "word_emb_layer.embedding.weight"
CHARACTER_TABLE = "char_emb_layer.embedding.weight"
# The first rows of our tables by the names they have there. "<eow>" begins a word and "<bow>" ends
# it: the names were mixed up in training, and the weights follow.
WORD_MARKS = ("<bos>", "<eos>", "<oov>")
CHARACTER_MARKS = ("<pad>", "<bos>", "<eos>", "<eow>", "<bow>", "<oov>")
OWN = "word_char_encoder."
"""What the names of the token layer's tensors begin with here."""
STACKS = {"forward_lstms": "forward", "backward_lstms": "backward"}
Layout = Iterator[tuple[str, str, tuple[int, ...]]]
"""Name of a tensor there, name here, and its shape, which is the same in both."""


def convolutions_and_projection(config: BiLMConfig) -> Layout:
    features = 0
    if config.n_characters:
        features = sum(n for _, n in config.filters)
        for i, (width, n) in enumerate(config.filters):
            name = f"convolutions.{i}"
            yield f"{name}.weight", f"char_encoder.{name}.weight", (n, config.char_width, width)
            yield f"{name}.bias", f"char_encoder.{name}.bias", (n,)
    shape = (config.token_width, config.word_width + features)
    yield "projection.weight", "projection.weight", shape
    yield "projection.bias", "projection.bias", shape[:1]


def highways(config: BiLMConfig) -> Layout:
    """The name here has a place for "transform" or "gate"; the tensor there is both, joined."""
    features = sum(n for _, n in config.filters)
    for k in range(config.n_highway):
        for part, shape in (("weight", (features, features)), ("bias", (features,))):
            ours = f"char_encoder.highways.{k}.{{}}.{part}"
            yield f"highways._layers.{k}.{part}", ours, shape


def opened_highway(joined: Tensor, ours: str) -> Iterator[tuple[str, Tensor]]:
    """The parts of a joined tensor under our names; the gate that keeps becomes one that opens."""
    transform, keep = joined.chunk(2)
    yield ours.format("transform"), transform.clone()
    yield ours.format("gate"), -keep


def lstms(config: BiLMConfig) -> Layout:
    width, hidden = config.token_width, config.hidden_width
    for stack, direction in STACKS.items():
        for layer in range(config.n_layers):
            theirs, ours = f"{direction}_layer_{layer}", f"{stack}.{layer}"
            yield f"{theirs}.input_linearity.weight", f"{ours}.weight_ih", (4 * hidden, width)
            yield f"{theirs}.state_linearity.weight", f"{ours}.weight_hh", (4 * hidden, width)
            yield f"{theirs}.state_linearity.bias", f"{ours}.bias", (4 * hidden,)
            yield f"{theirs}.state_projection.weight", f"{ours}.weight_hr", (width, hidden)
