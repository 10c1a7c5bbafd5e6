"""The translation model whose encoder CoVe keeps (McCann et al. 2017, section 3).

An MT-LSTM reads the source. The decoder is a stack of LSTMs that starts from the encoder's final
states and, at each step, reads the word before and what it put out before ("input feeding", Luong
et al. 2015, section 3.3):

    h_t  = LSTM([embedding of word t-1 ; h~_(t-1)], h_(t-1)),    h~_0 = 0
    h~_t = attention of h_t over the source
    p(word t | words before, source) = softmax(W h~_t + b)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..checks import check, check_count
from ..types import IntArray
from .attention import Attention, Memory
from .encoder import rows_of
from .lstm import LSTMState
from .mtlstm import MTLSTM, MTLSTMConfig
from .packing import Packing, inverse
from .placing import placed_on
from .softmax import log_sum_exp

PAD, UNK, BOS, EOS = range(4)
"""Ids of the target words that are none."""
# Rows that run at a step are as many as a multiple of this: for each new size of a product in
# bfloat16 the library compiles a kernel of several megabytes and keeps it.
EVEN_ROWS = 16


@dataclass(frozen=True)
class NMTConfig:
    """Sizes of a translation model: the defaults are those of McCann et al.

    The decoder has as many layers as the encoder, each as wide as both its directions together.

    n_target_words: PAD, UNK, BOS and EOS among them
    target_width: of the embeddings of target words
    tied: whether a target word is read and predicted by one vector (Press and Wolf 2017), as wide
        as the decoder
    dropout: share of the numbers that are zeroed in training, 0 for none
    """

    n_target_words: int
    target_width: int = 300
    encoder: MTLSTMConfig = field(default_factory=MTLSTMConfig)
    tied: bool = False
    attention_bias: bool = False
    dropout: float = 0.2

    def __post_init__(self) -> None:
        if isinstance(self.encoder, dict):  # as `to_dict` gives it
            object.__setattr__(self, "encoder", MTLSTMConfig(**self.encoder))
        expected = "5 or more: PAD, UNK, BOS, EOS and a word"
        check_count(self, "n_target_words", EOS + 2, expected)
        check_count(self, "target_width", 1)
        is_config = isinstance(self.encoder, MTLSTMConfig)
        check(self, "encoder", is_config, "the sizes of an MT-LSTM")
        for name in ("tied", "attention_bias"):
            check(self, name, isinstance(getattr(self, name), bool), "true or false")
        fits = not self.tied or self.target_width == self.width
        check(self, "target_width", fits, f"{self.width}, twice `hidden_width`, as words are tied")
        is_share = isinstance(self.dropout, (int, float)) and 0 <= self.dropout < 1
        check(self, "dropout", is_share, "0 (none) or more, below 1")

    @property
    def width(self) -> int:
        """Of the encoder's outputs, and of every layer of the decoder."""
        return self.encoder.width

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Loss:
    """Of the predictions of a batch: every target word, and the EOS of every sentence.

    total: what is minimised, summed over the predictions, in nats; label smoothing included
    nll: negative log-likelihood alone, summed, in nats
    """

    total: Tensor
    nll: float
    n_tokens: int

    @property
    def perplexity(self) -> float:
        return math.exp(self.nll / self.n_tokens)


@dataclass(frozen=True)
class DecoderState:
    """What the decoder goes on from, one hypothesis a row.

    fed     (n_rows, width)  h~ of the step before
    layers  output and cell of each LSTM, (n_rows, width) each
    """

    fed: Tensor
    layers: list[LSTMState]

    def first(self, n: int) -> DecoderState:
        return DecoderState(self.fed[:n], [(h[:n], c[:n]) for h, c in self.layers])

    def select(self, rows: Tensor) -> DecoderState:
        return DecoderState(self.fed[rows], [(h[rows], c[rows]) for h, c in self.layers])


