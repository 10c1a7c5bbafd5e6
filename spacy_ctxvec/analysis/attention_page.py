"""A self-contained page of translations and what each of their words was made looking at."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ..assets import FOLDER
from ..formats.native import replace_file

if TYPE_CHECKING:
    from ..training.translating import Translation

TEMPLATE = "attention.html.template"


def write_attention_page(found: Sequence[Translation], path: Path) -> None:
    """One table a sentence: source words across, translation down, darker is more attention."""
    template = Template((FOLDER / TEMPLATE).read_text("utf8"))
    tables = "\n".join(map(_table, found)) or "<p>No sentence was translated.</p>"
    replace_file(path, template.substitute(n=len(found), tables=tables).encode("utf8"))


def _table(translation: Translation) -> str:
    head = "".join(f"<th><span>{escape(word)}</span></th>" for word in translation.source)
    rows = "".join(
        f"<tr><th>{escape(word)}</th>{''.join(map(_cell, weights))}</tr>"
        for word, weights in zip(translation.words, translation.attention.tolist())
    )
    caption = escape(" ".join(translation.source))
    made = escape(" ".join(translation.words)) or "(empty)"
    return (
        f"<section><h2>{caption}</h2><p>{made}</p>"
        f"<table><thead><tr><td></td>{head}</tr></thead><tbody>{rows}</tbody></table></section>"
    )


def _cell(weight: float) -> str:
    return f'<td style="--w:{weight:.3f}" title="{weight:.1%}"></td>'
