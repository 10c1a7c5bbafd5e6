"""Fixtures and helpers that all tests share: tiny models, reference numbers, their report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from thinc.util import fix_random_seed

import spacy_ctxvec.cli  # noqa: F401  (hangs our commands into spaCy's, as `python -m spacy` does)
from spacy_ctxvec.nn.bilm import BiLM, BiLMConfig

ROOT = Path(__file__).resolve().parents[1]
PARITY = "parity"

settings.register_profile("ctxvec", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("ctxvec")


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    """Every test starts from the same seeds and leaves the number of threads as it was."""
    n_threads = torch.get_num_threads()
    fix_random_seed(0)
    yield
    torch.set_num_threads(n_threads)


@pytest.fixture(scope="session")
def tiny_config() -> BiLMConfig:
    """Everything that ELMo has: clips (tight enough to bite), projections, skip connections."""
    return BiLMConfig(
        width=12,
        hidden_width=10,
        n_layers=2,
        skip=True,
        cell_clip=0.5,
        output_clip=0.3,
        char_width=5,
        filters=((1, 4), (2, 5), (3, 6)),
        n_highway=2,
        max_characters=12,
    )


@pytest.fixture(scope="session")
def tiny_plain_config() -> BiLMConfig:
    """Nothing that the library's own LSTM lacks, no projection of the token layer either."""
    return BiLMConfig(
        width=16,
        hidden_width=8,
        n_layers=3,
        skip=False,
        char_width=4,
        filters=((2, 3), (3, 5)),
        activation="tanh",
        n_highway=0,
        max_characters=12,
    )


def seeded_model(config: BiLMConfig, seed: int = 1) -> BiLM:
    """A model with weights large enough that gates and clips are all at work."""
    torch.manual_seed(seed)
    model = BiLM(config)
    for parameter in [*model.forward_lstms.parameters(), *model.backward_lstms.parameters()]:
        parameter.data.mul_(2)
    for name, parameter in model.char_encoder.named_parameters():
        if name.endswith("bias") or name.startswith("convolutions"):
            parameter.data.uniform_(-0.5, 0.5)
    return model.eval()


@pytest.fixture
def tiny_model(tiny_config: BiLMConfig) -> BiLM:
    return seeded_model(tiny_config)


@pytest.fixture
def tiny_plain_model(tiny_plain_config: BiLMConfig) -> BiLM:
    return seeded_model(tiny_plain_config)


@pytest.fixture(params=["tiny", "tiny_plain"])
def either_model(request: pytest.FixtureRequest) -> BiLM:
    return request.getfixturevalue(f"{request.param}_model")


Embed = Callable[..., list[np.ndarray]]


@pytest.fixture(scope="session")
def embed() -> Embed:
    """`embed(model, sentences)`: all layers of each, a list of (n_tokens, n_layers + 1, width)."""

    def embed_sentences(
        model: BiLM, sentences: Sequence[Sequence[str]], *, sentence_marks: bool = False
    ) -> list[np.ndarray]:
        words = [word for sentence in sentences for word in sentence]
        distinct = list(dict.fromkeys(words))
        rows = {word: i + 2 for i, word in enumerate(distinct)}
        lengths = np.array([len(sentence) for sentence in sentences])
        with torch.no_grad():
            spelled = model.word_vectors(distinct, sentence_marks=sentence_marks)
            vectors = torch.cat([model.mark_vectors(), spelled])
            layers = model(vectors, np.array([rows[word] for word in words]), lengths)
        return np.split(layers.numpy(), np.cumsum(lengths)[:-1])

    return embed_sentences


def _folder(variable: str, default: str) -> Path:
    folder = Path(os.environ.get(variable, ROOT / default))
    if not folder.is_dir():
        pytest.skip(f"{folder} is missing: set {variable} to the folder that holds these files")
    return folder


@pytest.fixture(scope="session")
def reference() -> Path:
    """Numbers that the original systems computed; they are no part of the repository."""
    return _folder("CTXVEC_FIXTURES", "../shared/fixtures")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Texts and data sets; they are no part of the repository."""
    return _folder("CTXVEC_DATA", "../shared/data")


@pytest.fixture
def parity(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """`parity(name, got, want)`: pass within 1e-6 (and 1e-5 relative), report the difference.

    `got` and `want` are lists of arrays of equal shapes.
    """

    def compare(name: str, got: Sequence[np.ndarray], want: Sequence[np.ndarray]) -> None:
        assert [np.shape(g) for g in got] == [np.shape(w) for w in want]
        gap = max(float(np.abs(g - w).max(initial=0.0)) for g, w in zip(got, want))
        passed = [np.allclose(g, w, atol=1e-6, rtol=1e-5) for g, w in zip(got, want)]
        text = f"{name}: {sum(passed)} of {len(passed)} equal, largest difference {gap:.1e}"
        record_property(PARITY, text)
        assert all(passed), text

    return compare


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [r for group in ("passed", "failed") for r in terminalreporter.stats.get(group, [])]
    lines = [text for r in reports for key, text in r.user_properties if key == PARITY]
    if lines:
        terminalreporter.section("agreement with the original systems")
        for line in lines:
            terminalreporter.write_line(line)
