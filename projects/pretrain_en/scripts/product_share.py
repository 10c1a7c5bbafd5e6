"""How near the training of `en_sm`'s sizes comes to the matrix products that it is made of.

The products of a few steps are recorded, then each is made again alone, and the sum of their times
is the limit: what the steps would take if they did nothing else. Both use the same number of
threads, one product a thread.

    python scripts/product_share.py CORPUS [--steps 10] [--json]

CORPUS is the folder `corpus` of a working folder of `spacy ctxvec pretrain`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from spacy_ctxvec.nn.memory import keep_freed_memory
from spacy_ctxvec.nn.parallel import one_thread
from spacy_ctxvec.text.corpus import Corpus
from spacy_ctxvec.training.lm import LMTrainer, word_counts
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.pretrain import PretrainConfig, new_bilm, start_softmax

Product = tuple[int, int, int, torch.dtype]
"""Rows, inner size, columns, precision."""
REPEATS = 20


class Products(TorchDispatchMode):
    """Counts the matrix products made in this context, those of fused LSTMs among them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[Product] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split("::")[1].split(".")[0]
        if name in ("mm", "addmm"):
            a, b = args[-2:] if name == "mm" else args[1:3]
            self.counts[a.shape[0], a.shape[1], b.shape[1], a.dtype] += 1
        elif name == "bmm":
            a, b = args[:2]
            self.counts[a.shape[1], a.shape[2], b.shape[2], a.dtype] += a.shape[0]
        elif name == "mkldnn_rnn_layer":
            self._lstm(*args[0].shape, args[1].shape[0], args[0].dtype, times=1)
        elif name == "mkldnn_rnn_layer_backward":
            # The gradients of the input and of the weights: two products for each one.
            self._lstm(*args[0].shape, args[1].shape[0], args[0].dtype, times=2)
        return func(*args, **(kwargs or {}))

    def _lstm(
        self, n_steps: int, n_rows: int, width: int, gates: int, dtype: torch.dtype, times: int
    ) -> None:
        self.counts[n_steps * n_rows, width, gates, dtype] += times
        self.counts[n_rows, gates // 4, gates, dtype] += times * n_steps


def seconds_of(product: Product) -> float:
    rows, inner, columns, dtype = product
    a, b = torch.randn(rows, inner).to(dtype), torch.randn(inner, columns).to(dtype)
    torch.mm(a, b)
    started = time.perf_counter()
    for _ in range(REPEATS):
        torch.mm(a, b)
    return (time.perf_counter() - started) / REPEATS


def make_trainer(corpus: Corpus, *, threads: bool) -> LMTrainer:
    training = LMTrainingConfig(
        learn_rate=2.5e-3, schedule="trapezoid", warmup=0.01, threads=threads
    )
    config = PretrainConfig(
        name="en_sm", lang="en", text_folder=Path(), train=[], heldout=[], licence="", sources=[],
        training=training,
    )  # fmt: skip
    softmax = start_softmax(config, word_counts(corpus, min(40_000, len(corpus.types))))
    return LMTrainer(new_bilm(config.model, corpus), softmax, corpus, training)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    keep_freed_memory()
    corpus = Corpus.open(arguments.corpus)
    n_threads = min(2, torch.get_num_threads())
    trainer, counted = (make_trainer(corpus, threads=t) for t in (n_threads == 2, False))
    with one_thread():
        portions = trainer.portions(trainer.position)
        steps = [next(portions) for _ in range(arguments.steps + 2)]
        for step in steps[:2]:  # they allocate memory and compile kernels
            trainer.train_step(*step)
        before, started = trainer.tokens, time.perf_counter()
        for step in steps[2:]:
            trainer.train_step(*step)
        seconds = time.perf_counter() - started
        with Products() as products:
            for step in steps[2:]:
                counted.train_step(*step)
        limit = sum(n * seconds_of(p) for p, n in products.counts.items()) / n_threads
    tokens = trainer.tokens - before
    result = {
        "tokens_per_second": round(tokens / seconds),
        "limit_tokens_per_second": round(tokens / limit),
        "share_of_limit": round(limit / seconds, 3),
        "share_outside_products": round(1 - limit / seconds, 3),
        "threads": n_threads,
        "steps": arguments.steps,
        "precision": str(trainer.dtype).removeprefix("torch."),
    }
    if arguments.json:
        print(json.dumps(result))
    else:
        print("\n".join(f"{name}: {value}" for name, value in result.items()))


if __name__ == "__main__":
    main()
