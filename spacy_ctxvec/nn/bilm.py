"""The bidirectional language model of ELMo (Peters et al. 2018, section 3.1), all layers kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from ..checks import check, check_count, is_count
from ..text.characters import encode_marks, encode_words
from ..text.corpus import SPECIALS
from ..types import IntArray
from .alphabet import N_MARKS
from .char_encoder import ACTIVATIONS, CharEncoder
from .encoder import Encoder, rows_of
from .lstm import LSTM, LSTMState
from .packing import Packing, framed_index, inverse, token_positions
from .parallel import can_share, run_all
from .placing import placed_on
from .word_char_encoder import WordCharEncoder
from .word_encoder import WordEncoder

State = Literal["reset", "warm", "carry"]

START_OUTPUT, START_CELL, ALIGNMENT = "start_output", "start_cell", "alignment"
DIRECTIONS = {"both": (0, 1), "forward": (0,), "backward": (1,)}
"""Numbers of the directions behind each setting: 0 reads forward, 1 backward."""
LEAST_SHARED = 64
"""Words from which on it pays to wake a second thread."""


@dataclass(frozen=True)
class BiLMConfig:
    """Sizes and clips of a biLM. The defaults are those of the shipped English model.

    Each direction puts out `token_width` numbers per token, `width` over the number of directions;
    where `hidden_width` differs from that, every LSTM has a projection. A clip of 0 means none.

    n_words: rows of a vocabulary of words, marks and unknown word among them, which is read instead
        of bytes; 0 for none
    n_characters: rows of a vocabulary of Unicode characters, marks and unknown one among them, read
        instead of bytes and beside the words, if there are any; 0 for none
    word_width: of the words' vectors where a projection follows them; 0 where they are the token
        layer themselves
    forget_bias: added to the biases of the forget gates, which do not include it then
    warm: every sequence starts from a state that is stored with the weights (`boundary`)
    aligned: a matrix that is stored with the weights maps every layer, as cross-lingual models have
    """

    width: int = 512
    hidden_width: int = 256
    n_layers: int = 2
    skip: bool = True
    cell_clip: float = 0.0
    output_clip: float = 0.0
    char_width: int = 16
    filters: tuple[tuple[int, int], ...] = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 128))
    activation: str = "relu"
    n_highway: int = 1
    max_characters: int = 50
    directions: str = "both"
    n_words: int = 0
    n_characters: int = 0
    word_width: int = 0
    forget_bias: float = 0.0
    warm: bool = False
    aligned: bool = False

    def __post_init__(self) -> None:
        pairs = tuple((int(width), int(n)) for width, n in self.filters)
        object.__setattr__(self, "filters", pairs)
        for name in ("width", "hidden_width", "n_layers", "char_width", "n_highway"):
            check_count(self, name, 0 if name == "n_highway" else 1)
        self._check_vocabularies()
        check(self, "directions", self.directions in DIRECTIONS, ", ".join(DIRECTIONS))
        both = self.directions == "both"
        check(self, "width", not (both and self.width % 2), "an even number above 0")
        check_count(self, "max_characters", 3, "at least 3: a byte and its marks")
        for name in ("cell_clip", "output_clip"):
            clip = getattr(self, name)
            check(self, name, isinstance(clip, (int, float)) and clip >= 0, "0 (none) or more")
        check(self, "activation", self.activation in ACTIVATIONS, " or ".join(ACTIVATIONS))
        check(
            self,
            "filters",
            bool(pairs) and all(0 < width <= self.max_characters and n > 0 for width, n in pairs),
            f"pairs of characters (at most max_characters = {self.max_characters}) and features",
        )

    def _check_vocabularies(self) -> None:
        for name, least in (("n_words", len(SPECIALS)), ("n_characters", N_MARKS)):
            n_rows = getattr(self, name)
            expected = f"0 (none), or {least} (marks and the unknown one) or more"
            check(self, name, n_rows == 0 or is_count(n_rows, least), expected)
        check_count(self, "word_width", 0)
        if not self.n_words:
            check(self, "word_width", not self.word_width, "0, since n_words = 0")
        elif self.n_characters:
            check_count(self, "word_width", 1, "1 or more for words beside characters")

    @property
    def is_projected(self) -> bool:
        """Whether the token layer is a projection of words, of Unicode characters, or of both."""
        return bool(self.word_width or self.n_characters)

    @property
    def reads_spellings(self) -> bool:
        """Whether bytes or characters are read, and not words alone."""
        return bool(self.n_characters) or not self.n_words

    @property
    def token_width(self) -> int:
        """Width of the token layer, and of one direction of every other layer."""
        return self.width // len(self.direction_numbers)

    @property
    def direction_numbers(self) -> tuple[int, ...]:
        return DIRECTIONS[self.directions]

    @property
    def n_outputs(self) -> int:
        return self.n_layers + 1

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "filters": [list(pair) for pair in self.filters]}


class CarriedState:
    """LSTM states kept between calls, one per batch row, as the reference programs keep them.

    For reproducing their numbers, and for training on what is longer than a step. Vectors then
    depend on the batches that came before.
    """

    def __init__(self, rows: dict[tuple[int, int], LSTMState] | None = None):
        self._rows = rows or {}

    def state_dict(self) -> dict[tuple[int, int], LSTMState]:
        """The states by (direction, layer), as the constructor takes them."""
        return self._rows

    def copy(self) -> CarriedState:
        return CarriedState({key: (h.clone(), c.clone()) for key, (h, c) in self._rows.items()})

    def take(
        self, direction: int, layer: int, rows: Tensor, n_rows: int, start: LSTMState
    ) -> LSTMState:
        """The states of `rows` in that order; rows never seen before have those of `start`.

        rows: numbers below `n_rows`
        start: output (output_width,) and cell (hidden_width,)
        """
        none = (start[0].new_zeros(0, len(start[0])), start[1].new_zeros(0, len(start[1])))
        stored = self._rows.get((direction, layer), none)
        h, c = (_grown(part, n_rows, row) for part, row in zip(stored, start))
        self._rows[direction, layer] = h, c
        return h[rows], c[rows]

    def put(self, direction: int, layer: int, rows: Tensor, state: LSTMState) -> None:
        for part, new in zip(self._rows[direction, layer], state):
            part[rows] = new.detach().to(part.dtype)


def _grown(part: Tensor, n_rows: int, row: Tensor) -> Tensor:
    """`part` (n, width) with copies of `row` (width,) behind it, so that there are `n_rows`."""
    missing = max(0, n_rows - len(part))
    return torch.cat([part.to(row.device), row.repeat(missing, 1)])


class BiLM(Encoder):
    """Words in context: every layer of two language models that read in opposite directions.

    The two never mix: layer 2 forward sees only layer 1 forward. With `skip`, layers above the
    first add their input to their output, outside the recurrence.

    start_output, start_cell (2, n_layers, token_width or hidden_width): of a `warm` encoder, the
        state that sequences start from, by direction and layer
    alignment (width, width): of an `aligned` encoder, what maps each layer
    """

    start_output: Tensor
    start_cell: Tensor
    alignment: Tensor

    def __init__(self, config: BiLMConfig):
        super().__init__(config.n_outputs, config.width)
        self.config = config
        spelling: dict[str, Any] = {
            "char_width": config.char_width,
            "filters": config.filters,
            "activation": config.activation,
            "n_highway": config.n_highway,
            "output_width": config.token_width,
        }
        if config.is_projected:
            self.word_char_encoder = WordCharEncoder(
                n_words=config.n_words,
                word_width=config.word_width,
                n_characters=config.n_characters,
                max_characters=config.max_characters,
                **spelling,
            )
        elif config.n_words:
            self.word_encoder = WordEncoder(config.n_words, config.token_width)
        else:
            self.char_encoder = CharEncoder(**spelling)
        self.forward_lstms = self._stack(0)
        self.backward_lstms = self._stack(1)
        if config.warm:
            self.register_buffer(START_OUTPUT, torch.zeros(2, config.n_layers, config.token_width))
            self.register_buffer(START_CELL, torch.zeros(2, config.n_layers, config.hidden_width))
        if config.aligned:
            self.register_buffer(ALIGNMENT, torch.eye(config.width))
        self.state: CarriedState | None = None

    def _stack(self, direction: int) -> nn.ModuleList:
        config = self.config
        n_layers = config.n_layers if direction in config.direction_numbers else 0
        return nn.ModuleList(
            LSTM(
                input_width=config.token_width,
                hidden_width=config.hidden_width,
                output_width=config.token_width,
                cell_clip=config.cell_clip,
                output_clip=config.output_clip,
                forget_bias=config.forget_bias,
            )
            for _ in range(n_layers)
        )

    def set_trainable(self, first: int) -> None:
        """Let layers `first` and above learn; layer 0 is the token layer."""
        self.token_encoder.requires_grad_(first == 0)
        for lstms in (self.forward_lstms, self.backward_lstms):
            for layer, lstm in enumerate(lstms, start=1):
                lstm.requires_grad_(layer >= first)

    def carry_state(self, state: State) -> None:
        """Go on from where each batch row ended ("carry"), or start every sequence from one state:
        zero or, of a `warm` encoder, the stored one."""
        self.state = CarriedState() if state == "carry" else None

    def ragged_cost(self, vectors: Tensor) -> float:
        """See `packing.cost`. Where sequences end matters to a carried state."""
        lstm = cast(LSTM, (*self.forward_lstms, *self.backward_lstms)[0])
        return 0.0 if self.state else lstm.ragged_cost(self.in_precision(vectors))

    @property
    def token_encoder(self) -> CharEncoder | WordEncoder | WordCharEncoder:
        """What makes the token layer: of `word_ids` and `mark_ids`."""
        if self.config.is_projected:
            return self.word_char_encoder
        return self.word_encoder if self.config.n_words else self.char_encoder

    def word_ids(self, words: Sequence[str], *, sentence_marks: bool = False) -> IntArray:
        """What the token encoder reads of each word: a row of ids, (n_words, n), or of a model of
        words alone its own id, (n_words,).

        sentence_marks: read words that are spelled like the marks as the marks themselves
        """
        encoder = self.token_encoder
        if isinstance(encoder, WordCharEncoder):
            return encoder.ids(words, sentence_marks=sentence_marks)
        if isinstance(encoder, WordEncoder):
            return encoder.ids(words, sentence_marks=sentence_marks)
        return encode_words(words, self.config.max_characters, sentence_marks=sentence_marks)

    def mark_ids(self) -> IntArray:
        """The same of the sentence start and the sentence end."""
        encoder = self.token_encoder
        if isinstance(encoder, CharEncoder):
            return encode_marks(self.config.max_characters)
        return encoder.mark_ids()

    def word_vectors(self, words: Sequence[str], *, sentence_marks: bool = False) -> Tensor:
        """Token layer of each word, (n_words, token_width): a function of its spelling alone."""
        ids = self.word_ids(words, sentence_marks=sentence_marks)
        return self.token_encoder(torch.from_numpy(ids))

    def mark_vectors(self) -> Tensor:
        """Token layer of the sentence start and the sentence end, (2, token_width)."""
        return self.token_encoder(torch.from_numpy(self.mark_ids()))

    def forward(
        self,
        vectors: Tensor,
        index: IntArray,
        lengths: IntArray,
        groups: Sequence[IntArray] | None = None,
    ) -> Tensor:
        """All layers of every token, (n_tokens, n_layers + 1, width), sequence after sequence.

        vectors (n_distinct + 2, token_width): the token layer of each distinct word of the batch,
            after those of the two sentence marks (`mark_vectors`, `word_vectors`)
        index (n_tokens,): the row of each token in `vectors`, so 2 or more
        lengths (n_sequences,): tokens of each sequence, 1 or more
        groups: numbers of the sequences that are read together, by default all at once

        Layer 0 is the token layer, once per direction, so that all layers have one width.
        """
        sequences = np.arange(len(lengths))
        ragged_cost = self.ragged_cost(vectors)
        packings = [
            Packing.cheapest(lengths + 2, group, ragged_cost) for group in groups or [sequences]
        ]
        framed = framed_index(index, lengths)
        tokens = token_positions(lengths)
        seeds = self.dropout_seeds()
        x = self.in_precision(vectors)
        directions = run_all(
            [
                partial(self._direction, direction, x, framed, tokens, packings, seed)
                for direction, seed in zip(self.config.direction_numbers, seeds)
            ],
            threads=vectors.device.type == "cpu" and len(index) >= LEAST_SHARED and can_share(),
        )
        dropped = self.dropped(vectors, self.dropout_generator(seeds[0] + 1))
        layers = [rows_of(dropped, index)] * len(directions)
        for of_layer in zip(*directions):
            layers += of_layer
        shape = (len(index), self.config.n_outputs, self.config.width)
        found = torch.cat(layers, dim=1).view(shape)
        return found @ self.alignment.t() if self.config.aligned else found

    def _direction(
        self,
        direction: int,
        vectors: Tensor,
        framed: IntArray,
        tokens: IntArray,
        packings: Sequence[Packing],
        seed: int,
    ) -> list[Tensor]:
        """Outputs of each layer of one direction, (n_tokens, token_width), in order of the text."""
        orders = [packing.backward if direction else packing.forward for packing in packings]
        random = self.dropout_generator(seed)
        stacks = [
            self.run_stack(
                direction,
                rows_of(vectors, framed[order]),
                packing.batch_sizes,
                packing.order,
                random,
            )
            for order, packing in zip(orders, packings)
        ]
        place = inverse(np.concatenate(orders))[tokens]
        layers = [parts[0] if len(parts) == 1 else torch.cat(parts) for parts in zip(*stacks)]
        return [rows_of(layer, place) for layer in layers]

    def run_stack(
        self,
        direction: int,
        x: Tensor,
        batch_sizes: IntArray,
        order: IntArray,
        random: torch.Generator | None = None,
    ) -> list[Tensor]:
        """Packed token vectors of one direction (0 forward, 1 backward) -> every layer above.

        `batch_sizes` and `order` are those of a `Packing`: the rows still running at each step,
        and the batch row whose carried state each of them continues. `random` draws the dropout.
        """
        sizes = torch.from_numpy(batch_sizes)
        rows = placed_on(order, x.device)
        n_rows = int(order.max()) + 1
        outputs: list[Tensor] = []
        lstms = self.backward_lstms if direction else self.forward_lstms
        for layer, lstm in enumerate(lstms):
            x = self.dropped(x, random)
            before = self._before(direction, layer, rows, n_rows)
            y, after = lstm(x, sizes, before)
            if self.state:
                self.state.put(direction, layer, rows, after)
            x = y + x if self.config.skip and layer else y
            outputs.append(x)
        return outputs

    def _before(self, direction: int, layer: int, rows: Tensor, n_rows: int) -> LSTMState | None:
        """The states that these batch rows, all below `n_rows`, start from; None is zero."""
        if not (self.state or self.config.warm):
            return None
        start = self._start(direction, layer)
        if self.state:
            return self.state.take(direction, layer, rows, n_rows, start)
        return start[0].repeat(len(rows), 1), start[1].repeat(len(rows), 1)

    def _start(self, direction: int, layer: int) -> LSTMState:
        """Output (token_width,) and cell (hidden_width,) before the first step."""
        if self.config.warm:
            return self.start_output[direction, layer], self.start_cell[direction, layer]
        zeros = self.layer_mean.new_zeros
        return zeros(self.config.token_width), zeros(self.config.hidden_width)
