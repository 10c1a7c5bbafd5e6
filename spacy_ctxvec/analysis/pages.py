"""A self-contained HTML page about one text: it loads nothing and needs no server.

The frame, with its style and its few lines of script, is `assets/page.html.template`; here its
fields are filled. Whatever comes from the text is escaped on its way in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from spacy import displacy
from spacy.tokens import Doc, Span, Token

from ..assets import FOLDER
from ..types import FloatArray
from .neighbours import Neighbour, SameWord, WordVectors
from .overview import Nearest, Overview, in_context, parsed_sentences

N_CLICKED = 6
CONTEXT_WIDTH = 70
ANNOTATED = "What the pipeline makes of it"
DRAWING = {
    "compact": True, "distance": 110, "bg": "transparent", "color": "currentColor",
    "fine_grained": True,
}  # fmt: skip
"""Of parses, by displaCy."""


def write_page(overview: Overview, machine: dict[str, Any], path: Path) -> None:
    path.write_text(render(overview, machine), encoding="utf8")


def render(overview: Overview, machine: dict[str, Any]) -> str:
    """The page. machine: what `facts.machine_facts` tells."""
    words = overview.words
    template = Template((FOLDER / "page.html.template").read_text(encoding="utf8"))
    first = overview.same_words[0].rows[0] if overview.same_words else -1
    return template.substitute(
        source=escape(overview.source),
        tiles=_tiles(overview),
        same_words="\n".join(_same_word(words, word) for word in overview.same_words)
        or '<p class="card">No word of this text occurs twice.</p>',
        annotated=_annotated(overview.annotated),
        text="\n".join(_paragraphs(overview.docs, words)),
        nearest="\n".join(_nearest_cards(words, overview.nearest)),
        facts=_table({**_model_rows(overview.facts), **machine}),
        neighbours=_neighbours(words),
        first=first,
    )


def _tiles(overview: Overview) -> str:
    speed = overview.speed
    threads = "1 thread" if speed.threads == 1 else f"{speed.threads} threads"
    tiles = {
        f"words read, in {len(overview.docs)} paragraphs": f"{len(overview.words):,}",
        f"words a second, on {threads}": f"{speed.words_per_second:,.0f}",
        "parameters of the model": f"{overview.facts['n_parameters'] / 1e6:.1f} million",
    }
    return "".join(f"<div><b>{number}</b>{what}</div>" for what, number in tiles.items())


def _same_word(words: WordVectors, word: SameWord) -> str:
    """A card: the sentences with the word marked, and the heat-coloured table beside them."""
    sentences = "".join(
        f"<li>{_number(i, word)}<span>{_in_sentence(words.tokens[row])}</span></li>"
        for i, row in enumerate(word.rows)
    )
    return (
        f'<section class="card"><h3>{escape(word.text)}</h3><div class="same">'
        f"<ol>{sentences}</ol>{_heat_table(word)}</div></section>"
    )


def _number(place: int, word: SameWord) -> str:
    group = "no" if place < word.n_first else "no two"
    return f'<span class="{group}">{place + 1}</span>'


def _heat_table(word: SameWord) -> str:
    numbers = [f"<th>{_number(i, word)}</th>" for i in range(len(word.rows))]
    heat = _heat(word.similarities)
    lines = [f"<tr><th></th>{''.join(numbers)}</tr>"]
    for i, number in enumerate(numbers):
        cells = [
            '<td class="self">·</td>' if i == j else _heat_cell(word.similarities[i, j], heat[i, j])
            for j in range(len(numbers))
        ]
        lines.append(f"<tr>{number}{''.join(cells)}</tr>")
    return f'<table class="heat">{"".join(lines)}</table>'


def _heat_cell(similarity: float, heat: float) -> str:
    return f'<td data-heat style="--heat:{heat:.0f}">{similarity:.2f}</td>'


def _heat(similarities: FloatArray) -> FloatArray:
    """0 for the lowest similarity of a table (n, n) to 100 for the highest beside its diagonal."""
    others = similarities[~np.eye(len(similarities), dtype=bool)]
    low, high = float(others.min()), float(others.max())
    return 100 * (similarities - low) / max(high - low, 1e-6)


def _in_sentence(token: Token) -> str:
    """The token's sentence, with the token marked."""
    sentence: Span = token.sent
    before = token.doc[sentence.start : token.i].text_with_ws
    after = token.whitespace_ + token.doc[token.i + 1 : sentence.end].text
    return f"{escape(before)}<mark>{escape(token.text)}</mark>{escape(after)}"


