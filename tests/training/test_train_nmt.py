"""Translation models from parallel text: training, resumption, BLEU, model folder, commands."""

from __future__ import annotations

import gzip
import json
import math
import os
import signal
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from click.testing import Result
from printing import printed
from safetensors.torch import load_file
from spacy.cli._util import app
from thinc.api import Config
from typer.testing import CliRunner

from spacy_ctxvec.cli.opening import first_encoder, open_pipeline
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.formats.detect import load_model
from spacy_ctxvec.formats.translator import MARKS, load_translation_model
from spacy_ctxvec.formats.word_table import WordTable
from spacy_ctxvec.layers.encoder import shim_of
from spacy_ctxvec.nn.beam import SearchSettings
from spacy_ctxvec.nn.mtlstm import MTLSTMConfig
from spacy_ctxvec.nn.nmt import BOS, EOS, PAD, UNK, NMTConfig, Translator
from spacy_ctxvec.text.corpus import SPECIALS
from spacy_ctxvec.text.pair_corpus import PairCorpus
from spacy_ctxvec.text.subwords import JOINER, Subwords
from spacy_ctxvec.training.config import read_nmt_config
from spacy_ctxvec.training.nmt import NMTTrainer
from spacy_ctxvec.training.nmt_config import NMTTrainingConfig
from spacy_ctxvec.training.pair_batches import PairReader, n_predictions
from spacy_ctxvec.training.position import Position
from spacy_ctxvec.training.running import Progress
from spacy_ctxvec.training.train_nmt import NMTRunConfig, train_nmt, vectors_of_types
from spacy_ctxvec.training.translating import (
    bleu_of,
    evaluate_translation,
    translations,
    word_vectors,
)
from spacy_ctxvec.training.workers import Workers

NOUNS = {"cat": "katze", "dog": "hund", "tree": "baum", "moon": "mond"}
VERBS = {"sees": "sieht", "likes": "mag"}
TRAINING = NMTTrainingConfig(
    epochs=12, batch_pairs=4, learn_rate=0.02, dropout=0.0, label_smoothing=0.0, warmup=0.0
)


def sentences() -> list[tuple[str, str]]:
    """The word order of the target differs: the verb comes last."""
    return [
        (f"the {a} {verb} the {b} .", f"das {NOUNS[a]} das {NOUNS[b]} {VERBS[verb]} .")
        for a in NOUNS
        for verb in VERBS
        for b in NOUNS
    ]


@pytest.fixture
def pairs() -> PairCorpus:
    return PairCorpus.in_memory([(a.split(), b.split()) for a, b in sentences()])


def table_of(words) -> WordTable:
    keys = np.array([spacy.strings.get_string_id(word) for word in words], dtype=np.uint64)
    vectors = np.random.default_rng(0).standard_normal((len(words), 6)).astype("float32")
    return WordTable.of(keys, np.arange(len(words)), vectors)


def make_trainer(pairs: PairCorpus, **settings) -> NMTTrainer:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    n_words = len(MARKS) + len(pairs.target.types) - 3
    sizes = MTLSTMConfig(input_width=6, hidden_width=16)
    model = Translator(
        NMTConfig(n_target_words=n_words, target_width=8, encoder=sizes, dropout=0.0)
    )
    model.start_anew(0.4)  # so narrow a model would learn little from the usual 0.1 in this time
    vectors = word_vectors(table_of(pairs.source.types), pairs.source.types)
    return NMTTrainer(model, pairs, vectors, replace(TRAINING, **settings))


def take_steps(trainer: NMTTrainer, n: int) -> list[float]:
    portions = trainer.portions(trainer.position)
    return [trainer.train_step(*next(portions)) for _ in range(n)]


def test_an_epoch_reads_every_pair_once(pairs):
    reader = PairReader(pairs, np.zeros((20, 6), "float32"), 99, batch_pairs=7, seed=1)
    plans = [reader.plan(epoch) for epoch in (0, 1)]
    for plan in plans:
        assert sorted(np.concatenate(plan)) == list(range(len(pairs)))
        assert all(len(step) <= 7 for step in plan)
    assert [step.tolist() for step in plans[0]] != [step.tolist() for step in plans[1]]
    steps = reader.steps(Position(0, len(plans[0]) - 1))
    assert next(steps)[1] == Position(1) and next(steps)[0].tolist() == plans[1][0].tolist()


