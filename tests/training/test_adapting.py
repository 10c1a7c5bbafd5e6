"""Adaptation to a domain: what the softmax starts from, what is learned, and how a run goes on."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.native import load_native, load_softmax, save_native, save_softmax
from spacy_ctxvec.nn.adaptive_softmax import AdaptiveSoftmax
from spacy_ctxvec.nn.bilm import BiLMConfig
from spacy_ctxvec.nn.softmax import WordSoftmax
from spacy_ctxvec.text.corpus import UNKNOWN_ID
from spacy_ctxvec.training.adapting import (
    LEAST_COUNT,
    TRAINING,
    Adaptation,
    AdaptConfig,
    Folded,
    extended,
)
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.perplexity import evaluate
from spacy_ctxvec.training.pretrain import PretrainConfig, prepare, pretrain
from spacy_ctxvec.training.running import Progress

SIZES = BiLMConfig(width=16, hidden_width=8, char_width=4, filters=((1, 4), (2, 4)))
GENERAL = [
    "The cat sat on the mat .",
    "A dog ran to the river bank !",
    "Who saw the cat and a dog ?",
]
DOMAIN = [
    "The enzyme binds the receptor .",
    "A ligand binds to the enzyme !",
    "Who saw the ligand ?",
]
FAST = replace(TRAINING, epochs=12.0, batch_tokens=64, n_samples=20, learn_rate=0.03, threads=False)


def write(path: Path, sentences: list[str], n: int) -> str:
    lines = [f"{sentences[i % 3]} {sentences[i * 7 % 3]}" for i in range(n)]
    path.write_text("\n".join(lines), "utf8")
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`model`, trained a little on general text, and texts of a domain beside it."""
    folder = tmp_path_factory.mktemp("adapting")
    write(folder / "general.txt", GENERAL, 60)
    write(folder / "held.txt", GENERAL, 9)
    write(folder / "domain.txt", DOMAIN, 60)
    write(folder / "domain-held.txt", DOMAIN, 12)
    config = PretrainConfig(
        name="toy", lang="en", text_folder=folder, train=["general.txt"], heldout=["held.txt"],
        licence="CC0", sources=["made up"], n_words=50, softmax_width=6, dtype="float32",
        model=SIZES,
        training=LMTrainingConfig(tokens=4000, batch_tokens=64, n_samples=20, learn_rate=0.01),
    )  # fmt: skip
    assert pretrain(config, folder / "work") == folder / "work" / "model"
    return folder


def settings(folder: Path, **changes: object) -> AdaptConfig:
    config = AdaptConfig(
        model=folder / "work",
        text=[str(folder / "domain.txt")],
        heldout=[str(folder / "domain-held.txt")],
        training=FAST,
    )
    return replace(config, **changes)  # type: ignore[arg-type]


def weights(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ("model.safetensors", "softmax.safetensors")]


@pytest.fixture(scope="module")
def adapted(folder: Path) -> Path:
    result = Adaptation(settings(folder), folder / "adapted").run()
    assert result is not None
    return result


def test_perplexity_is_halved_and_told_before_and_after(folder: Path, adapted: Path) -> None:
    info = load_native(adapted).info
    found = info["adaptation"]["vocabularies"]
    assert list(found) == ["old", "with new words"]
    for direction in ("forward", "backward"):
        for one in found.values():
            assert one["after"][direction] < one["before"][direction] / 2
    assert found["old"]["after"]["unknown_rate"] > 0.2
    assert found["with new words"]["after"]["unknown_rate"] == 0
    assert info["perplexity"] == found["with new words"]["after"]
    assert info["name"] == "toy_adapted" and info["licence"] == "CC0"
    seen_before = load_native(folder / "work" / "model").info["tokens_seen"]
    assert info["tokens_seen"] == seen_before + info["adaptation"]["tokens"]
    card = (adapted / "README.md").read_text("utf8")
    for part in ("toy_adapted", "of `toy`", "before", "with new words", "domain-held.txt"):
        assert part in card


def test_what_is_told_is_what_the_written_models_have(folder: Path, adapted: Path) -> None:
    adaptation = Adaptation(settings(folder), folder / "adapted")
    _, heldout = prepare(
        adaptation.pretraining, folder / "adapted", Progress(), vocabulary=adaptation.words
    )
    found = load_native(adapted).info["adaptation"]["vocabularies"]
    softmax, words = load_softmax(adapted)
    assert words[: len(adaptation.words)] == adaptation.words
    assert {"enzyme", "ligand", "receptor"} <= set(words[len(adaptation.words) :])
    after = evaluate(load_native(adapted).build(), softmax, heldout.recoded(words))
    assert after.rounded() == found["with new words"]["after"]
    old, _ = load_softmax(folder / "work" / "model")
    before = evaluate(load_native(folder / "work" / "model").build(), old, heldout)
    assert before.rounded() == found["old"]["before"]


def test_old_rows_are_kept_and_new_words_share_what_the_unknown_word_had(folder: Path) -> None:
    adaptation = Adaptation(settings(folder), folder / "start")
    train, heldout = prepare(
        adaptation.pretraining, folder / "start", Progress(), vocabulary=adaptation.words
    )
    softmax, first = adaptation.softmax, adaptation.first_softmax(train)
    assert isinstance(softmax, WordSoftmax) and isinstance(first, WordSoftmax)
    n_old = softmax.n_words
    assert sorted(train.types[n_old : first.n_words]) == ["binds", "enzyme", "ligand", "receptor"]
    assert torch.equal(first.weight[:n_old], softmax.weight)
    others = [i for i in range(n_old) if i != UNKNOWN_ID]
    assert torch.equal(first.bias[others], softmax.bias[others])
    x = torch.randn(7, SIZES.token_width)
    targets = torch.tensor([*others[:6], UNKNOWN_ID])
    for direction in (0, 1):
        want = softmax.full_losses(direction, x, targets)
        assert torch.allclose(first.full_losses(direction, x, targets)[:6], want[:6], atol=1e-5)
        folded = Folded(first, n_old).full_losses(direction, x, targets)
        assert torch.allclose(folded, want, atol=1e-5)
    model = adaptation.encoder.build()
    old = evaluate(model, softmax, heldout)
    again = evaluate(model, Folded(first, n_old), heldout)
    assert old.forward == pytest.approx(again.forward) and old.unknown_rate == again.unknown_rate


