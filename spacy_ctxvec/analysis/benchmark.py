"""How fast an encoder is on this machine, beside what else one could use, in one run.

All systems take turns, pass by pass, so that a change of the machine's mood hits each of them; the
first pass of each is a warm-up, and what counts is the median of the others.
"""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from spacy.tokens import Doc
from spacy.util import registry
from spacy.vocab import Vocab
from thinc.util import to_numpy

from .. import errors
from ..layers.encoder import Encoder, settings_of, shim_of
from ..nn.precision import PREDICTED, possible
from ..nn.transformer import Transformer
from .facts import machine_facts
from .products import library_pass, lstm_pass, n_operations, products_pass

Pass = Callable[[], object]
HASH_EMBED_CNN = "spacy.HashEmbedCNN.v2"
"""The encoder of spaCy's small English pipelines, in their sizes."""
HASH_EMBED_CNN_SIZES = {
    "width": 96, "depth": 4, "embed_size": 2000, "window_size": 1, "maxout_pieces": 3,
    "subword_features": True, "pretrained_vectors": None,
}  # fmt: skip
LIBRARY_LSTM = "torch.nn.LSTM"
CPU = torch.device("cpu")
COLD = "float32, no word known"
BATCH_SIZES = (1, 32, 128, 1000)
LENGTHS = (5, 20, 100, 1000)
TIMED_LENGTH = 20
N_LATENCIES = 300


def measure(
    model: Encoder, sentences: Sequence[Sequence[str]], *, rounds: int, n_words: int
) -> dict[str, Any]:
    """Everything, as plain data. Speeds are words a second. CtxvecError for a transformer.

    model: with its weights
    sentences: words of real text; repeated, or cut off, until there are `n_words`
    """
    if isinstance(shim_of(model).module, Transformer):
        raise errors.CtxvecError(errors.NO_LSTMS)
    docs = docs_of(sentences, n_words)
    found = {
        "machine": {"processor": processor(), **machine_facts()},
        "words": sum(map(len, docs)),
        "docs": len(docs),
        "rounds": rounds,
        "batch_sizes": {n: _systems(model, docs, n, rounds) for n in BATCH_SIZES},
        "lengths": {n: _of_length(model, docs, n, rounds) for n in LENGTHS},
        "latency": _latency(model, docs),
        "differences": _differences(model, docs),
        "lstms": {n: _share_of_limit(model, docs, n, rounds) for n in BATCH_SIZES[1:3]},
    }
    return {**found, "peak_memory_mb": peak_memory_mb()}


def taking_turns(
    passes: Mapping[str, Pass], n_words: int, rounds: int, device: torch.device = CPU
) -> dict[str, dict[str, float]]:
    """Words a second of each system, which work on `device`: median, slowest and fastest pass."""
    seconds = seconds_in_turns(passes, rounds, device)
    return {name: words_per_second(of_one, n_words) for name, of_one in seconds.items()}


def seconds_in_turns(
    passes: Mapping[str, Pass],
    rounds: int,
    device: torch.device = CPU,
    *,
    within: float = math.inf,
) -> dict[str, list[float]]:
    """Seconds of each pass of each system, the warm-up left out.

    device: where they work; a GPU is waited for
    within: seconds from now; of the rounds, only those are made that should end by then, and one
    """
    start = end = time.perf_counter()
    taken: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(rounds + 1):
        for name, run in passes.items():
            seconds = timed(run, device)
            if number:
                taken[name].append(seconds)
        begun, end = end, time.perf_counter()
        if number and end + (end - begun) > start + within:
            break
    return taken


def timed(run: Pass, device: torch.device) -> float:
    """Seconds until all that `run` started on `device` is done."""
    _wait_for(device)
    start = time.perf_counter()
    run()
    _wait_for(device)
    return time.perf_counter() - start


def words_per_second(seconds: Sequence[float], n_words: int) -> dict[str, float]:
    """Median, slowest and fastest of passes over so many words."""
    speeds = [n_words / of_pass for of_pass in seconds]
    return {"median": statistics.median(speeds), "least": min(speeds), "most": max(speeds)}


def encoder_passes(model: Encoder, docs: list[Doc], batch_size: int) -> dict[str, Pass]:
    """All docs, in each precision that pays here, and without a word whose spelling is known."""
    passes: dict[str, Pass] = {
        name: partial(_read, model, docs, batch_size, name)
        for name in precisions(shim_of(model).device)
    }
    passes[COLD] = partial(_read_cold, model, docs, batch_size)
    return passes


def precisions(device: torch.device) -> list[str]:
    """Those that are no slower here."""
    return [name for name in PREDICTED if possible(name, device.type) == name]


def hash_embed_cnn(docs: Sequence[Doc]) -> Any:
    """The encoder that spaCy's small pipelines have; its speed does not depend on its weights."""
    model = registry.architectures.get(HASH_EMBED_CNN)(**HASH_EMBED_CNN_SIZES)
    model.initialize(X=docs[:10])
    return model


