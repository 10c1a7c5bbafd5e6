"""A transformer of the library transformers as an encoder: every hidden layer of every word.

A word is cut into pieces, and its vector is the mean of theirs, in each layer. As in the other
encoders, layer 0 is what goes into the first layer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import errors
from ..checks import bad_setting, check, check_count
from ..types import IntArray
from .encoder import Encoder, rows_of
from .pieces import Pieces
from .placing import placed_on
from .precision import autocast, possible

MODEL_TYPE = "model_type"
MAX_POSITIONS = 512  # where a model says nothing of its own
# Some models count positions from a number above 0 on.
SPARE_POSITIONS = 2


@dataclass(frozen=True)
class TransformerConfig:
    """Sizes of a transformer.

    width, n_layers: of its hidden layers, without the embeddings
    settings: what the file `config.json` of the model says, `model_type` among it
    """

    width: int
    n_layers: int
    settings: dict[str, Any]

    def __post_init__(self) -> None:
        for field in ("width", "n_layers"):
            check_count(self, field, 1)
        is_told = isinstance(self.settings, dict) and isinstance(self.settings.get(MODEL_TYPE), str)
        check(self, "settings", is_told, f"those of a config.json, with a {MODEL_TYPE}")

    @property
    def n_outputs(self) -> int:
        return self.n_layers + 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class Transformer(Encoder):
    """Words in context by a model of the library transformers.

    Its own dropout is never used: it would be a mode of the module, which predictions of other
    threads would see.
    """

    keeps_tensors = True

    def __init__(self, config: TransformerConfig):
        super().__init__(config.n_outputs, config.width)
        self.config = config
        self.pieces = Pieces()
        self.model: Any = new_model(config).eval()
        positions = getattr(self.model.config, "max_position_embeddings", 0)
        self.max_positions = (positions if positions > 0 else MAX_POSITIONS) - SPARE_POSITIONS

    def set_trainable(self, first: int) -> None:
        """Let layers `first` and above learn; 0 are the embeddings. Layers that share their weights
        all learn, whatever `first`."""
        layers = self._layers()
        self.model.requires_grad_(first == 0 or not layers)
        self.model.get_input_embeddings().requires_grad_(first == 0)
        for layer, module in enumerate(layers, start=1):
            module.requires_grad_(layer >= first)

    def _layers(self) -> list[nn.Module]:
        """None where a layer is used several times."""
        lists = (m for m in self.model.modules() if isinstance(m, nn.ModuleList))
        return next((list(m) for m in lists if len(m) == self.config.n_layers), [])

    def ragged_cost(self, vectors: Tensor) -> float:
        """Sequences that are read together are all as long as the longest."""
        return math.inf

    def forward(
        self,
        vectors: Tensor,
        index: IntArray,
        lengths: IntArray,
        groups: Sequence[IntArray] | None = None,
    ) -> Tensor:
        """All layers of every word, (n_words, n_layers + 1, width), sequence after sequence.

        vectors (n_distinct, n_pieces): ids of the pieces of each distinct word, then -1
        index (n_words,): the row of each word in `vectors`
        lengths (n_sequences,): words of each sequence, 1 or more; one with more pieces than the
            model has positions is read in parts
        groups: numbers of the sequences that are read together, by default all at once
        """
        table = vectors.cpu().numpy()[index]
        n_pieces = (table >= 0).sum(axis=1)
        room = self.max_positions - len(self.pieces.before) - len(self.pieces.after)
        parts, sequence = fitting(n_pieces, lengths, room)
        starts = np.cumsum(parts) - parts
        outputs, places = [], []
        for group in groups or [np.arange(len(lengths))]:
            chosen = np.flatnonzero(np.isin(sequence, group))
            words = np.concatenate([np.arange(starts[i], starts[i] + parts[i]) for i in chosen])
            outputs.append(self._read(table[words], n_pieces[words], parts[chosen]))
            places.append(words)
        return rows_of(torch.cat(outputs), np.argsort(np.concatenate(places)))

    def _read(self, table: IntArray, n_pieces: IntArray, lengths: IntArray) -> Tensor:
        """Layers of the words of some sequences together; table (n_words, n) as `vectors`."""
        before, after = self.pieces.before, self.pieces.after
        sizes = np.add.reduceat(n_pieces, np.cumsum(lengths) - lengths)
        row = np.repeat(np.arange(len(sizes)), sizes)
        column = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + len(before)
        ids = np.zeros((len(sizes), int(sizes.max()) + len(before) + len(after)), dtype=np.int64)
        ids[:, : len(before)] = before
        ids[row, column] = table[table >= 0]
        for place, mark in enumerate(after):
            ids[np.arange(len(sizes)), len(before) + sizes + place] = mark
        total = len(before) + sizes + len(after)
        mask = np.arange(ids.shape[1]) < total[:, None]
        hidden = self._hidden(torch.from_numpy(ids), torch.from_numpy(mask))
        pieces = hidden[placed_on(row, hidden.device), placed_on(column, hidden.device)]
        counts = placed_on(n_pieces, hidden.device)
        # "unsafe" looks at no count before it begins, which would be to wait for a GPU.
        return torch.segment_reduce(pieces, "mean", lengths=counts, axis=0, unsafe=True)

    def _hidden(self, ids: Tensor, mask: Tensor) -> Tensor:
        """(n_sequences, n_positions, n_layers + 1, width), in float32."""
        predicts = not torch.is_grad_enabled()
        half = predicts and possible(self.precision, self.device.type) == "bfloat16"
        with autocast(self.device, torch.bfloat16 if half else torch.float32):
            found = self.model(
                input_ids=placed_on(ids, self.device),
                attention_mask=placed_on(mask.long(), self.device),
                output_hidden_states=True,
                return_dict=True,
            )
        return torch.stack(found.hidden_states, dim=2).float()


def fitting(n_pieces: IntArray, lengths: IntArray, room: int) -> tuple[IntArray, IntArray]:
    """Lengths in words of the parts that sequences are read in, none of more than `room` pieces;
    and the number of the sequence that each part is of.

    n_pieces (n_words,): of each word, at most `room`
    """
    parts: list[int] = []
    sequences: list[int] = []
    ends = np.cumsum(lengths)
    for number, (length, end) in enumerate(zip(lengths.tolist(), ends.tolist())):
        counts = n_pieces[end - length : end]
        if counts.sum() <= room:
            cuts = [length]
        else:
            cuts, used = [0], 0
            for count in counts.tolist():
                if used + count > room:
                    cuts.append(0)
                    used = 0
                cuts[-1] += 1
                used += count
        parts += cuts
        sequences += [number] * len(cuts)
    return np.array(parts), np.array(sequences)


def new_model(config: TransformerConfig) -> Any:
    """The model with random weights; CtxvecError without the library, or for other sizes."""
    library = transformers_library()
    settings = dict(config.settings)
    kind = settings.pop(MODEL_TYPE)
    try:
        found = library.AutoConfig.for_model(kind, **settings)
        check_kind(found)
        model = library.AutoModel.from_config(found, trust_remote_code=False)
    except errors.CtxvecError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise bad_setting("settings", str(error), "those of a model that can be built") from error
    for name, field in (("hidden_size", "width"), ("num_hidden_layers", "n_layers")):
        check(
            config, field, getattr(config, field) == getattr(found, name), f"as in settings.{name}"
        )
    return without_pooler(model).float()


def check_kind(found: Any) -> None:
    """CtxvecError for what is not one stack of layers over the words of a text."""
    sizes = all(hasattr(found, name) for name in ("hidden_size", "num_hidden_layers"))
    if found.is_encoder_decoder or not sizes:
        raise errors.CtxvecError(errors.NO_SUCH_TRANSFORMER.format(found=found.model_type))


def without_pooler(model: Any) -> Any:
    """The vector of a whole text is not read, and checkpoints may not have what makes it."""
    if isinstance(getattr(model, "pooler", None), nn.Module):
        model.pooler = None
    return model


def transformers_library() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_TRANSFORMERS.format(error=error)) from error
    return transformers
