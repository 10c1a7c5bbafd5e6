"""The dictionaries of ELMoForManyLangs: text, a token, a tab and its row in each line.

Its program strips a line before it splits it, so the entry of a white-space character is left
with one field. It takes every such line for the ideographic space, and the last one counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ... import errors

IDEOGRAPHIC_SPACE = "\u3000"


def read_dictionary(path: Path) -> dict[str, int]:
    """The row of each token."""
    try:
        text = path.read_bytes().decode("utf8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.malformed_model(path, "content", "UTF-8 text", error) from error
    return parsed(text, path)


def parsed(text: str, path: Path) -> dict[str, int]:
    rows: dict[str, int] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        fields = line.strip().split("\t")
        token = IDEOGRAPHIC_SPACE if len(fields) == 1 else fields[0]
        try:
            row = int(fields[-1])
        except ValueError:
            row = -1
        if len(fields) > 2 or row < 0:
            raise errors.malformed_model(path, f"line {number}", "a token, a tab, a row", line)
        rows[token] = row
    return rows


def written(tokens: Sequence[str], path: Path) -> bytes:
    """The dictionary of tokens in the order of their rows; CtxvecError where some of them would be
    read as others."""
    text = "".join(f"{token}\t{row}\n" for row, token in enumerate(tokens))
    found = parsed(text, path) if "\n" not in "".join(tokens) else {}
    lost = [token for row, token in enumerate(tokens) if found.get(token) != row]
    if lost:
        reason = f"its dictionaries cannot hold {lost[0]!r}"
        raise errors.CtxvecError(errors.NOT_EFML.format(path=path.parent, reason=reason))
    return text.encode("utf8")
