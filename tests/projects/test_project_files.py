"""Every project.yml: valid, and what its commands name is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from loading import PROJECTS
from weasel.util import load_project_config

FOLDERS = sorted(path.parent for path in PROJECTS.glob("*/project.yml"))


@pytest.mark.parametrize("project", FOLDERS, ids=lambda path: path.name)
def test_commands_of_projects(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable has a value, and scripts and configs are there."""
    monkeypatch.setenv("CTXVEC_DATA", "DATA")
    config = load_project_config(project)
    scripts = [line for command in config["commands"] for line in command["script"]]
    assert scripts and not any("${" in line for line in scripts)
    for line in scripts:
        for word in line.split():
            if word.startswith("..") or word.endswith(".py") or word.startswith("configs/"):
                assert (project / word).is_file(), word