def test_batches_are_what_the_model_takes():
    pairs = PairCorpus.in_memory([(["a", "b"], ["x", "y", "x"]), (["b"], ["rare"])])
    assert pairs.target.types[3:] == ["x", "rare", "y"]
    vectors = np.arange(len(pairs.source.types) * 2, dtype="float32").reshape(-1, 2)
    batch = PairReader(pairs, vectors, EOS + 2, batch_pairs=2).read(np.array([0, 1]))
    assert batch.lengths.tolist() == [2, 1]
    a, b = (pairs.source.types.index(word) for word in "ab")
    np.testing.assert_array_equal(batch.vectors.numpy(), vectors[[a, b, b]])
    x = EOS + 1  # the one word it knows
    assert batch.targets.tolist() == [[x, UNK, x], [UNK, PAD, PAD]]
    assert n_predictions(pairs) == 6
    assert {PAD, UNK, BOS, EOS} == set(range(4))


def test_it_learns_to_translate(pairs):
    trainer = make_trainer(pairs)
    take_steps(trainer, 12 * len(trainer.reader.plan(0)))
    words = [*MARKS, *pairs.target.types[3:]]
    table = table_of(pairs.source.types)
    found = evaluate_translation(trainer.model.eval(), words, pairs, table, SearchSettings())
    assert found.bleu > 99 and found.perplexity < 1.2 and found.unknown_rate == 0
    assert found.n_pairs == len(pairs) and "tok:none" in found.signature
    made = list(
        translations(
            trainer.model,
            words,
            [["the", "moon", "likes", "the", "dog", "."], []],
            table,
            SearchSettings(),
        )
    )
    assert made[0].words == ["das", "mond", "das", "hund", "mag", "."] and made[1].words == []
    assert made[0].attention.shape == (6, 6)


def test_the_same_bits_after_a_resumption(pairs, tmp_path):
    whole = make_trainer(pairs)
    losses = take_steps(whole, 13)
    first = make_trainer(pairs)
    take_steps(first, 6)
    first.save(tmp_path / "checkpoint.pt")
    second = make_trainer(pairs)
    torch.manual_seed(99)  # what else a process drew does not matter
    second.resume(tmp_path / "checkpoint.pt")
    assert take_steps(second, 7) == losses[6:]
    for name, tensor in second.model.state_dict().items():
        assert torch.equal(tensor, whole.model.state_dict()[name])


def test_the_rate_is_halved_after_the_perplexity_has_risen(pairs, tmp_path):
    settings = {"schedule": "halving", "optimizer": "sgd", "learn_rate": 1.0, "least_rate": 0.2}
    trainer = make_trainer(pairs, **settings)
    rates = []
    for perplexity in (9.0, 8.0, 8.5, 7.0, 6.0):
        trainer.note({"perplexity": perplexity})
        rates.append(trainer.rate_factor())
    assert rates == [1.0, 1.0, 0.5, 0.25, 0.125]
    assert trainer.is_finished
    trainer.save(tmp_path / "checkpoint.pt")
    again = make_trainer(pairs, **settings)
    again.resume(tmp_path / "checkpoint.pt")
    assert again.rate_factor() == 0.125 and again.least_perplexity == 6.0


def test_a_run_is_judged_by_bleu(pairs):
    trainer = make_trainer(pairs)
    assert trainer.error_of({"bleu": 31.5}) == -31.5
    assert trainer.error_of({}) == math.inf


def test_bleu():
    assert bleu_of([["a", "b", "c", "d"]], [["a", "b", "c", "d"]])[0] == pytest.approx(100)
    assert bleu_of([[]], [["a"]])[0] == 0


# Whole runs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Text, vectors and config of a toy run."""
    lines = [f"{a}\t{b}" for a, b in sentences()]
    (tmp_path / "train.tsv").write_text("\n".join(lines), "utf8")
    (tmp_path / "dev.tsv").write_text("\n".join(lines[::9]), "utf8")
    nlp = spacy.blank("en")
    random = np.random.default_rng(0)
    for word in ["the", ".", *NOUNS, *VERBS, "never"]:
        nlp.vocab.set_vector(word, random.standard_normal(6).astype("float32"))
    nlp.to_disk(tmp_path / "vectors")
    (tmp_path / "toy.cfg").write_text(
        f"""
[train_nmt]
name = "toy"
source_lang = "en"
target_lang = "de"
train = ["train.tsv"]
heldout = ["dev.tsv"]
vectors = {json.dumps(str(tmp_path / "vectors"))}
licence = "CC0"
sources = ["made up"]
hidden_width = 12
target_width = 8
[train_nmt.training]
epochs = 12
batch_pairs = 4
learn_rate = 0.02
label_smoothing = 0.0
dropout = 0.0
""",
        "utf8",
    )
    return tmp_path


