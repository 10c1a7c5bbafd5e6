"""What each layer of an encoder knows, by the simplest reader that can tell (Peters et al. 2018,
section 5.3): a linear classifier of single words, or the nearest mean of a sense."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from spacy.tokens import Doc, Token
from thinc.util import to_numpy
from torch import nn

from .. import errors
from ..layers.encoder import Encoder, predict_in_parts
from ..types import FloatArray, IntArray

BATCH = 1024
EPOCHS = 10
WORDS_AT_ONCE = 4096


@dataclass(frozen=True)
class Probe:
    """Accuracy of each layer on the test words, and of always saying what is most frequent."""

    layers: list[float]
    most_frequent: float
    n_classes: int
    n_train: int
    n_test: int


def linear_probe(
    model: Encoder,
    train: Sequence[Doc],
    test: Sequence[Doc],
    label_of: Callable[[Token], str],
    *,
    max_words: int,
    seed: int = 0,
) -> Probe:
    """A softmax regression on each layer alone; words without a label are passed over.

    max_words: of the training docs, the first so many are read
    """
    x, labels = _labelled(model, train, label_of, max_words)
    classes = {label: i for i, label in enumerate(sorted(set(labels)))}
    if len(classes) < 2:
        raise errors.CtxvecError(errors.NOTHING_TO_PROBE.format(found=len(classes)))
    y = np.array([classes[label] for label in labels])
    test_x, test_labels = _labelled(model, test, label_of, None)
    if not test_labels:
        raise errors.CtxvecError(errors.NOTHING_TO_PROBE.format(found=0))
    want = np.array([classes.get(label, -1) for label in test_labels])
    mean, deviation = x.mean(axis=0), x.std(axis=0) + 1e-6
    found = [
        _accuracy((x[:, j] - mean[j]) / deviation[j], y, (test_x[:, j] - mean[j]) / deviation[j],
                  want, len(classes), seed)
        for j in range(x.shape[1])
    ]  # fmt: skip
    frequent = float((want == np.bincount(y).argmax()).mean())
    return Probe(found, frequent, len(classes), len(y), len(want))


def word_layers(model: Encoder, docs: Sequence[Doc]) -> Iterator[FloatArray]:
    """Of each doc, the layers of all its tokens (n_tokens, n_layers, width)."""
    for doc in docs:
        rows: FloatArray | None = None
        for tokens, layers in predict_in_parts(model, doc, WORDS_AT_ONCE):
            if rows is None:
                rows = np.zeros((len(doc), *layers.shape[1:]), dtype="float32")
            rows[tokens] = to_numpy(layers)
        if rows is not None:
            yield rows


def _labelled(
    model: Encoder, docs: Sequence[Doc], label_of: Callable[[Token], str], max_words: int | None
) -> tuple[FloatArray, list[str]]:
    """Layers (n, n_layers, width) and labels of the words that have one."""
    parts: list[FloatArray] = []
    labels: list[str] = []
    words = [doc for doc in docs if any(not token.is_space for token in doc)]
    for doc, rows in zip(words, word_layers(model, words)):
        if max_words is not None and len(labels) >= max_words:
            break
        kept = [token for token in doc if not token.is_space and label_of(token)]
        parts.append(rows[[token.i for token in kept]])
        labels += [label_of(token) for token in kept]
    return (np.concatenate(parts) if parts else np.zeros((0, 1, 1), dtype="float32")), labels


def _accuracy(
    x: FloatArray, y: IntArray, test_x: FloatArray, want: IntArray, n_classes: int, seed: int
) -> float:
    generator = torch.Generator().manual_seed(seed)
    inputs, targets = torch.from_numpy(x), torch.from_numpy(y)
    linear = nn.Linear(x.shape[1], n_classes)
    nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    steps = EPOCHS * -(-len(y) // BATCH)
    optimizer = torch.optim.Adam(linear.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    for _ in range(EPOCHS):
        for part in torch.randperm(len(y), generator=generator).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(linear(inputs[part]), targets[part]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        found = linear(torch.from_numpy(test_x)).argmax(dim=1).numpy()
    return float((found == want).mean())
