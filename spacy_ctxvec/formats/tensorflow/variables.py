"""The variables of a TensorFlow checkpoint that are those of a biLM, under their HDF5 names.

The names of the LSTMs depend on the version of the program, and on whether it trained or not:

    lm/RNN_0/rnn/multi_rnn_cell/cell_1/lstm_cell/kernel        training
    lm/RNN_0/rnn/lstm_cell/kernel                              the same with a single layer
    bilm/RNN_0/RNN/MultiRNNCell/Cell1/rnn/lstm_cell/kernel     use alone: modules of TF-Hub
    lm/RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/W_0               the oldest, and the HDF5 files
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import errors
from ...types import FloatArray
from ..elmo.weights import CELL
from .bundle import TensorBundle

CELL_NAME = re.compile(
    r"(?P<prefix>(?:.*/)?)RNN_(?P<direction>[01])/(?:RNN|rnn)/"
    r"(?:(?:MultiRNNCell/Cell|multi_rnn_cell/cell_)(?P<layer>[0-9]{1,4})/)?"
    r"(?:rnn/)?(?:LSTMCell|lstm_cell)/(?P<part>.+)"
)
PARTS = {"kernel": "W_0", "weights": "W_0", "bias": "B", "biases": "B"} | {
    "projection/kernel": "W_P_0", "projection/weights": "W_P_0",
    "W_0": "W_0", "B": "B", "W_P_0": "W_P_0",
}  # fmt: skip


@dataclass
class Variables:
    """The variables of one biLM; `full_names` has what the checkpoint calls each of them."""

    bundle: TensorBundle
    full_names: dict[str, str]
    wanted: set[str] = field(default_factory=set)

    @classmethod
    def open(cls, index: Path) -> Variables:
        """CtxvecError unless the checkpoint holds one biLM."""
        bundle = TensorBundle.open(index)
        prefix = _prefix(bundle)
        names: dict[str, str] = {}
        for full in _without_slots(bundle.names()):
            if full.startswith(prefix):
                name = _hdf5_name(full, prefix)
                if name in names:
                    raise bundle.malformed(full, "another variable", f"that of {names[name]}")
                names[name] = full
        return cls(bundle, names)

    def slots(self, slot: str) -> Variables:
        """What an optimiser keeps of each variable, under the variable's own name."""
        found = {name: f"{full}/{slot}" for name, full in self.full_names.items()}
        there = set(self.bundle.names())
        return Variables(self.bundle, {name: full for name, full in found.items() if full in there})

    def names(self) -> list[str]:
        return list(self.full_names)

    def shape(self, name: str) -> tuple[int, ...]:
        return self.bundle.shape(self._full(name))

    def read(self, name: str, *shape: int) -> FloatArray:
        self.wanted.add(name)
        return self.bundle.read(self._full(name), *shape)

    def check_rest(self, groups: tuple[str, ...]) -> None:
        """Refuse variables of `groups` that nothing has read: the checkpoint is of another kind."""
        for name in self.names():
            if name.startswith(groups) and name not in self.wanted:
                raise self.malformed(name, "absent, as nothing asks for it", "a tensor")

    def malformed(self, name: str, expected: str, found: Any) -> errors.MalformedModelError:
        return self.bundle.malformed(self._full(name), expected, found)

    def _full(self, name: str) -> str:
        return self.full_names.get(name, name)


def _prefix(bundle: TensorBundle) -> str:
    """What the names of the biLM's variables begin with."""
    matches = map(CELL_NAME.fullmatch, bundle.names())
    prefixes = sorted({match["prefix"] for match in matches if match and match["part"] in PARTS})
    if len(prefixes) != 1:
        found = ", ".join(prefixes) or "none"
        expected = "those of one biLM, with names like lm/RNN_0/rnn/.../lstm_cell/kernel"
        raise errors.malformed_model(bundle.index, "variables", expected, found)
    return prefixes[0]


def _without_slots(names: list[str]) -> Iterator[str]:
    """Variables alone: what an optimiser keeps of one stands below its name."""
    there = set(names)
    return (name for name in names if name.rpartition("/")[0] not in there)


def _hdf5_name(full: str, prefix: str) -> str:
    match = CELL_NAME.fullmatch(full)
    if not match or match["part"] not in PARTS:
        return full.removeprefix(prefix)
    layer = int(match["layer"] or 0)
    return CELL.format(direction=match["direction"], layer=layer, part=PARTS[match["part"]])
