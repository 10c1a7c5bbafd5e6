"""What a run tells: its log, its progress, and loggers of spaCy."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import spacy
from spacy.util import registry

from spacy_ctxvec.cli.pretrain import shown
from spacy_ctxvec.cli.progress import Bars
from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.nn.bilm import BiLMConfig
from spacy_ctxvec.training import reporting
from spacy_ctxvec.training.curve import read_log
from spacy_ctxvec.training.lm_config import LMTrainingConfig
from spacy_ctxvec.training.perplexity import mean_perplexity
from spacy_ctxvec.training.position import Position
from spacy_ctxvec.training.pretrain import PretrainConfig, pretrain
from spacy_ctxvec.training.reporting import (
    Ticker,
    append_record,
    logger_info,
    resolve_logger,
)
from spacy_ctxvec.training.running import Progress
from spacy_ctxvec.training.tensorboard import TensorBoard_v1, scalars

TENSORBOARD = "spacy-ctxvec.TensorBoard.v1"
CONSOLE = {"@loggers": "spacy.ConsoleLogger.v3"}
TRAINING = LMTrainingConfig(
    tokens=800, batch_tokens=64, n_samples=10, evaluate_every=4, learn_rate=0.01
)
RECORD = {
    "step": 20, "tokens": 1280, "done": 0.5, "seconds": 3.7, "sampled_loss": 4.2,
    "learn_rate": 0.002, "tokens_per_second": 400, "forward": 100.0, "backward": 400.0,
    "forward_marks": 2.0, "backward_marks": 3.0, "n_tokens": 90, "unknown_rate": 0.01,
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path, tiny_config: BiLMConfig) -> PretrainConfig:
    lines = [f"the cat number {i % 7} sat on mat {i % 5}" for i in range(60)]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf8")
    (tmp_path / "b.txt").write_text("\n".join(f"so {line}" for line in lines[:5]), "utf8")
    return PretrainConfig(
        name="toy", lang="en", text_folder=tmp_path, train=["a.txt"], heldout=["b.txt"],
        licence="CC0", sources=[], n_words=20, softmax_width=4, model=tiny_config,
        training=TRAINING,
    )  # fmt: skip


def with_logger(config: PretrainConfig, **logger: Any) -> PretrainConfig:
    return replace(config, logger=logger)


class Recorder:
    """A logger that keeps what it gets."""

    def __init__(self, *, fails: bool = False):
        self.infos: list[Any] = []
        self.nlp: Any = None
        self.n_finalized = 0
        self.fails = fails

    def __call__(self, nlp: Any, stdout: Any, stderr: Any):
        self.nlp = nlp
        return self.log_step, self.finalize

    def log_step(self, info: Any) -> None:
        self.infos.append(info)
        if info and self.fails:
            raise RuntimeError("the tracker is gone")

    def finalize(self) -> None:
        self.n_finalized += 1


@pytest.fixture
def recorder(request: pytest.FixtureRequest):
    found = Recorder(fails=getattr(request, "param", False))
    registry.loggers.register("test.Recorder.v1", func=lambda: found)
    return found


def test_a_logger_gets_every_step_and_every_evaluation(config, recorder, tmp_path):
    assert pretrain(with_logger(config, **{"@loggers": "test.Recorder.v1"}), tmp_path / "work")
    log = read_log(tmp_path / "work" / "log.jsonl")
    evaluations = [info for info in recorder.infos if info]
    assert [info["step"] for info in evaluations] == [one["step"] for one in log]
    assert recorder.infos[:4] == [None, None, None, evaluations[0]]
    assert len(evaluations[-1]["checkpoints"]) == len(log) and recorder.n_finalized == 1
    settings = recorder.nlp.config
    assert settings["training"]["eval_frequency"] == 4
    assert settings["training"]["max_steps"] == math.ceil(800 / 64)
    assert settings["training"]["learn_rate"] == 0.01 and settings["pretrain"]["n_words"] == 20
    assert settings["components"]["ctxvec"]["model"]["width"] == config.model.width


def test_a_resumed_run_tells_of_its_past(config, recorder, tmp_path):
    begun = replace(config, training=replace(TRAINING, tokens=400))
    assert pretrain(begun, tmp_path / "work")
    n_before = len(read_log(tmp_path / "work" / "log.jsonl"))
    assert pretrain(with_logger(config, **{"@loggers": "test.Recorder.v1"}), tmp_path / "work")
    first = next(info for info in recorder.infos if info)
    assert n_before and len(first["checkpoints"]) == n_before + 1


@pytest.mark.parametrize("recorder", [True], indirect=True)
def test_an_error_still_ends_the_logger_and_draws_the_curve(config, recorder, tmp_path):
    with pytest.raises(RuntimeError, match="tracker is gone"):
        pretrain(with_logger(config, **{"@loggers": "test.Recorder.v1"}), tmp_path / "work")
    assert recorder.n_finalized == 1 and (tmp_path / "work" / "curve.png").exists()


def test_what_a_logger_is_told(make):
    trainer = make()
    trainer.position = Position(epoch=2)
    info = logger_info([{**RECORD, "step": 10, "forward": 900.0}, RECORD], trainer)
    assert (info["epoch"], info["step"], info["words"], info["seconds"]) == (2, 20, 1280, 3)
    assert info["losses"] == {"ctxvec": 4.2}
    assert info["score"] == pytest.approx(-200)
    assert [step for _, step in info["checkpoints"]] == [10, 20]
    assert max(info["checkpoints"])[0] == info["score"]
    assert info["other_scores"]["perplexity/forward"] == 100
    assert info["other_scores"]["speed"] == 400


def test_a_direction_that_there_is_not(make):
    one = {**RECORD, "backward": None, "backward_marks": None}
    info = logger_info([one], make())
    assert info["score"] == pytest.approx(-100)
    assert "perplexity/backward" not in info["other_scores"]
    assert mean_perplexity({"forward": None, "backward": None}) == math.inf


def test_the_console_of_spacy(config, tmp_path, capsys):
    pretrain(with_logger(config, **CONSOLE), tmp_path / "work")
    out, err = capsys.readouterr()
    assert out == "" and "LOSS CTXVEC" in err and "SPEED" in err
    row = next(line.split() for line in err.splitlines() if line.split()[1:2] == ["4"])
    assert float(row[-1]) < -1


def test_tensorboard(config, tmp_path):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    logger = {"@loggers": TENSORBOARD, "log_dir": str(tmp_path / "tb")}
    pretrain(with_logger(config, **logger), tmp_path / "work")
    found = events.EventAccumulator(str(tmp_path / "tb"))
    found.Reload()
    log = read_log(tmp_path / "work" / "log.jsonl")
    for tag, name in {"perplexity/forward": "forward", "learn_rate": "learn_rate"}.items():
        assert [e.step for e in found.Scalars(tag)] == [one["tokens"] for one in log]
        assert [e.value for e in found.Scalars(tag)] == pytest.approx([r[name] for r in log])
    assert {"loss/ctxvec", "score", "speed"} <= set(found.Tags()["scalars"])


def test_tensorboard_by_steps_and_after_a_kill(tmp_path, make):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for steps in ((1, 2, 3), (2, 3, 4)):
        setup = TensorBoard_v1(tmp_path / "tb", per="step")
        log_step, finalize = setup(spacy.blank("en"), sys.stdout, sys.stderr)
        for step in steps:
            log_step(logger_info([{**RECORD, "step": step, "forward": steps[0] * 10.0}], make()))
        log_step(None)
        finalize()
    found = events.EventAccumulator(str(tmp_path / "tb"))
    found.Reload()
    values = [(e.step, e.value) for e in found.Scalars("perplexity/forward")]
    assert values == [(1, 10), (2, 20), (3, 20), (4, 20)]


def test_numbers_of_a_pipeline_that_spacy_trains():
    of_types = {"ents_per_type": {"GPE": {"f": 0.5}}, "ents_f": 0.25, "speed": None}
    info = {"score": 0.25, "losses": {"ner": 3.0}, "other_scores": of_types}
    assert dict(scalars(info)) == {
        "score": 0.25, "loss/ner": 3.0, "ents_f": 0.25, "ents_per_type/GPE/f": 0.5,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"@loggers": "no.Such.v1"}, "no.Such.v1"),
        ({"@loggers": "spacy.ConsoleLogger.v3", "no_such": 1}, "no_such"),
        ({"log_dir": "x"}, "no @loggers"),
        ({"@loggers": TENSORBOARD, "log_dir": "x", "per": "hour"}, 'per = "hour"'),
    ],
)
def test_mistakes_are_named_before_anything_is_done(config, tmp_path, block, message):
    with pytest.raises(CtxvecError, match=message):
        pretrain(with_logger(config, **block), tmp_path / "work")
    assert not (tmp_path / "work").exists()


def test_without_tensorboard_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(CtxvecError, match=r"pip install 'spacy-ctxvec\[tensorboard\]'"):
        resolve_logger({"@loggers": TENSORBOARD, "log_dir": "x"})


def test_a_curve_beside_the_log_and_the_card(config, tmp_path):
    model = pretrain(config, tmp_path / "work")
    assert model and (model / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "work" / "curve.png").read_bytes() == (model / "curve.png").read_bytes()


def test_without_matplotlib_there_is_a_line_of_advice(config, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    lines: list[str] = []
    model = pretrain(config, tmp_path / "work", Progress(advice=lines.append))
    assert model and not (model / "curve.png").exists()
    assert len(lines) == 1 and "spacy-ctxvec[plot]" in lines[0]


def test_a_record_never_goes_onto_a_line_that_a_kill_cut_off(tmp_path):
    path = tmp_path / "log.jsonl"
    append_record(path, {"step": 1, "tokens": 10})
    with path.open("ab") as file:
        file.write(b'{"step": 2, "tok')
    append_record(path, {"step": 3, "tokens": 30})
    append_record(path, {"step": 4, "tokens": 40})
    assert [one["step"] for one in read_log(path)] == [1, 3, 4]
    assert len(path.read_text("utf8").splitlines()) == 4
    assert json.loads(path.read_text("utf8").splitlines()[-1]) == {"step": 4, "tokens": 40}


def test_ticks_about_once_a_second_with_the_speed_of_the_last_seconds(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(reporting, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    trainer: Any = SimpleNamespace(tokens=5000, done=0.5, measures=("forward", "backward"))
    told: list[dict[str, Any]] = []
    tick = Ticker(trainer, told.append, {"forward": 9.0})

    def run(seconds: int, speed: int) -> None:
        for _ in range(4 * seconds):
            clock[0] += 0.25
            trainer.tokens += speed // 4
            tick()

    run(5, speed=400)
    assert len(told) == 5 and told[-1] == {
        "tokens": 7000, "done": 0.5, "tokens_per_second": 400, "forward": 9.0, "backward": None,
    }  # fmt: skip
    run(10, speed=800)
    assert told[-1]["tokens_per_second"] == 800
    clock[0] += 60  # of an evaluation
    tick.restart({"forward": 8.0, "backward": 7.0})
    run(1, speed=800)
    assert told[-1]["tokens_per_second"] == 800 and told[-1]["backward"] == 7.0


def test_the_bar_after_a_resumption(config, capsys):
    bars = shown(config, json=False)
    assert isinstance(bars, Bars)
    clock = [100.0]
    bars.bar.get_time = lambda: clock[0]
    record = {**RECORD, "forward": None, "backward": None}
    with bars as progress:
        for done in (0.5, 0.51, 0.52):
            progress.tick({**record, "done": done})
            clock[0] += 1
        progress.tick({**RECORD, "done": 0.53})
        task = bars.bar.tasks[0]
        # What was done before the start is no speed: 0.01 a second from there on.
        assert task.time_remaining == pytest.approx(47, abs=1)
        assert task.fields["note"] == "0.00M tokens, 400/s, held-out 100 forward 400 backward"
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("perplexities of different vocabularies do not compare") == 1
    assert "the training loss is sampled and does not compare" in out


def test_nothing_is_said_of_sampling_where_there_is_none(config, capsys):
    full = replace(config, training=replace(TRAINING, softmax="full"))
    with shown(full, json=False) as progress:
        progress.training(RECORD)
    assert "sampled" not in capsys.readouterr().out