def run(*arguments: object, input: bytes | None = None) -> Result:
    return CliRunner().invoke(app, ["ctxvec", *map(str, arguments)], input=input)


def train(folder: Path, *more: object) -> Result:
    command = ["train-nmt", folder / "toy.cfg", folder / "work", "--text", folder]
    return run(*command, *more)


def test_from_text_to_translations(folder):
    result = train(folder, "--json")
    assert result.exit_code == 0, result.output
    records = [json.loads(line) for line in result.output.splitlines() if line.startswith("{")]
    evaluations = [record for record in records if "bleu" in record]
    assert (
        len(evaluations) == 12 and evaluations[-1]["perplexity"] < 4 < evaluations[0]["perplexity"]
    )
    assert records[-1] == {"model": str(folder / "work" / "model")}
    model = folder / "work" / "model"
    assert {"config.json", "model.safetensors", "translator.safetensors", "curve.png"} <= {
        path.name for path in model.iterdir()
    }
    card = (model / "README.md").read_text("utf8")
    assert "BLEU **" in card and "tok:none" in card and "| the cat" in card
    found = load_model(model)
    assert found.config == MTLSTMConfig(6, 12) and found.build().has_statistics
    # Vectors of the training words alone, and none of the words without one.
    assert found.vectors is not None and len(found.vectors.keys) == 8

    (folder / "in.txt").write_text("The moon sees the tree.\n\nThe zebra likes the dog .\n", "utf8")
    page = folder / "page.html"
    result = run(
        "translate", folder / "work", folder / "in.txt", "-o", folder / "out.txt",
        "--show-attention", page,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    out = (folder / "out.txt").read_text("utf8").split("\n")
    assert out[0] and out[1] == "" and out[2] and len(out) == 4
    assert page.read_text("utf8").count("<section>") == 3
    assert "zebra" in page.read_text("utf8")
    result = run("translate", folder / "work", folder / "in.txt", "--json", "--beam", 1)
    first = json.loads(result.output.splitlines()[0])
    assert first["source"] == ["the", "moon", "sees", "the", "tree", "."] and first["score"] < 0


@pytest.mark.parametrize("name", ["in.txt.gz", "-"])
def test_every_line_has_its_line_of_translation(folder, name):
    """Whatever is in it, and from wherever it comes."""
    assert train(folder).exit_code == 0
    lines = ["the cat sees the dog .", "", "cat " * 30_000, "the dog " * 600, "\u3000", "the moon"]
    text = "\n".join([*lines * 20, ""]).encode("utf8").replace(b"moon", b"mo\xffon", 1)
    (folder / "in.txt.gz").write_bytes(gzip.compress(text))
    path = name if name == "-" else folder / name
    result = run("translate", folder / "work", path, "--beam", 1, "--max-length", 5, input=text)
    assert result.exit_code == 0, result.output
    out = result.stdout.split("\n")[:-1]
    assert [not line for line in out] == [False, True, True, False, True, True] + 19 * [
        False, True, True, False, True, False,
    ]  # fmt: skip
    assert "not utf8: 1" in printed(result) and "too long: 20" in printed(result)


def test_text_that_is_none_leaves_no_translation(folder):
    assert train(folder).exit_code == 0
    (folder / "in.txt").write_bytes("the cat\n".encode("utf-16"))
    result = run("translate", folder / "work", folder / "in.txt", "-o", folder / "out.txt")
    assert result.exit_code == 1 and "UTF-8" in printed(result)
    assert not list(folder.glob("out.txt*"))


def test_nothing_is_trained_on_that_is_held_out(folder):
    """The same sentence with another translation would be as good as the pair itself."""
    others = [f"{a}\tunsinn" for a, _ in sentences()]
    (folder / "train.tsv").write_text("\n".join([*others, "the cat .\tdie katze ."]), "utf8")
    assert train(folder).exit_code == 0
    pairs, heldout = (PairCorpus.open(folder / "work" / name) for name in ("pairs", "heldout"))
    assert pairs.meta["problems"]["excluded_source"] == len(heldout) == 4
    assert len(pairs) == len(others) + 1 - 4


def test_a_stopped_run_goes_on(folder):
    config = read_nmt_config(folder / "toy.cfg", folder)
    short = replace(config, training=replace(config.training, epochs=2))
    assert train_nmt(short, folder / "whole") is not None
    stop = Progress(training=lambda record: os.kill(os.getpid(), signal.SIGTERM))
    assert train_nmt(short, folder / "parts", stop) is None
    assert train_nmt(short, folder / "parts") is not None
    weights = [load_model(folder / name / "model").weights for name in ("whole", "parts")]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_target_words_in_pieces(folder):
    """Pieces are read and predicted, words are told; another run of the folder has the same."""
    config = read_nmt_config(folder / "toy.cfg", folder)
    few = replace(config.training, epochs=3)
    config = replace(config, subwords=True, n_target_words=30, training=few)
    found: list[dict] = []
    model = train_nmt(config, folder / "work", Progress(training=found.append))
    assert model is not None and found[-1]["unknown_rate"] == 0
    pieces = (folder / "work" / "subwords.txt").read_text("utf8").split()
    assert load_translation_model(model).words == [*MARKS, *sorted_as_read(folder, pieces)]
    assert JOINER in "".join(pieces)
    assert JOINER not in (model / "README.md").read_text("utf8")
    assert "pieces of words" in (model / "README.md").read_text("utf8")
    (folder / "in.txt").write_text("the moon sees the tree .\n", "utf8")
    result = run("translate", folder / "work", folder / "in.txt", "--json")
    made = json.loads(result.output.splitlines()[0])["translation"]
    assert made and JOINER not in "".join(made)
    with pytest.raises(CtxvecError, match="began with n_target_words = 30; now it is 40"):
        train_nmt(replace(config, n_target_words=40), folder / "work")


def sorted_as_read(folder: Path, pieces: list[str]) -> list[str]:
    pairs = PairCorpus.open(folder / "work" / "pairs")
    return Subwords(pieces).cut(pairs.target).types[len(SPECIALS) :]


def test_a_held_out_part_is_told_by_the_source_sentence(folder):
    lines = [f"{a} {i}\t{b} {i}" for i in range(8) for a, b in sentences()]
    (folder / "train.tsv").write_text("\n".join(lines), "utf8")
    config = replace(read_nmt_config(folder / "toy.cfg", folder), heldout=[])
    short = replace(config, training=replace(config.training, epochs=0.01))
    assert train_nmt(short, folder / "work") is not None
    sides = [PairCorpus.open(folder / "work" / name).source for name in ("pairs", "heldout")]
    texts = [
        {" ".join(side.types[i] for i in side.piece(n)) for n in range(len(side.lengths))}
        for side in sides
    ]
    assert texts[0] and texts[1] and not texts[0] & texts[1]


def test_the_shipped_config(folder):
    """It spells out every setting that can be changed in a file, and takes its steps."""
    path = Path(__file__).parents[2] / "configs" / "train_nmt.cfg"
    block = Config().from_disk(path)["train_nmt"]
    apart = {"text_folder", "training", "logger"}
    assert block.keys() - {"training"} == {f.name for f in fields(NMTRunConfig)} - apart
    (folder / "deu.txt").write_text("\n".join(f"{a}\t{b}" for a, b in sentences() * 9), "utf8")
    config = read_nmt_config(path, folder)
    few = replace(config.training, epochs=0.05, batch_pairs=4)
    config = replace(
        config, train=["deu.txt"], heldout=["dev.tsv"], vectors=str(folder / "vectors"),
        hidden_width=8, training=few,
    )  # fmt: skip
    assert train_nmt(config, folder / "work") is not None


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_model_of_tied_words_is_kept_with_one_vector_each(folder, dtype):
    config = read_nmt_config(folder / "toy.cfg", folder)
    few = replace(config.training, epochs=1)
    config = replace(config, tied=True, target_width=24, dtype=dtype, training=few)
    kept = train_nmt(config, folder / "work")
    assert kept is not None
    assert "embedding.weight" not in load_file(kept / "translator.safetensors")
    model = load_translation_model(kept).translator
    assert model.embedding.weight is model.generator.weight
    assert model.generator.weight.abs().max() > 0


def test_a_translation_model_comes_back_as_it_was(folder):
    assert train(folder).exit_code == 0
    model = load_translation_model(folder / "work" / "model")
    assert model.words[:4] == list(MARKS) and model.settings["lower"] is True
    assert model.translator.config.encoder == MTLSTMConfig(6, 12)


def other_vectors(folder: Path, width: int) -> Path:
    nlp = spacy.blank("en")
    for word in NOUNS:
        nlp.vocab.set_vector(word, np.full(width, len(word), dtype="float32"))
    nlp.to_disk(folder / f"vectors_{width}")
    return folder / f"vectors_{width}"


def test_other_vectors_than_those_of_the_run_are_noticed(folder):
    assert train(folder).exit_code == 0
    result = train(folder, "--vectors", other_vectors(folder, 6))
    assert result.exit_code == 1 and "began with vectors" in printed(result)


def test_vectors_of_another_width_translate_nothing(folder):
    assert train(folder).exit_code == 0
    (folder / "in.txt").write_text("the cat sees the dog .\n", "utf8")
    command = ["translate", folder / "work", folder / "in.txt", "-o", folder / "out.txt"]
    result = run(*command, "--vectors", other_vectors(folder, 4))
    assert result.exit_code == 1 and "width 4" in printed(result)
    assert not list(folder.glob("out.txt*"))


def test_a_model_that_tells_capitals_apart_is_opened_as_one(folder):
    config = replace(read_nmt_config(folder / "toy.cfg", folder), lower=False)
    short = replace(config, training=replace(config.training, epochs=0.1))
    assert train_nmt(short, folder / "work") is not None
    component = first_encoder(open_pipeline(str(folder / "work" / "model")))
    assert shim_of(component.model).inputs.lower is False


def test_damaged_files_of_a_translation_model(folder):
    assert train(folder).exit_code == 0
    model = folder / "work" / "model"
    for name in ("target.txt", "translator.json", "translator.safetensors", "vectors.safetensors"):
        whole = (model / name).read_bytes()
        for damaged in (b"", b"\xff" * 9, whole[: len(whole) // 2]):
            (model / name).write_bytes(damaged)
            with pytest.raises(CtxvecError, match=name.split(".")[0]):
                load_translation_model(model)
        (model / name).write_bytes(whole)
    assert load_translation_model(model).words


BAD = {
    "wrong dtype": ("target_width = 8", 'dtype = "fp16"', "dtype"),
    "one column": ("target_width = 8", "columns = [0]", "columns"),
    "a file, not a list": ('train = ["train.tsv"]', 'train = "train.tsv"', "be a list"),
    "no vectors": ('vectors = "', 'vectors = "/nowhere', "static vectors"),
    "uneven files": ('train = ["train.tsv"]', 'train = [["en.txt", "de.txt"]]', "lines"),
    "no text": ('train = ["train.tsv"]', 'train = ["absent.tsv"]', "absent.tsv"),
    "three files": ('train = ["train.tsv"]', 'train = [["a", "b", "c"]]', "names no parallel text"),
    "unknown setting": ("hidden_width", "hidden_breadth", "hidden_breadth"),
    "wrong schedule": ("batch_pairs = 4", 'schedule = "steep"', "schedule"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told_and_leaves_nothing(folder, what):
    (folder / "en.txt").write_text("a b\nc d\n", "utf8")
    (folder / "de.txt").write_text("x y\n", "utf8")
    old, new, message = BAD[what]
    config = folder / "toy.cfg"
    config.write_text(config.read_text("utf8").replace(old, new), "utf8")
    result = train(folder)
    assert result.exit_code == 1 and message in printed(result), result.output
    assert not list((folder / "work").glob("pairs*")) if (folder / "work").exists() else True


def test_other_text_than_that_of_the_run_is_noticed(folder):
    assert train(folder).exit_code == 0
    with (folder / "train.tsv").open("a", encoding="utf8") as file:
        file.write("\nmore\tmehr")
    result = train(folder)
    assert result.exit_code == 1 and "train.tsv" in printed(result)


def test_a_folder_without_a_translation_model(folder, tmp_path):
    result = run("translate", tmp_path, "-")
    assert result.exit_code == 1 and "translator.json" in printed(result)


def test_several_processes_are_refused(pairs):
    trainer = make_trainer(pairs)
    with pytest.raises(CtxvecError, match="one process"):
        NMTTrainer(trainer.model, pairs, trainer.reader.vectors, TRAINING, Workers(0, 2))


def test_vectors_of_the_words_of_a_corpus():
    table = table_of(["a", "b", "c"])
    found = vectors_of_types(table, ["<S>", "</S>", "<UNK>", "c", "zebra", "a"])
    assert len(found.keys) == 2 and found.vectors.dtype == np.float16
    np.testing.assert_allclose(word_vectors(found, ["a"]), word_vectors(table, ["a"]), rtol=1e-3)
