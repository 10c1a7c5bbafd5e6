"""The log of a run that was stopped, killed or begun anew, and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.training.curve import draw_curve, read_log


def record(step: int, **values: Any) -> dict[str, Any]:
    found = {"forward": 900.0 / step, "backward": 800.0 / step, "learn_rate": 0.001}
    return {"step": step, "tokens": 100 * step, **found, **values}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(f"{json.dumps(one)}\n" for one in records), "utf8")
    return path


@pytest.mark.parametrize(
    ("steps", "kept"),
    [
        ([1, 2, 3], [0, 1, 2]),
        ([1, 2, 3, 2, 3, 4], [0, 3, 4, 5]),  # killed after step 3, resumed after step 1
        ([10, 20, 30, 10], [3]),  # begun anew, and not yet as far
        ([10, 20, 30, 15], [0, 3]),  # resumed with more frequent evaluations
    ],
)
def test_later_records_replace_those_of_the_same_and_later_steps(tmp_path, steps, kept):
    log = write(tmp_path / "log.jsonl", *(record(s, line=i) for i, s in enumerate(steps)))
    assert [one["line"] for one in read_log(log)] == kept


@pytest.mark.parametrize("rest", ['{"time":"2026-01', "\n\n", "[]\n", '{"step": 3}\n', "\x00\n"])
def test_lines_that_are_no_records_are_passed_over(tmp_path, rest):
    log = write(tmp_path / "log.jsonl", record(1), record(2))
    with log.open("ab") as file:
        file.write(rest.encode() + b"\xc3")
    assert [one["step"] for one in read_log(log)] == [1, 2]


def test_no_log_no_records_no_picture(tmp_path):
    assert read_log(tmp_path / "log.jsonl") == []
    draw_curve(tmp_path / "log.jsonl", tmp_path / "curve.png")
    assert not (tmp_path / "curve.png").exists()


def test_the_picture_shows_both_directions_and_the_rate(tmp_path):
    log = write(tmp_path / "log.jsonl", *map(record, (1, 2, 3, 2, 3)), record(4, backward=None))
    draw_curve(log, tmp_path / "curve.svg")
    draw_curve(log, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    comments = (tmp_path / "curve.svg").read_text("utf8")
    for text in ("forward, last 225.0", "backward, last 266.7", "held-out perplexity", "tokens"):
        assert f"<!-- {text} -->" in comments


def test_one_direction_alone(tmp_path):
    log = write(tmp_path / "log.jsonl", record(1, backward=None), record(2, backward=None))
    draw_curve(log, tmp_path / "curve.svg")
    picture = (tmp_path / "curve.svg").read_text("utf8")
    assert "forward, last" in picture and "backward" not in picture


def test_without_matplotlib_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    log = write(tmp_path / "log.jsonl", record(1))
    with pytest.raises(CtxvecError, match=r"pip install 'spacy-ctxvec\[plot\]'"):
        draw_curve(log, tmp_path / "curve.png")
