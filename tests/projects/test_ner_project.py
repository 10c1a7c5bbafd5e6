"""The scripts of `projects/ner`, on made-up data: nothing here trains a model."""

from __future__ import annotations

import importlib
import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import DocBin

from spacy_ctxvec.errors import CtxvecError

SCRIPTS = Path(__file__).resolve().parents[2] / "projects" / "ner" / "scripts"
Load = Callable[[str], ModuleType]


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import scripts by name, and forget them afterwards: other projects have scripts too."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    names = {path.stem for path in SCRIPTS.glob("*.py")}
    yield importlib.import_module
    for name in names & set(sys.modules):
        del sys.modules[name]


def sentences(load: Load, lengths: list[int]) -> list[Any]:
    """A corpus with one document per entry, of so many two-word sentences each."""
    make = load("conll").Sentence
    return [make(("a", "b"), (), d) for d, n in enumerate(lengths) for _ in range(n)]


@pytest.mark.parametrize(
    ("tags", "entities"),
    [
        ("O O", []),
        ("B-LOC I-LOC O", [(0, 2, "LOC")]),
        ("B-LOC B-LOC", [(0, 1, "LOC"), (1, 2, "LOC")]),
        ("I-LOC I-LOC I-PER", [(0, 2, "LOC"), (2, 3, "PER")]),
        ("I-LOC O I-LOC", [(0, 1, "LOC"), (2, 3, "LOC")]),
    ],
)
def test_tags_to_entities(load: Load, tags: str, entities: list[tuple[int, int, str]]) -> None:
    assert load("conll").bio_entities(tags.split()) == entities


