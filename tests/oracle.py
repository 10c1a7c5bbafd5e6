"""A biLM written a second time: plain numpy, float64, one character window and one step at a time.

It shares no code with the package and is written for reading, so that the two can be compared
where the numbers of the original systems are not at hand. Weights go by the names that
`BiLM.state_dict` uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Oracle:
    """The layers of a sentence from the sizes and the weights of a biLM."""

    def __init__(self, config: Any, weights: dict[str, Any]):
        self.config = config
        self.weights = {k: np.asarray(w, dtype=np.float64) for k, w in weights.items()}
        self.clipped = 0  # numbers that met a clip, to show that the clips were tried

    def layers(self, words: Sequence[str]) -> Floats:
        """(n_words, n_layers + 1, width), from the zero state."""
        framed = [self.word_vector(word) for word in words]
        framed = [self.mark_vector(257), *framed, self.mark_vector(258)]
        forward = self._direction("forward_lstms", framed)
        backward = self._direction("backward_lstms", framed[::-1])
        rows = []
        for t in range(1, len(framed) - 1):
            layers = [np.concatenate([framed[t], framed[t]])]
            for f, b in zip(forward, backward):
                layers.append(np.concatenate([f[t], b[len(framed) - 1 - t]]))
            rows.append(np.stack(layers))
        return np.stack(rows)

    def word_vector(self, word: str) -> Floats:
        data = b"".join(
            character.encode("utf8") for character in word if not 0xD800 <= ord(character) <= 0xDFFF
        )
        return self._spell([byte + 1 for byte in data[: self.config.max_characters - 2]])

    def mark_vector(self, mark: int) -> Floats:
        return self._spell([mark])

    def _spell(self, body: list[int]) -> Floats:
        ids = [259, *body, 260]
        ids += [261] * (self.config.max_characters - len(ids))
        characters = self.weights["char_encoder.embedding.weight"][ids]
        features = []
        for i, (width, n) in enumerate(self.config.filters):
            kernel = self.weights[f"char_encoder.convolutions.{i}.weight"]
            bias = self.weights[f"char_encoder.convolutions.{i}.bias"]
            for feature in range(n):
                values = []
                for start in range(len(ids) - width + 1):
                    window = characters[start : start + width]
                    values.append((kernel[feature].T * window).sum() + bias[feature])
                features.append(max(values))
        x = np.array(features)
        x = np.maximum(x, 0) if self.config.activation == "relu" else np.tanh(x)
        for k in range(self.config.n_highway):
            transform = np.maximum(self._linear(f"char_encoder.highways.{k}.transform", x), 0)
            gate = _sigmoid(self._linear(f"char_encoder.highways.{k}.gate", x))
            x = gate * transform + (1 - gate) * x
        if "char_encoder.projection.weight" in self.weights:
            x = self._linear("char_encoder.projection", x)
        return x

    def _linear(self, name: str, x: Floats) -> Floats:
        return self.weights[f"{name}.weight"] @ x + self.weights[f"{name}.bias"]

    def _direction(self, stack: str, inputs: list[Floats]) -> list[list[Floats]]:
        layers = []
        for layer in range(self.config.n_layers):
            outputs = self._lstm(f"{stack}.{layer}", inputs)
            if self.config.skip and layer > 0:
                outputs = [y + x for y, x in zip(outputs, inputs)]
            layers.append(outputs)
            inputs = outputs
        return layers

    def _lstm(self, name: str, inputs: list[Floats]) -> list[Floats]:
        n = self.config.hidden_width
        h = np.zeros(self.config.width // 2)
        c = np.zeros(n)
        outputs = []
        for x in inputs:
            z = self.weights[f"{name}.weight_ih"] @ x + self.weights[f"{name}.bias"]
            z = z + self.weights[f"{name}.weight_hh"] @ h
            opened, kept, shown = (_sigmoid(z[k * n : (k + 1) * n]) for k in (0, 1, 3))
            c = self._clip(kept * c + opened * np.tanh(z[2 * n : 3 * n]), self.config.cell_clip)
            h = shown * np.tanh(c)
            if f"{name}.weight_hr" in self.weights:
                h = self.weights[f"{name}.weight_hr"] @ h
            h = self._clip(h, self.config.output_clip)
            outputs.append(h)
        return outputs

    def _clip(self, x: Floats, limit: float) -> Floats:
        if not limit:
            return x
        self.clipped += int((np.abs(x) > limit).sum())
        return np.minimum(np.maximum(x, -limit), limit)


def _sigmoid(x: Floats) -> Floats:
    return 1 / (1 + np.exp(-x))
