"""What `nlp.replace_listeners` puts where a listener was: a copy of the encoder with its mix."""

from __future__ import annotations

from typing import Any

from thinc.api import Model

from .. import errors
from ..layers.standalone import standalone

LISTENER = "spacy-ctxvec.Listener.v1"


def replace_listener(encoder: Model[Any, Any], listener: Model[Any, Any], pipe: Any) -> Any:
    """`Tok2Vec.v1` of a copied encoder and the layers that the listener has learned."""
    head = [layer.copy() for layer in listener.layers]
    return standalone(encoder, head, listener.get_dim("nO"), pipe.frozen)


def standalone_config(
    encoder: dict[str, Any], tok2vec: dict[str, Any], *, frozen: bool
) -> dict[str, Any]:
    """The config of that `Tok2Vec.v1`. spaCy passes the whole tok2vec, wherever the listener is."""
    listener = _find_listener(tok2vec)
    if listener is None:
        raise errors.CtxvecError(errors.NO_LISTENER_IN_CONFIG)
    return {
        "@architectures": "spacy-ctxvec.Tok2Vec.v1",
        "encoder": encoder,
        "mix": listener["mix"],
        "projection": listener.get("projection"),
        "frozen": frozen,
    }


def _find_listener(block: Any) -> dict[str, Any] | None:
    if not isinstance(block, dict):
        return None
    if block.get("@architectures") == LISTENER:
        return block
    return next(filter(None, map(_find_listener, block.values())), None)