class Translator(nn.Module):
    """Source vectors and target words -> loss; or step by step, for a search (`beam`).

    The source vectors are given and learn nothing; all is computed in their precision, but for
    cells and losses, whatever that of the weights. Dropout stands where McCann et al.'s program
    has it, so that some numbers pass it several times; `encoder.dropout` sets all of it.
    """

    def __init__(self, config: NMTConfig):
        super().__init__()
        self.config = config
        width = config.width
        self.encoder = MTLSTM(config.encoder)
        self.encoder.dropout = config.dropout
        self.embedding = nn.Embedding(config.n_target_words, config.target_width)
        # Gates input, forget, candidate, output of [input ; h], where the input of the first
        # layer is [embedding ; h~].
        self.decoder = nn.ModuleList(
            nn.Linear((width if layer else config.target_width + width) + width, 4 * width)
            for layer in range(config.encoder.n_layers)
        )
        self.attention = Attention(width, bias=config.attention_bias)
        self.generator = nn.Linear(width, config.n_target_words)
        if config.tied:
            self.embedding.weight = self.generator.weight
        self.start_anew()

    def start_anew(self, bound: float = 0.1) -> None:
        """Draw every parameter, biases too, from U(-bound, bound)."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def loss(
        self, vectors: Tensor, lengths: IntArray, targets: IntArray, *, label_smoothing: float = 0.0
    ) -> Loss:
        """How well the target sentences are predicted, each word given those before.

        vectors (n_tokens, input_width): of the source words, sentence after sentence
        lengths (n_sentences,): source words of each sentence, 1 or more
        targets (n_sentences, longest): word ids without BOS and EOS, then PAD
        label_smoothing: share of each prediction's target that is spread evenly over all words
            (Szegedy et al. 2016, section 7)
        """
        counts = (targets != PAD).sum(axis=1) + 1
        packing = Packing.of(counts, even=EVEN_ROWS)
        words, following = _framed(targets, counts, packing.forward)
        state, memory = self.start(vectors, lengths, packing.order)
        sizes = packing.batch_sizes.tolist()
        hidden = self._run(placed_on(words, vectors.device), sizes, state, memory)
        predicts = np.flatnonzero(following != PAD)
        wanted = placed_on(following[predicts], vectors.device)
        return self._loss(rows_of(hidden, predicts), wanted, label_smoothing)

    def _loss(self, hidden: Tensor, following: Tensor, label_smoothing: float) -> Loss:
        """Of predictions from hidden (n, width). Smoothing needs the mean of the logits alone."""
        weight, bias = self.generator.weight, self.generator.bias
        log_sums = log_sum_exp(hidden, weight, bias)
        of_words = (_exact(hidden) * weight[following]).sum(dim=1) + bias[following]
        nll = total = (log_sums - of_words).sum()
        if label_smoothing:
            of_all = _exact(hidden) @ weight.mean(dim=0) + bias.mean()
            total = torch.lerp(nll, (log_sums - of_all).sum(), label_smoothing)
        return Loss(total, nll.item(), len(following))

    def start(
        self, vectors: Tensor, lengths: IntArray, order: IntArray | None = None
    ) -> tuple[DecoderState, Memory]:
        """The decoder's state before its first step, and what it attends to; a row a sentence.

        vectors, lengths: as for `loss`
        order (n_sentences,): number of the sentence in each row, by default as they come
        """
        order = np.arange(len(lengths)) if order is None else order
        # In float32 whatever comes: its sizes never recur, and see EVEN_ROWS.
        encoded = self.encoder.encode(_exact(vectors), lengths)
        top = self.encoder.dropped(encoded.layers[-1], self._random()).to(vectors.dtype)
        layers = [
            (rows_of(h, order).to(vectors.dtype), rows_of(c, order)) for h, c in encoded.states
        ]
        state = DecoderState(torch.zeros_like(layers[0][0]), layers)
        return state, self.attention.memory(*_padded(top, lengths, order))

    def step(
        self, words: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Tensor]:
        """The state after reading words (n_rows,), BOS at first; and attention (n_rows, longest).

        There may be several rows for each sentence of the memory, sentence after sentence. The
        `logits` of `fed` tell the next word.
        """
        random = self._random()
        maps = self._maps(words, [len(words)], state.fed.dtype, random)
        return self._step(maps, state, memory, random)

    def logits(self, hidden: Tensor) -> Tensor:
        """h~ (n, width) -> one number for each target word, (n, n_target_words)."""
        return _mapped(self.generator.weight, hidden) + self.generator.bias

    def _random(self) -> torch.Generator | None:
        return self.encoder.dropout_generator(self.encoder.dropout_seeds()[0])

    def _run(self, words: Tensor, sizes: list[int], state: DecoderState, memory: Memory) -> Tensor:
        """Packed words (n,) -> packed h~ (n, width), `sizes` rows at each step."""
        random = self._random()
        maps = self._maps(words, sizes, state.fed.dtype, random)
        outputs: list[Tensor] = []
        for n in sizes:
            if n < len(state.fed):
                state, memory = state.first(n), memory.first(n)
            state, _ = self._step(maps, state, memory, random)
            outputs.append(state.fed)
        return torch.cat(outputs)

    def _maps(
        self,
        words: Tensor,
        sizes: list[int],
        dtype: torch.dtype,
        random: torch.Generator | None,
    ) -> list[_MapOfSteps]:
        """The linear maps of each step, with all of them that need not wait for the step before:
        those to the gates of each LSTM, and W2 of the attention."""
        drop = self.encoder.dropped
        embedded = drop(drop(self.embedding(words).to(dtype), random), random)
        first, *others = cast(list[nn.Linear], list(self.decoder))
        parts = [self.config.target_width, 2 * self.config.width]
        of_words, of_states = first.weight.split(parts, dim=1)
        start = (_mapped(of_words, embedded) + first.bias).to(dtype)
        maps = [_MapOfSteps(start, of_states.to(dtype), sizes)]
        for layer in (*others, self.attention.combine):
            bias = layer.weight.new_zeros(()) if layer.bias is None else layer.bias
            start = bias.to(dtype).expand(len(words), len(layer.weight))
            maps.append(_MapOfSteps(start, layer.weight.to(dtype), sizes))
        return maps

    def _step(
        self,
        maps: Sequence[Callable[[Tensor], Tensor]],
        state: DecoderState,
        memory: Memory,
        random: torch.Generator | None,
    ) -> tuple[DecoderState, Tensor]:
        drop = self.encoder.dropped
        x = drop(state.fed, random)
        layers: list[LSTMState] = []
        for gates, (h, c) in zip(maps, state.layers):
            x, c = _lstm_cell(gates(torch.cat([drop(x, random), h], dim=1)), c)
            layers.append((x, c))
        combined, weights = self.attention(x, memory, maps[-1])
        return DecoderState(drop(combined, random), layers), weights


def _lstm_cell(gates: Tensor, c: Tensor) -> LSTMState:
    i, f, g, o = gates.chunk(4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh().to(o.dtype), c


def _mapped(weight: Tensor, x: Tensor) -> Tensor:
    """W x of rows in their precision, as float32. The library's product with a bias would keep
    memory of the size of its result for each new size."""
    return _exact(x @ weight.to(x.dtype).t())


def _exact(x: Tensor) -> Tensor:
    """In float32 at least: what is summed up over many steps or words."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


