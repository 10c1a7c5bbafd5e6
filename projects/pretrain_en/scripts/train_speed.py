"""Training speed at the sizes of the original "small" ELMo, against a plain PyTorch trainer.

The plain one does what most implementations do: `torch.nn.LSTM` with a projection for each layer
and direction, characters of every token of the batch, one autograd graph, the same sampled softmax.
Both take the same batches of made-up words, alternately, and the median step of each is compared.

    python scripts/train_speed.py [--steps 5] [--precision float32] [--json]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig
from spacy_ctxvec.nn.char_encoder import Highway
from spacy_ctxvec.nn.memory import keep_freed_memory
from spacy_ctxvec.nn.softmax import Sampler, WordSoftmax
from spacy_ctxvec.text.characters import N_CHARACTERS, encode_marks, encode_words
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training.batches import Batch
from spacy_ctxvec.training.lm import LMTrainer, word_counts
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.optimizing import make_optimizer

SIZES = BiLMConfig(
    width=256,
    hidden_width=1024,
    cell_clip=3.0,
    output_clip=3.0,
    filters=((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024)),
)
N_WORDS = 30_000


def made_up_corpus(n_tokens: int = 400_000) -> Corpus:
    """Sentences of 20 words whose frequencies follow Zipf's law, as the words of a text do."""
    random = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfw"))
    words = ["".join(random.choice(letters, size=1 + n % 11)) for n in range(60_000)]
    weights = 1 / np.arange(10, len(words) + 10)
    ids = random.choice(len(words), size=(n_tokens // 20, 20), p=weights / weights.sum())
    return Corpus.in_memory([[words[i] for i in row] for row in ids.tolist()])


class PlainCharacters(nn.Module):
    """The character encoder layer by layer, over all 50 characters of every token."""

    def __init__(self) -> None:
        super().__init__()
        width, n_features = SIZES.char_width, sum(n for _, n in SIZES.filters)
        self.embedding = nn.Embedding(N_CHARACTERS, width)
        self.convolutions = nn.ModuleList(nn.Conv1d(width, n, w) for w, n in SIZES.filters)
        self.highway = Highway(n_features)
        self.projection = nn.Linear(n_features, SIZES.token_width)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids).transpose(1, 2)
        pooled = [convolution(x).amax(dim=2) for convolution in self.convolutions]
        return self.projection(self.highway(torch.cat(pooled, dim=1).relu()))


def plain_loss(x: Tensor, targets: Tensor, softmax: WordSoftmax, sampler: Sampler) -> Tensor:
    """The sampled softmax with all its logits at once."""
    candidates = sampler.draw(0)
    bias = softmax.bias - sampler.log_expected
    true = (x * softmax.weight[targets]).sum(dim=1) + bias[targets]
    others = x @ softmax.weight[candidates].t() + bias[candidates]
    others = others.masked_fill(targets[:, None] == candidates, -1e4)
    logits = torch.cat([true[:, None], others], dim=1)
    return nn.functional.cross_entropy(logits, torch.zeros_like(targets))


class PlainTrainer:
    """The textbook loop: no word is shared, no direction runs beside the other."""

    def __init__(self, n_words: int, sampler: Sampler):
        self.sampler = sampler
        width = SIZES.token_width
        self.characters = PlainCharacters()
        self.lstms = nn.ModuleList(
            nn.LSTM(width, SIZES.hidden_width, proj_size=width) for _ in range(4)
        )
        self.softmax = WordSoftmax(input_width=width, width=width, n_words=n_words)
        modules = (self.characters, self.lstms, self.softmax)
        self.parameters = [p for module in modules for p in module.parameters()]
        self.optimizer = make_optimizer(
            "adagrad", self.parameters, learn_rate=0.2, beta2=0.99, weight_decay=0.0
        )

    def step(self, batch: Batch) -> None:
        self.optimizer.zero_grad()
        loss = torch.stack([self._loss(batch, direction) for direction in (0, 1)]).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 10.0)
        self.optimizer.step()

    def _loss(self, batch: Batch, direction: int) -> Tensor:
        ids = np.concatenate([encode_marks(50), encode_words(batch.words, 50)])
        rows = batch.rows[direction]
        x = self.characters(torch.from_numpy(ids[rows.ravel()])).view(*rows.shape, -1)
        for lstm in self.lstms[2 * direction : 2 * direction + 2]:
            x = nn.functional.dropout(lstm(x)[0], 0.1)
        hidden = batch.predicting(direction, x.flatten(0, 1))
        targets = batch.targets(direction, self.softmax.n_words)
        x = self.softmax.project(direction, hidden)
        return 10 * plain_loss(x, targets, self.softmax, self.sampler)


def timed(function: Callable[..., object], *arguments: object) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--precision", default="float32")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keep_freed_memory()
    corpus = made_up_corpus()
    config = LMTrainingConfig(
        batch_tokens=128 * 20, unroll=20, carry="stream", n_samples=8192, sampler="log_uniform",
        optimizer="adagrad", learn_rate=0.2, schedule="constant", warmup=0.0, loss_scale=20.0,
        grad_clip=10.0, dropout=0.1, precision=arguments.precision,
    )  # fmt: skip
    softmax = WordSoftmax(input_width=SIZES.token_width, width=128, n_words=N_WORDS)
    softmax.start_from_counts(word_counts(corpus, N_WORDS))
    trainer = LMTrainer(BiLM(SIZES), softmax, corpus, config)
    plain = PlainTrainer(N_WORDS, trainer.objective.sampler)
    portions = trainer.portions(trainer.position)
    seconds: dict[str, list[float]] = {"ours": [], "plain": []}
    n_threads = torch.get_num_threads()
    for _ in range(arguments.steps + 1):
        (group, number), after = next(portions)
        batch = Batch(corpus.types, *group.read(number))
        seconds["plain"].append(timed(plain.step, batch))
        torch.set_num_threads(1)  # as `Trainer.train` does: each direction has a thread
        seconds["ours"].append(timed(trainer.train_step, (group, number), after))
        torch.set_num_threads(n_threads)
    # The first step of each allocates its memory.
    speed = {name: 128 * 20 / statistics.median(times[1:]) for name, times in seconds.items()}
    result = {
        **{f"{name}_tokens_per_second": round(value, 1) for name, value in speed.items()},
        "ratio": round(speed["ours"] / speed["plain"], 2),
        "precision": str(trainer.dtype).removeprefix("torch."),
        "steps": arguments.steps,
        "threads": n_threads,
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
