"""Whether a corpus was made from the same settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_ctxvec.errors import CtxvecError
from spacy_ctxvec.text.settings import check_settings, settings_of


@pytest.fixture
def text(tmp_path) -> Path:
    for name in ("a.txt", "b.txt", "dev.conll"):
        (tmp_path / name).write_text(name * 2)
    return tmp_path


def test_files_are_told_by_name_and_size(text):
    settings = settings_of(
        [text / "*.txt"], lang="en", max_tokens=64, budget=9, exclude=[text / "dev.conll"]
    )
    assert settings == {
        "lang": "en",
        "unit": "paragraph",
        "max_tokens": 64,
        "budget": 9,
        "files": [["a.txt", 10], ["b.txt", 10]],
        "exclude": [["dev.conll", 18]],
    }
    assert settings_of(["-"], lang="en", max_tokens=64)["files"] == [["-", None]]


def test_the_same_settings_pass(text):
    made = settings_of([text], lang="en", max_tokens=64)
    check_settings(text, {"settings": made}, made)
    without_files = settings_of(None, lang="en", max_tokens=64, exclude=None)
    assert set(without_files) == {"lang", "unit", "max_tokens", "budget"}
    check_settings(text, {"settings": made}, without_files)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"lang": "de"}, "lang was en, and the config says de"),
        ({"unit": "document"}, "unit was paragraph, and"),
        ({"max_tokens": 65}, "max_tokens was 64, and the config says 65"),
        ({"budget": 5}, "budget was None, and the config says 5"),
        ({"paths": ["a.txt"]}, r"files was 2 file\(s\), and the config says 1"),
        ({"exclude": ["b.txt"]}, r"exclude was 0 file\(s\), and the config says 1"),
    ],
)
def test_other_settings_are_told(text, change, message):
    same = {"paths": ["a.txt", "b.txt"], "lang": "en", "max_tokens": 64}
    made, other = (
        settings_of(
            [text / path for path in kwargs.pop("paths")],
            exclude=[text / path for path in kwargs.pop("exclude", [])],
            **kwargs,
        )
        for kwargs in ({**same}, {**same, **change})
    )
    with pytest.raises(CtxvecError, match=message):
        check_settings(text, {"settings": made}, other)


def test_a_file_that_has_changed_is_told(text):
    made = settings_of([text], lang="en", max_tokens=64)
    (text / "b.txt").write_text("longer than before")
    with pytest.raises(CtxvecError, match=r"b\.txt of 10 bytes, and .* b\.txt of 18 bytes"):
        check_settings(text, {"settings": made}, settings_of([text], lang="en", max_tokens=64))


def test_a_corpus_without_settings_is_another_one(text):
    with pytest.raises(CtxvecError, match="lang was None"):
        check_settings(text, {}, settings_of(None, lang="en", max_tokens=64))
