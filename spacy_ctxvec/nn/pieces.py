"""The tokenizer of a transformer, kept among its weights: words to ids of pieces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .. import errors
from .vocabulary import WithVocabulary

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

    def ids(self, words: Sequence[str]) -> list[list[int]]:
        """1 to `MAX_PIECES` ids of each word; those of a word with more are the first ones."""
        found = self._encoded([[word] for word in words])
        return [ids[:MAX_PIECES] or [self._unknown] for ids in found]

    def _index(self, text: str) -> None:
        description = json.loads(text)
        description |= {"padding": None, "truncation": None}
        for step in _steps(description.get("pre_tokenizer")):
            if "add_prefix_space" in step:  # every word is one, not the rest of the one before
                step["add_prefix_space"] = True
        library = _library()
        self._tokenizer = library.Tokenizer.from_str(json.dumps(description))
        (bare,), (framed,) = (self._encoded([["a"]], marks=marks) for marks in (False, True))
        start = next(i for i in range(len(framed)) if framed[i : i + len(bare)] == bare)
        self.before, self.after = framed[:start], framed[start + len(bare) :]
        unknown = description["model"].get("unk_token")
        self._unknown = self._tokenizer.token_to_id(unknown or "") or 0

    def _encoded(self, texts: list[list[str]], *, marks: bool = False) -> list[list[int]]:
        found = self._tokenizer.encode_batch(texts, is_pretokenized=True, add_special_tokens=marks)
        return [encoding.ids for encoding in found]


def _steps(pre_tokenizer: dict[str, Any] | None) -> list[dict[str, Any]]:
    """A step of a tokenizer, or those that it is a sequence of."""
    if pre_tokenizer is None:
        return []
    return pre_tokenizer.get("pretokenizers", [pre_tokenizer])


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise errors.CtxvecError(errors.NO_TRANSFORMERS.format(error=error)) from error
    return tokenizers