def docs_of(sentences: Sequence[Sequence[str]], n_words: int) -> list[Doc]:
    """A doc for each sentence; repeated, or cut off, until there are `n_words`."""
    vocab, docs, left = Vocab(), [], n_words
    for words in cycle([list(words) for words in sentences if words]):
        docs.append(Doc(vocab, words=words[:left]))
        left -= len(docs[-1])
        if left <= 0:
            return docs
    return docs


def in_batches(read: Callable[[list[Doc]], object], docs: list[Doc], batch_size: int) -> None:
    for i in range(0, len(docs), batch_size):
        read(docs[i : i + batch_size])


def processor() -> str:
    """Its name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def peak_memory_mb() -> float | None:
    """The most memory that this process has had; None where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if platform.system() == "Darwin" else 2**10  # bytes there, kilobytes elsewhere
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20)


def _wait_for(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _systems(
    model: Encoder, docs: list[Doc], batch_size: int, rounds: int
) -> dict[str, dict[str, float]]:
    """The encoder in each precision and without words that it knows, and others beside it."""
    passes = encoder_passes(model, docs, batch_size)
    cnn = hash_embed_cnn(docs)
    passes[HASH_EMBED_CNN] = partial(in_batches, cnn.predict, docs, batch_size)
    lengths = np.array([len(doc) for doc in docs])
    passes[LIBRARY_LSTM] = library_pass(shim_of(model).module, lengths, batch_size)
    return taking_turns(passes, sum(map(len, docs)), rounds, shim_of(model).device)


def _read(model: Encoder, docs: list[Doc], batch_size: int, precision: str) -> None:
    with _in_precision(model, precision):
        in_batches(model.predict, docs, batch_size)


@contextmanager
def _in_precision(model: Encoder, precision: str) -> Iterator[None]:
    module = shim_of(model).module
    before = module.precision
    module.set_precision(precision)
    try:
        yield
    finally:
        module.set_precision(before)


def _differences(model: Encoder, docs: list[Doc]) -> dict[str, float]:
    """How far the layers of each precision are from those of float32, in the length of those."""
    found = {}
    for precision in precisions(shim_of(model).device):
        with _in_precision(model, precision):
            found[precision] = np.concatenate([to_numpy(rows) for rows in model.predict(docs)])
    exact = found.pop("float32")
    length = np.linalg.norm(exact)
    return {name: float(np.linalg.norm(rows - exact) / length) for name, rows in found.items()}


def _read_cold(model: Encoder, docs: list[Doc], batch_size: int) -> None:
    shim_of(model).inputs.forget()
    _read(model, docs, batch_size, "float32")


def _of_length(model: Encoder, docs: list[Doc], length: int, rounds: int) -> dict[str, float]:
    """The speed over docs of that many words, joined or cut from the text."""
    words = [token.text for doc in docs for token in doc]
    pieces = [words[i : i + length] for i in range(0, len(words), length)]
    cut = [Doc(docs[0].vocab, words=piece) for piece in pieces]
    batch_size = max(1, settings_of(model).max_batch_items // length)
    passes = {"encoder": partial(in_batches, model.predict, cut, batch_size)}
    return taking_turns(passes, len(words), rounds, shim_of(model).device)["encoder"]


def _latency(model: Encoder, docs: list[Doc]) -> dict[str, float]:
    """Milliseconds for one doc of `TIMED_LENGTH` words, whose words are known."""
    words = [token.text for doc in docs for token in doc]
    starts = range(0, max(1, len(words) - TIMED_LENGTH), TIMED_LENGTH)
    cut = [Doc(docs[0].vocab, words=words[i : i + TIMED_LENGTH]) for i in starts]
    taken = []
    for _, doc in zip(range(N_LATENCIES), cycle(cut)):
        taken.append(1000 * timed(partial(model.predict, [doc]), shim_of(model).device))
    return {"words": TIMED_LENGTH, "p50": statistics.median(taken), "p95": _percentile(taken, 95)}


def _percentile(values: list[float], percent: int) -> float:
    return float(np.percentile(values, percent))


def _share_of_limit(
    model: Encoder, docs: list[Doc], batch_size: int, rounds: int
) -> dict[str, float]:
    """How near the LSTM layers come to their own matrix products alone, which bound them."""
    module = shim_of(model).module
    lengths = np.array([len(doc) for doc in docs])
    passes = {
        "layers": lstm_pass(module, lengths, batch_size),
        "products": products_pass(module, lengths, batch_size),
    }
    with torch.no_grad():
        speeds = taking_turns(passes, int(lengths.sum()), rounds, module.device)
    layers, products = (speeds[name]["median"] for name in ("layers", "products"))
    gigaflops = n_operations(module, lengths) / lengths.sum() / 1e9
    return {
        "share": layers / products,
        "gflop_per_second": layers * gigaflops,
        "limit_gflop_per_second": products * gigaflops,
    }
