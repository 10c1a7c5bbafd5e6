"""Evaluation sets as running text, whatever their format: what is read here is only compared.

So labels and identifiers may stay where they do no harm (between the rows of a table), and must
go where they part words of running text: in column files, in trees, in markup.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from .. import errors
from .archives import open_bytes, uncompressed_name
from .lines import Problems
from .sources import read_documents

COLUMN_ENDINGS = frozenset({".conll", ".conllu", ".conllx", ".iob", ".iob2", ".bio", ".col"})
NUMBER = re.compile(r"[\d.,:-]+")
TAG = re.compile(r"<[^<>]*>")
LEAF = re.compile(r"\(\S+ ([^()\s]+)\)")
MOST = 0.9
SAMPLE = 1000


def evaluation_text(path: Path) -> str:
    """All the text of an evaluation file, in its order.

    Known are column files (CoNLL, CoNLL-U), JSON and JSON lines (all strings), XML and HTML
    (without tags), bracketed trees (the leaves), DocBin, and everything else as it is, tables
    included: their separators part words as white space does.
    """
    ending = Path(uncompressed_name(path)).suffix
    if ending == ".spacy":
        documents = read_documents(path, Problems())
        return "\n".join(" ".join(words) for document in documents for words in document)
    with open_bytes(path) as file:
        text = file.read().decode("utf-8-sig", "replace")
    try:
        if ending in (".json", ".jsonl"):
            records = [text] if ending == ".json" else filter(str.strip, text.split("\n"))
            return "\n".join(chain_strings(map(json.loads, records)))
    except (ValueError, RecursionError) as error:
        raise errors.CtxvecError(errors.BAD_EXCLUDED.format(path=path, error=error)) from error
    if ending in (".xml", ".html", ".htm"):
        return html.unescape(TAG.sub(" ", text))
    lines = text.splitlines()
    if ending in COLUMN_ENDINGS or is_columns(lines):
        return column_text(lines)
    if is_trees(lines):
        return "\n".join(" ".join(LEAF.findall(line)) for line in lines)
    return text


def chain_strings(values: Any) -> Iterator[str]:
    """All strings within nested JSON values, keys left out."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from chain_strings(value.values())
        elif isinstance(value, list):
            yield from chain_strings(value)


def is_trees(lines: Sequence[str]) -> bool:
    """Whether the lines are bracketed trees, one a line."""
    sample = [line.strip() for line in lines[:SAMPLE] if line.strip()]
    trees = [line for line in sample if line.startswith("(") and line.endswith("))")]
    return bool(sample) and len(trees) >= MOST * len(sample)


def is_columns(lines: Sequence[str]) -> bool:
    """Whether the lines are tokens with their labels: fields without spaces, blank lines between.

    All but a few have the same number of fields, two or more.
    """
    sample = [line for line in lines[:SAMPLE] if not is_comment(line)]
    rows = [line.split() for line in sample if line.strip()]
    if len(rows) == len(sample) or not rows:
        return False
    counts = [len(row) for row in rows]
    usual = max(set(counts), key=counts.count)
    spaceless = all(" " not in line.strip() for line in sample if "\t" in line)
    return usual >= 2 and spaceless and counts.count(usual) >= MOST * len(rows)


def is_comment(line: str) -> bool:
    """A hashtag that is a token has labels behind it, parted by a tab."""
    return line.startswith(("# ", "#begin", "#end")) and "\t" not in line


def column_text(lines: Sequence[str]) -> str:
    """The words of a column file, joined over all its sentences as in running text.

    The column of words is the first that is neither numbers nor the same for a whole sentence,
    as the names of documents and sentences are.
    """
    rows = [(line.split("\t") if "\t" in line else line.split()) for line in _tokens(lines)]
    words = word_column(rows[:SAMPLE])
    return " ".join(row[words] for row in rows if len(row) > words)


def _tokens(lines: Sequence[str]) -> Iterator[str]:
    return (line for line in lines if line.strip() and not is_comment(line))


def word_column(rows: Sequence[Sequence[str]]) -> int:
    width = max(map(len, rows), default=0)
    for i in range(width):
        column = [row[i] for row in rows if len(row) > i]
        numbers = sum(NUMBER.fullmatch(cell) is not None for cell in column)
        runs = sum(1 for _ in groupby(column))
        if numbers < MOST * len(column) and runs > len(column) / 2:
            return i
    return 0
