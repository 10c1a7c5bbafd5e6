"""The tokenizer of a transformer, kept among its weights: words to ids of pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from .. import errors
from ..types import IntArray
from .vocabulary import WithVocabulary

UNKNOWN = ("<unk>", "[UNK]")
MAX_PIECES = 32  # of a word: what is longer than that is no word, and would push others out


class Pieces(WithVocabulary):
    """Words -> ids of the pieces that the model knows, by a tokenizer of the library tokenizers.

    The vocabulary is its JSON.

    before, after: ids of the marks that go around a text
    """

    def __init__(self) -> None:
        super().__init__()
        self.before: list[int] = []
        self.after: list[int] = []
        self._tokenizer: Any = None
        self._unknown = 0
        self._marks: set[int] = set()
        self._prefix = ""

    def ids(self, words: Sequence[str]) -> list[list[int]]:
        """1 to `MAX_PIECES` ids of each word; those of a word with more are the first ones."""
        return [
            [self._unknown if id_ in self._marks else id_ for id_ in ids[:MAX_PIECES]]
            or [self._unknown]
            for ids in self._cut(words)
        ]

    def counts(self, words: Sequence[str]) -> list[int]:
        """How many pieces each word has, whether they are read or not."""
        return [len(ids) for ids in self._cut(words)]

    def table(self, words: Sequence[str]) -> IntArray:
        """The same as one array (n_words, n_pieces), filled up with -1."""
        found = self.ids(words)
        ids = np.full((len(found), max(map(len, found), default=0)), -1, dtype=np.int64)
        for row, pieces in zip(ids, found):
            row[: len(pieces)] = pieces
        return ids

    def _index(self, text: str) -> None:
        if not text:
            return
        description = json.loads(text)
        description |= {"padding": None, "truncation": None}
        self._prefix = _mark_words(description.get("pre_tokenizer"))
        library = _library()
        self._tokenizer = library.Tokenizer.from_str(json.dumps(description))
        (bare,), (framed,) = (self._encoded([["a"]], marks=marks) for marks in (False, True))
        start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
        self.before, self.after = framed[:start], framed[start + len(bare) :]
        added = self._tokenizer.get_added_tokens_decoder()
        self._marks = {id_ for id_, token in added.items() if token.special}
        self._unknown = self._unknown_id(description["model"])

    def _unknown_id(self, model: dict[str, Any]) -> int:
        """Of the unknown word; tokenizers of bytes know all and may have none, then any word's."""
        names = (model.get("unk_token"), *UNKNOWN)
        named = [self._tokenizer.token_to_id(name) for name in names if name]
        any_word = next(i for i in count() if i not in self._marks)
        return next(id_ for id_ in (model.get("unk_id"), *named, any_word) if id_ is not None)

    def _cut(self, words: Sequence[str]) -> list[list[int]]:
        """All ids of each word. CtxvecError where no tokenizer has come yet."""
        if self._tokenizer is None:
            raise errors.CtxvecError(errors.NO_PIECES)
        return self._encoded([[self._prefix + word] for word in words])

    def _encoded(self, texts: list[list[str]], *, marks: bool = False) -> list[list[int]]:
        found = self._tokenizer.encode_batch(texts, is_pretokenized=True, add_special_tokens=marks)
        return [encoding.ids for encoding in found]


def _mark_words(pre_tokenizer: dict[str, Any] | None) -> str:
    """Have every word read as one, and not as the rest of the word before, which is what tokenizers
    of running text take a word without a space for. What has to stand before each word, for it."""
    step = pre_tokenizer or {}
    if step.get("type") == "ByteLevel":
        step["add_prefix_space"] = True
    steps = step.get("pretokenizers", [step])
    for one in steps:
        if one.get("type") == "Metaspace":
            one["prepend_scheme"] = "always"
    is_byte_level = any(one.get("type") == "ByteLevel" for one in steps)
    return " " if is_byte_level and step.get("type") == "Sequence" else ""


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_TRANSFORMERS.format(error=error)) from error
    return tokenizers