def test_reads_blank_lines_of_any_kind_and_documents(load: Load, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("-DOCSTART- O\n\nA\tO\nB\tB-LOC\n\t\nC\tO\n\n\n-DOCSTART- O\n\nD O\n")
    read = load("conll").read_conll(path)
    assert [(s.words, s.document) for s in read] == [(("A", "B"), 0), (("C",), 0), (("D",), 1)]
    assert read[0].entities == ((1, 2, "LOC"),)


def test_bad_files_are_named(load: Load, tmp_path: Path) -> None:
    with pytest.raises(CtxvecError, match="found none"):
        load("conll").read_conll(tmp_path / "none.conll")
    (tmp_path / "bad.conll").write_text("word\n")
    with pytest.raises(CtxvecError, match="a word and a tag"):
        load("conll").read_conll(tmp_path / "bad.conll")


def test_folds_never_split_a_document(load: Load) -> None:
    folds = load("folds")
    corpus = sentences(load, [7, 1, 4, 9, 2, 2, 5, 3, 1, 6, 8, 2])
    parts = folds.document_folds(corpus, 3)
    assert sorted(itertools.chain(*parts)) == list(range(12))
    sizes = [sum(s.document in part for s in corpus) for part in parts]
    assert max(sizes) - min(sizes) <= 2
    tested = 0
    for part in parts:
        split = folds.split_fold(corpus, part, 0.2)
        documents = [{s.document for s in side} for side in (split.train, split.dev, split.test)]
        assert all(not a & b for a, b in itertools.combinations(documents, 2))
        assert set.union(*documents) == set(range(12)) and all(documents)
        tested += len(split.test)
    assert tested == len(corpus)
    assert folds.document_folds(corpus, 3) == parts


def test_numbering_checks_its_list(load: Load) -> None:
    number = load("folds").number_documents
    corpus = sentences(load, [5])
    assert [s.document for s in number(corpus, [0, 2, 3])] == [0, 0, 1, 2, 2]
    with pytest.raises(CtxvecError, match="has 5 sentences"):
        number(corpus, [0, 7])
    with pytest.raises(CtxvecError, match="ascend"):
        number(corpus, [1, 2])


def test_documents_of_wikigold(load: Load) -> None:
    starts = srsly.read_json(SCRIPTS.parent / "wikigold_documents.json")
    assert {part: len(found) for part, found in starts.items()} == {
        "train": 116,
        "dev": 14,
        "test": 15,
    }


def test_conversion_round_trip(load: Load, tmp_path: Path) -> None:
    sentence = load("conll").Sentence
    split = load("folds").Split(
        train=[sentence(("In", "New", "York", "."), ((1, 3, "LOC"),), 0)],
        dev=[sentence(("Ann",), ((0, 1, "PER"),), 1)],
        test=[sentence(("x",), (), 2), sentence(("Bo", "Li"), ((0, 2, "PER"),), 2)],
    )
    load("convert").write_split(split, tmp_path)
    docs = list(DocBin().from_disk(tmp_path / "train.spacy").get_docs(spacy.blank("en").vocab))
    assert [doc.text for doc in docs] == ["In New York . "]
    assert [(e.text, e.label_) for e in docs[0].ents] == [("New York", "LOC")]
    assert srsly.read_json(tmp_path / "test_units.json") == [2, 2]


def test_parts_of_wikigold_become_one_corpus(load: Load, tmp_path: Path) -> None:
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.conll").write_text("A O\n\nB O\n\nC O\n")
    srsly.write_json(tmp_path / "starts.json", {"train": [0, 1], "dev": [0], "test": [0, 2]})
    corpus = load("convert").read_wikigold(tmp_path, tmp_path / "starts.json")
    assert [s.document for s in corpus] == [0, 1, 1, 2, 2, 2, 3, 3, 4]


def test_original_wikigold_needs_no_list(load: Load, tmp_path: Path) -> None:
    text = "A I-LOC\n\n-DOCSTART- O\n\nB O\n\n-DOCSTART- O\n\n"
    (tmp_path / "wikigold.conll.txt").write_text(text)
    corpus = load("convert").read_wikigold(tmp_path, tmp_path / "none.json")
    assert [s.document for s in corpus] == [0, 1]


def test_vectors_serve_capitalised_words(load: Load, tmp_path: Path) -> None:
    np.save(tmp_path / "top100k.float16.npy", np.eye(3, dtype="float16"))
    (tmp_path / "top100k.vocab.txt").write_text("the\nlondon\nThe\n")
    load("make_vectors").main(tmp_path, tmp_path / "vectors")
    vocab = spacy.load(tmp_path / "vectors").vocab
    assert [vocab[word].vector.argmax() for word in ("London", "LONDON", "the", "The")] == [
        1,
        1,
        0,
        2,
    ]
    (tmp_path / "top100k.vocab.txt").write_text("the\n")
    with pytest.raises(CtxvecError, match="1 words"):
        load("make_vectors").read_glove(tmp_path)


def test_counts_and_scores(load: Load) -> None:
    scores = load("scores")
    gold = [[[0, 1, "LOC"], [2, 3, "PER"]], [], [[0, 2, "LOC"]]]
    predicted = [[[0, 1, "LOC"], [2, 3, "LOC"]], [[0, 1, "PER"]], [[0, 2, "LOC"]]]
    counts = scores.sentence_counts(gold, predicted)
    assert counts.tolist() == [[1, 2, 2], [0, 1, 0], [1, 1, 1]]
    assert scores.total_f(counts) == pytest.approx(4 / 7)
    locations = scores.sentence_counts(gold, predicted, "LOC")
    assert scores.total_f(locations) == pytest.approx(4 / 5)
    assert scores.unit_counts(counts, [5, 5, 9]).tolist() == [[1, 3, 2], [1, 1, 1]]
    assert scores.total_f(np.zeros((2, 3))) == 0.0
    assert scores.error_reduction(0.6, 0.5) == pytest.approx(0.2)


def test_bootstrap_on_known_numbers(load: Load) -> None:
    bootstrap = load("scores").bootstrap_difference
    same = np.tile([2, 4, 4], (1, 50, 1))
    better = np.tile([3, 4, 4], (1, 50, 1))
    assert bootstrap(same, same) == (0.0, 0.0)
    assert bootstrap(better, same) == pytest.approx((0.25, 0.25))

    rng = np.random.default_rng(0)
    hits = rng.random((1, 400, 1)) < 0.5
    ours = np.concatenate([hits, np.ones_like(hits), np.ones_like(hits)], axis=2).astype("int64")
    theirs = np.tile([0, 1, 1], (1, 400, 1))
    low, high = bootstrap(ours, theirs)
    half = 1.96 * np.sqrt(0.25 / 400)
    centre = hits.mean()
    assert low == pytest.approx(centre - half, abs=0.01)
    assert high == pytest.approx(centre + half, abs=0.01)


@pytest.fixture
def workdir(load: Load, tmp_path: Path) -> Any:
    """A working folder with two folds of WikiGold and one of WNUT-17, all empty."""
    for corpus, fold in (("wikigold", 0), ("wikigold", 1), ("wnut17", 0)):
        (tmp_path / "corpus" / corpus / str(fold)).mkdir(parents=True)
    return load("cells").Workdir(tmp_path)


def fake_result(load: Load, cell: Any, workdir: Any, hits: int = 1) -> dict[str, Any]:
    """A finished cell with two documents and two entities, of which so many were found."""
    gold = [[[0, 1, "LOC"]], [[0, 1, "PER"]]]
    cells = load("cells")
    return {
        "corpus": cell.corpus,
        "fold": cell.fold,
        "system": cell.system,
        "seed": cell.seed,
        "fingerprint": cells.fingerprint(cells.cell_config(cell, workdir, {})),
        "data": cells.data_digest(cells.cell_config(cell, workdir, {})),
        "budget": {"max_steps": 1},
        "train_seconds": 1.0,
        "dev_f": 0.5,
        "gpu_id": -1,
        "units": [2 * cell.fold, 2 * cell.fold + 1],
        "gold": gold,
        "predicted": [*gold[:hits], *[[]] * (2 - hits)],
        "words_per_second": 10,
    }


def test_seed_zero_of_everything_comes_first(load: Load, workdir: Any) -> None:
    cells = load("cells").grid_cells(
        workdir, ["wikigold", "wnut17"], ["hash", "hash_glove"], [0, 1]
    )
    assert len(cells) == 12
    assert [cell.seed for cell in cells] == [0] * 6 + [1] * 6


def test_only_selects_corpora_and_systems(load: Load) -> None:
    selection = load("grid").selection
    assert selection([]) == (["wikigold", "wnut17"], ["hash", "hash_glove", "ctxvec"])
    assert selection(["ctxvec", "wnut17"]) == (["wnut17"], ["ctxvec"])
    with pytest.raises(CtxvecError, match="--only nope"):
        selection(["nope"])


def test_finished_cells_are_skipped_and_failed_ones_done_again(load: Load, workdir: Any) -> None:
    cells_module, grid = load("cells"), load("grid")
    cells = cells_module.grid_cells(workdir, ["wikigold"], ["hash"], [0, 1])
    trained: list[str] = []
    failing = {"wikigold-1-hash-0"}

    def trainer(cell: Any) -> None:
        trained.append(cell.name)
        if cell.name in failing:
            raise CtxvecError("interrupted")
        cells_module.write_atomically(workdir.result(cell), fake_result(load, cell, workdir))

    assert grid.run_grid(cells, workdir, {}, trainer, 1) == [cells[1]]
    assert len(trained) == 4
    trained.clear()
    failing.clear()
    assert grid.run_grid(cells, workdir, {}, trainer, 2) == []
    assert trained == ["wikigold-1-hash-0"]
    trained.clear()
    assert grid.run_grid(cells, workdir, {"max_steps": 9}, trainer, 1) == []
    assert len(trained) == 4, "other settings: nothing that is there counts"


def test_an_interrupt_ends_the_grid(
    load: Load, workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = load("grid")
    cells = load("cells").grid_cells(workdir, ["wikigold"], ["hash"], [0, 1, 2])
    trained = []

    def interrupt(_: Path) -> str:
        raise KeyboardInterrupt

    def trainer(cell: Any) -> None:
        trained.append(cell)
        time.sleep(0.05)

    monkeypatch.setattr(grid, "describe", interrupt)
    with pytest.raises(KeyboardInterrupt):
        grid.run_grid(cells, workdir, {}, trainer, 1)
    assert len(trained) < len(cells)


def test_a_partial_result_is_none(
    load: Load, workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells_module = load("cells")
    cell = cells_module.grid_cells(workdir, ["wnut17"], ["hash"], [0])[0]
    path = workdir.result(cell)

    def killed(source: Path, target: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cells_module.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        cells_module.write_atomically(path, {"fingerprint": "x"})
    assert not cells_module.is_done(path, fingerprint="x")
    monkeypatch.undo()


def test_systems_differ_in_their_tok2vec_alone(load: Load, workdir: Any) -> None:
    cells_module = load("cells")
    configs = []
    for system in cells_module.SYSTEMS:
        cell = cells_module.Cell(seed=1, system=system, corpus="wnut17", fold=0)
        configs.append(cells_module.cell_config(cell, workdir, {"max_steps": 5, "patience": None}))
    for config in configs:
        config["components"]["ner"]["model"].pop("tok2vec")
        for name in ("dropout", "optimizer"):  # chosen on dev, for each system
            config["training"].pop(name)
    first, *others = configs
    for other in others:
        assert other["components"]["ner"] == first["components"]["ner"]
        assert other["training"] == first["training"]
        assert other["corpora"] == first["corpora"]
    assert first["training"]["max_steps"] == 5
    assert first["system"]["seed"] == 1


def test_unknown_settings_are_refused(load: Load, workdir: Any) -> None:
    cells_module = load("cells")
    cell = cells_module.Cell(seed=0, system="hash", corpus="wnut17", fold=0)
    with pytest.raises(CtxvecError, match="no setting maxsteps"):
        cells_module.cell_config(cell, workdir, {"maxsteps": 5})


def test_fingerprint_ignores_folders_and_sees_settings(load: Load, workdir: Any) -> None:
    cells_module = load("cells")
    cell = cells_module.Cell(seed=0, system="hash", corpus="wnut17", fold=0)

    def print_of(root: Path, settings: dict[str, Any]) -> str:
        where = cells_module.Workdir(root)
        return cells_module.fingerprint(cells_module.cell_config(cell, where, settings))

    assert print_of(Path("a"), {}) == print_of(Path("b"), {})
    assert print_of(Path("a"), {"dropout": 0.5}) != print_of(Path("a"), {})


def test_other_examples_or_vectors_make_another_cell(load: Load, workdir: Any) -> None:
    cells = load("cells")
    cell = cells.Cell(seed=0, system="hash_glove", corpus="wnut17", fold=0)
    config = cells.cell_config(cell, workdir, {})
    table = workdir.vectors / "vocab" / "vectors"
    table.parent.mkdir(parents=True, exist_ok=True)
    workdir.corpus(cell).mkdir(parents=True, exist_ok=True)
    seen = {cells.data_digest(config)}
    for file in (
        table,
        *(workdir.corpus(cell) / f"{part}.spacy" for part in ("train", "dev", "test")),
    ):
        file.write_bytes(file.read_bytes() + b"x" if file.exists() else b"x")
        seen.add(cells.data_digest(config))
    assert len(seen) == 5


def test_settings_reach_the_training_process_exactly(
    load: Load, workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dropout of 0.35000000000000003 there would be another fingerprint, and never be done."""
    grid, cells_module = load("grid"), load("cells")
    cell = cells_module.Cell(seed=0, system="hash", corpus="wnut17", fold=0)
    settings = {"dropout": 0.35, "max_steps": None}
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(grid.subprocess, "run", run)
    grid.train_in_process(cell, workdir, settings, -1)
    (command,) = seen
    received: dict[str, Any] = {}
    train_cell = load("train_cell")

    def remember(*arguments: Any) -> dict[str, Any]:
        received.update(arguments[2])
        workdir.training(cell).mkdir(parents=True)
        return {}

    monkeypatch.setattr(train_cell, "run_cell", remember)
    text = command[command.index("--settings") + 1]
    train_cell.main(workdir.root, cell.corpus, cell.fold, cell.system, cell.seed, settings=text)
    assert received == settings
    assert workdir.result(cell).is_file() and not workdir.training(cell).exists()


def test_a_failed_training_names_its_log(
    load: Load, workdir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = load("grid")
    cell = load("cells").Cell(seed=0, system="hash", corpus="wnut17", fold=0)
    failed = subprocess.CompletedProcess([], 3)
    monkeypatch.setattr(grid.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(CtxvecError, match=r"code 3, see .*wnut17-0-hash-0\.log"):
        grid.train_in_process(cell, workdir, {}, -1)


def finish(load: Load, workdir: Any, hits: dict[str, int]) -> None:
    """Write fake results of WikiGold for two seeds."""
    cells_module = load("cells")
    for cell in cells_module.grid_cells(workdir, ["wikigold"], hits, [0, 1]):
        content = fake_result(load, cell, workdir, hits[cell.system])
        cells_module.write_atomically(workdir.result(cell), content)


def test_scores_are_pooled_over_folds(load: Load, workdir: Any, tmp_path: Path) -> None:
    finish(load, workdir, {"hash": 1, "hash_glove": 2})
    output = tmp_path / "results.json"
    load("evaluate").main(workdir.root, seeds=2, output=output)
    report = srsly.read_json(output)
    assert [(s["system"], s["mean"], s["spread"]) for s in report["scores"]] == [
        ("hash", pytest.approx(2 / 3), 0.0),
        ("hash_glove", 1.0, 0.0),
    ]
    assert report["scores"][0]["per_type"] == {"LOC": 1.0, "PER": 0.0}
    (comparison,) = report["comparisons"]
    assert comparison["ours"] == "hash_glove"
    assert comparison["difference"] == pytest.approx(1 / 3)
    assert comparison["error_reduction"] == pytest.approx(1.0)


def test_different_budgets_are_not_compared(load: Load, workdir: Any, tmp_path: Path) -> None:
    finish(load, workdir, {"hash": 1, "hash_glove": 2})
    path = workdir.root / "cells" / "wikigold-0-hash-0.json"
    srsly.write_json(path, {**srsly.read_json(path), "budget": {"max_steps": 2}})
    with pytest.raises(CtxvecError, match="different budgets"):
        load("evaluate").main(workdir.root, seeds=2, output=tmp_path / "results.json")


def test_nothing_to_score(load: Load, workdir: Any, tmp_path: Path) -> None:
    with pytest.raises(CtxvecError, match="Run `train` first"):
        load("evaluate").main(workdir.root, seeds=1, output=tmp_path / "results.json")


def test_report_goes_between_the_markers(load: Load, workdir: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    finish(load, workdir, {"hash": 1, "hash_glove": 2})
    load("evaluate").main(workdir.root, seeds=2, output=tmp_path / "results.json")
    results = load("results")
    readme = tmp_path / "README.md"
    readme.write_text(f"above\n{results.START}\nstale\n{results.END}\nbelow\n")
    results.main(tmp_path)
    results.main(tmp_path)
    text = readme.read_text()
    assert text.startswith("above\n") and text.endswith("\nbelow\n") and "stale" not in text
    assert text.count("| WikiGold | `HashEmbedCNN` + GloVe | 100.0 | 0.0 | 100.0 100.0 |") == 1
    assert "+33.3 |" in text and "100 % |" in text
    assert (tmp_path / "results.png").stat().st_size > 1000
    readme.write_text("no markers")
    with pytest.raises(CtxvecError, match="results:start"):
        results.main(tmp_path)


def test_gpu_check_says_that_it_did_not_run(
    load: Load, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_check = load("gpu_check")
    monkeypatch.setattr(gpu_check, "prefer_gpu", lambda gpu_id: False)
    gpu_check.main(tmp_path)
    assert "DID NOT RUN" in capsys.readouterr().out
    assert gpu_check.disagreements([1, 2, 3], [1, 0, 3]) == [1]
