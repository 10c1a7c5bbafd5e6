"""`spacy-ctxvec.Tok2Vec.v1`: an encoder and a mix that belong to one component alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spacy.tokens import Doc
from thinc.api import Model

from ..types import Floats2d
from . import scalar_mix
from .encoder import Encoder, layer_statistics
from .listener import head, run_head
from .scalar_mix import Mix
from .settings import Unsaved


@dataclass
class StandaloneSettings(Unsaved):
    """See `Tok2Vec_v1`."""

    frozen: bool


def Tok2Vec_v1(
    encoder: Encoder, mix: Mix, projection: int | None = None, frozen: bool = False
) -> Model[list[Doc], list[Floats2d]]:
    """An un-shared encoder with a mix; also what `nlp.replace_listeners` puts in place.

    encoder (Model[List[Doc], List[Floats3d]]): For instance `spacy-ctxvec.BiLM.v1`.
    mix (Model[Floats3d, Floats2d]): How the layers become one vector.
    projection (Optional[int]): Width of a maxout layer after the mix, by default none.
    frozen (bool): Never train the encoder; mix and projection still learn.
    RETURNS (Model[List[Doc], List[Floats2d]]): (n_tokens, projection or width) for each doc.
    """
    width = encoder.get_dim("nO")
    return standalone(encoder, head(width, mix, projection), projection or width, frozen)


def standalone(
    encoder: Encoder, head_layers: Sequence[Model[Any, Any]], width: int, frozen: bool
) -> Model[list[Doc], list[Floats2d]]:
    return Model(
        "ctxvec_tok2vec",
        forward,
        init=init,
        dims={"nO": width},
        layers=[encoder, *head_layers],
        attrs={"settings": StandaloneSettings(frozen)},
    )


def forward(
    model: Model[Any, Any], docs: Sequence[Doc], is_train: bool
) -> tuple[list[Floats2d], Callable[[Sequence[Floats2d]], list[Doc]]]:
    """Encoder, then mix; the encoder's half is left out of the backward pass where frozen."""
    if not docs:
        return [], lambda dY: []
    encoder = model.layers[0]
    tuned = is_train and not model.attrs["settings"].frozen
    layers, backprop_encoder = encoder(docs, tuned)
    Y, backprop_head = run_head(model.layers[1:], layers, is_train)

    def backprop(dY: Sequence[Floats2d]) -> list[Doc]:
        d_layers = backprop_head(dY)
        return backprop_encoder(d_layers) if tuned else list(docs)

    return Y, backprop


def init(model: Model[Any, Any], X: Any = None, Y: Any = None) -> Model[Any, Any]:
    encoder, mix, *rest = model.layers
    encoder.initialize(X)
    if not scalar_mix.is_settled(mix):
        scalar_mix.settle(mix, *layer_statistics(encoder, X or ()))
    for layer in rest:
        layer.initialize()
    return model
