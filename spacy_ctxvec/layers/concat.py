"""`spacy-ctxvec.Concat.v1`: contextual vectors beside static vectors and hash embeddings."""

from __future__ import annotations

from typing import Any

from spacy.tokens import Doc
from thinc.api import Model, chain, concatenate, ragged2list
from thinc.types import Ragged

from .. import errors
from ..types import Floats2d


def Concat_v1(
    listener: Model[list[Doc], list[Floats2d]] | None = None,
    static: Model[list[Doc], Ragged] | None = None,
    hash: Model[list[Doc], list[Floats2d]] | None = None,
) -> Model[list[Doc], list[Floats2d]]:
    """The vectors of any of three sources, side by side.

    listener (Optional[Model[List[Doc], List[Floats2d]]]): `spacy-ctxvec.Listener.v1`, or any
        other tok2vec.
    static (Optional[Model[List[Doc], Ragged]]): `@layers = "spacy.StaticVectors.v2"`, which needs
        `nO` and `init_W = {"@initializers": "glorot_uniform_init.v1"}` (its default for the latter
        cannot be written into a config).
    hash (Optional[Model[List[Doc], List[Floats2d]]]): `spacy.MultiHashEmbed.v2` or the like.
    RETURNS (Model[List[Doc], List[Floats2d]]): (n_tokens, sum of widths) for each doc.
    """
    sources: dict[str, Model[Any, Any] | None]
    sources = {"listener": listener, "static": static, "hash": hash}
    parts: list[Model[Any, Any]] = []
    widths: list[int] = []
    for name, source in sources.items():
        if source is None:
            continue
        width = output_width(source)
        if width is None:
            raise errors.CtxvecError(errors.CONCAT_WIDTH_UNKNOWN.format(part=name))
        widths.append(width)
        parts.append(chain(source, ragged2list()) if source is static else source)
    if not parts:
        raise errors.CtxvecError(errors.CONCAT_EMPTY)
    if len(parts) == 1:
        return parts[0]
    model = concatenate(*parts)
    model.set_dim("nO", sum(widths))
    return model


def output_width(model: Model[Any, Any]) -> int | None:
    """Width of what a model puts out, from itself or, where it has none, from its last layers."""
    if model.has_dim("nO"):
        return model.get_dim("nO")
    return next(filter(None, map(output_width, reversed(model.layers))), None)