def test_biases_of_new_words_divide_by_frequency() -> None:
    softmax = WordSoftmax(input_width=4, width=3, n_words=6)
    softmax.bias.data.uniform_(-1, 1)
    new = extended(softmax, np.array([9, 19, 9]))
    shares = (new.bias.data[[UNKNOWN_ID, 6, 7]] - softmax.bias.data[UNKNOWN_ID]).exp()
    assert torch.allclose(shares, torch.tensor([0.25, 0.5, 0.25]))
    assert torch.equal(new.weight[6:], softmax.weight[[UNKNOWN_ID] * 2])
    same = extended(softmax, np.array([40]))
    assert torch.equal(same.bias, softmax.bias) and torch.equal(same.weight, softmax.weight)


def test_rare_words_and_more_than_asked_are_left_out(folder: Path) -> None:
    rare = folder / "rare.txt"
    rare.write_text("zyx " * (LEAST_COUNT - 1) + "wvu " * LEAST_COUNT + "tsr " * 9, "utf8")
    for new_words, expected in ((5, ["tsr", "wvu"]), (1, ["tsr"]), (0, [])):
        adaptation = Adaptation(
            settings(folder, text=[str(rare)], new_words=new_words), folder / "rare"
        )
        train, _ = prepare(
            adaptation.pretraining, folder / "rare", Progress(), vocabulary=adaptation.words
        )
        n_words = adaptation.first_softmax(train).n_words
        assert train.types[len(adaptation.words) : n_words] == expected


def stop_at(step: int) -> Progress:
    def note(record: dict[str, object]) -> None:
        if record["step"] == step:
            os.kill(os.getpid(), signal.SIGTERM)

    return Progress(training=note)


def test_a_run_that_was_stopped_ends_in_the_same_bits(folder: Path) -> None:
    config = settings(folder, training=replace(FAST, epochs=6.0, evaluate_every=7))
    straight = Adaptation(config, folder / "straight").run()
    assert Adaptation(config, folder / "stopped").run(stop_at(14)) is None
    assert not (folder / "stopped" / "model").exists()
    resumed = Adaptation(config, folder / "stopped").run()
    assert straight and resumed and weights(straight) == weights(resumed)
    infos = [load_native(path).info for path in (straight, resumed)]
    assert infos[0] == infos[1]
    log = (folder / "stopped" / "log.jsonl").read_text("utf8").splitlines()
    assert [json.loads(line)["step"] for line in log[:3]] == [7, 14, 21]


def test_a_checkpoint_that_began_otherwise_is_refused(folder: Path, adapted: Path) -> None:
    with pytest.raises(CtxvecError, match="began with new_words = 5000; now it is 3"):
        Adaptation(settings(folder, new_words=3), folder / "adapted").run()
    with pytest.raises(CtxvecError, match="began with model = "):
        Adaptation(settings(folder, model=adapted), folder / "adapted").run()


def test_a_model_without_softmax_gets_a_new_one(folder: Path) -> None:
    config = settings(folder, model=Path("en_sm"))
    with pytest.raises(CtxvecError, match=r"holds no softmax\.safetensors.*--new-softmax"):
        Adaptation(config, folder / "new")
    config = settings(folder, model=folder / "work" / "model", new_softmax=True)
    result = Adaptation(config, folder / "new").run()
    assert result is not None
    found = load_native(result).info["adaptation"]
    (one,) = found["vocabularies"].values()
    assert one["before"] is None and one["after"]["forward"] < one["n_words"] / 2
    assert "cat" not in load_softmax(result)[1]
    assert "| - |" in (result / "README.md").read_text("utf8")


def adaptive(folder: Path) -> Path:
    """The model with an adaptive softmax in the place of its own."""
    model = load_native(folder / "work" / "model")
    _, words = load_softmax(folder / "work" / "model")
    save_native(model, folder / "adaptive")
    softmax = AdaptiveSoftmax(input_width=SIZES.token_width, width=6, n_words=len(words))
    save_softmax(softmax, words, folder / "adaptive")
    return folder / "adaptive"


def test_an_adaptive_softmax_keeps_its_words(folder: Path) -> None:
    model = adaptive(folder)
    with pytest.raises(CtxvecError, match="--new-words 0"):
        Adaptation(settings(folder, model=model), folder / "of_adaptive")
    result = Adaptation(settings(folder, model=model, new_words=0), folder / "of_adaptive").run()
    assert result is not None
    found = load_native(result).info["adaptation"]["vocabularies"]["old"]
    assert found["after"]["forward"] < found["before"]["forward"] / 2


def test_an_unfinished_training_is_no_model(folder: Path) -> None:
    (folder / "unfinished").mkdir()
    (folder / "unfinished" / "checkpoint.pt").write_bytes(b"")
    with pytest.raises(CtxvecError, match="not come to its end"):
        Adaptation(settings(folder, model=folder / "unfinished"), folder / "never")