def _annotated(docs: Sequence[Doc]) -> str:
    """What the pipeline finds in the beginning of the text, drawn by spaCy; nothing where it
    finds nothing."""
    named = [doc for doc in docs if doc.ents]
    sentences = parsed_sentences(docs)
    if not named and not sentences:
        return ""
    parts = [f"<h2>{ANNOTATED}</h2>"]
    if named:
        parts.append(
            f'<div class="card">{displacy.render(named, style="ent", jupyter=False)}</div>'
        )
    for sentence in sentences:
        drawn = displacy.render(sentence, style="dep", options=DRAWING, jupyter=False)
        parts.append(f'<div class="card parse">{drawn}</div>')
    return "\n".join(parts)


def _paragraphs(docs: Sequence[Doc], words: WordVectors) -> Iterable[str]:
    """The text; each word that has a row in `words` can be clicked, in the order of the rows."""
    clickable = {(id(token.doc), token.i) for token in words.tokens}
    for doc in docs:
        sentences = []
        for sentence in doc.sents:
            parts = [
                (
                    f'<span class="w">{escape(token.text)}</span>'
                    if (id(doc), token.i) in clickable
                    else escape(token.text)
                )
                + token.whitespace_
                for token in sentence
            ]
            sentences.append(f'<span class="s">{"".join(parts)}</span>')
        yield f"<p>{''.join(sentences)}</p>"


def _nearest_cards(words: WordVectors, nearest: Sequence[Nearest]) -> Iterable[str]:
    """Two cards side by side: the words that are compared come in pairs."""
    cards = [_nearest_card(words, one) for one in nearest]
    for start in range(0, len(cards), 2):
        yield f'<div class="pair">{"".join(cards[start : start + 2])}</div>'


def _nearest_card(words: WordVectors, nearest: Nearest) -> str:
    items = "".join(_neighbour_item(words, found, nearest) for found in nearest.neighbours)
    sentence = _in_sentence(words.tokens[nearest.row])
    return f'<section class="card near">{sentence}<ul>{items}</ul></section>'


def _neighbour_item(words: WordVectors, found: Neighbour, nearest: Nearest) -> str:
    before, token, after = in_context(words.tokens[found.row], CONTEXT_WIDTH)
    coldest = nearest.neighbours[-1].similarity - 0.1
    heat = 100 * (found.similarity - coldest) / max(1 - coldest, 1e-6)
    return (
        f'<li><span class="sim" data-heat style="--heat:{heat:.0f}">{found.similarity:.2f}</span>'
        f"<span>{escape(before)}<mark>{escape(token)}</mark>{escape(after)}</span></li>"
    )


def _neighbours(words: WordVectors) -> str:
    """For each row, pairs of a nearby row and its similarity; numbers alone, so safe in a page."""
    found = words.nearest(range(len(words)), N_CLICKED)
    pairs = [[[one.row, round(one.similarity, 3)] for one in nearest] for nearest in found]
    return json.dumps(pairs, separators=(",", ":"))


def _model_rows(facts: dict[str, Any]) -> dict[str, Any]:
    """The model's facts, one level deep and in words."""
    rows = {key: value for key, value in facts.items() if not isinstance(value, dict)}
    rows = {key: f"{v:,}" if isinstance(v, int) else v for key, v in rows.items()}
    nested = {key: value for key, value in facts.items() if isinstance(value, dict)}
    for key, values in nested.items():
        rows[key] = ", ".join(f"{name} {value}" for name, value in values.items())
    return rows


def _table(rows: dict[str, Any]) -> str:
    named = {name.removeprefix("n_").replace("_", " "): str(value) for name, value in rows.items()}
    return "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in named.items()
    )