class _MapOfSteps:
    """x -> start_t + W x at step t = 0, 1, ... of a recurrence.

    The gradient of W is one product, made when that of all steps is known: autograd would make
    one for each step, and spend more on adding them up than on their numbers.

    start (n, output_width): of all steps together, `sizes` rows each
    """

    def __init__(self, start: Tensor, weight: Tensor, sizes: list[int]):
        self._inputs: list[Tensor] = []
        self._weight = weight.detach().t()
        starts: Tensor = _WeightOfSteps.apply(start, weight, self._inputs)  # type: ignore
        self._starts = iter(starts.split(sizes))

    def __call__(self, x: Tensor) -> Tensor:
        self._inputs.append(x.detach())
        return torch.addmm(next(self._starts), x, self._weight)


class _WeightOfSteps(torch.autograd.Function):
    """Hands `start` through; its gradient, that of the outputs, gives the one of the weight."""

    @staticmethod
    def forward(ctx: Any, start: Tensor, weight: Tensor, inputs: list[Tensor]) -> Tensor:
        ctx.inputs = inputs  # filled while the steps are made
        return start.view_as(start)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        of_start, of_weight, _ = ctx.needs_input_grad
        gradient = gradients[0]
        return (
            gradient if of_start else None,
            gradient.t() @ torch.cat(ctx.inputs) if of_weight else None,
            None,
        )


def _padded(x: Tensor, lengths: IntArray, order: IntArray) -> tuple[Tensor, Tensor]:
    """Words (n_tokens, width) of ragged sentences -> a row for each sentence, in the given order,
    (n_sentences, longest, width), zero in padding; and where there are words."""
    longest = int(lengths.max())
    mask = np.arange(longest) < lengths[order][:, None]
    row = np.repeat(inverse(order), lengths)
    position = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    places = placed_on(row * longest + position, x.device)
    flat = x.new_zeros(mask.size, x.shape[1]).index_copy(0, places, x)
    return flat.view(*mask.shape, -1), placed_on(mask, x.device)


def _framed(targets: IntArray, counts: IntArray, order: IntArray) -> tuple[IntArray, IntArray]:
    """What the decoder reads and what it should predict, (n_positions,) each, in packed order;
    PAD where a row runs on after its end."""
    before = np.pad(targets, ((0, 0), (1, 0)), constant_values=BOS)
    after = np.pad(targets, ((0, 0), (0, 1)), constant_values=PAD)
    after[np.arange(len(counts)), counts - 1] = EOS
    running = np.arange(before.shape[1]) < counts[:, None]
    words, following = before[running][order], after[running][order]
    ended = np.ones(len(order), dtype=bool)
    ended[inverse(order)] = False
    following[ended] = PAD
    return words, following
