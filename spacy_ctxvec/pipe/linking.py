"""Finding the listeners of a component, and the mistakes that pipelines make with them."""

from __future__ import annotations

import logging
from typing import Any

from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from thinc.api import Model

from .. import errors
from ..layers.listener import is_listener, settings_of

logger = logging.getLogger("spacy")


def listeners_in(
    component: Any, encoder: str, encoders_between: list[str]
) -> list[Model[Any, Any]]:
    """The listeners in `component` that listen to the encoder component named `encoder`.

    `encoders_between` are other encoder components that stand between the two: a listener with
    upstream "*" could mean any of them, which is an error.
    """
    found = []
    for node in nodes(component):
        if not is_listener(node):
            continue
        upstream = settings_of(node).upstream
        if upstream == "*" and encoders_between:
            names = ", ".join([encoder, *encoders_between])
            raise errors.CtxvecError(
                errors.TWO_UPSTREAMS.format(component=component.name, names=names)
            )
        if upstream in ("*", encoder):
            found.append(node)
    return found


def check_width(listener: Model[Any, Any], component: str, width: int, encoder: str) -> None:
    found = settings_of(listener).width
    if found != width:
        raise errors.CtxvecError(
            errors.LISTENER_WIDTH.format(
                component=component, found=found, expected=width, name=encoder
            )
        )


def uses_tensor(component: Any, encoder: str) -> bool:
    """Whether `component` writes or reads `doc.tensor` as the output of spaCy's own tok2vec."""
    listeners = [node for node in nodes(component) if isinstance(node, Tok2VecListener)]
    for listener in listeners:
        if listener.upstream_name == encoder:
            raise errors.CtxvecError(
                errors.FOREIGN_LISTENER.format(component=component.name, encoder=encoder)
            )
    return bool(listeners) or isinstance(component, Tok2Vec)


def nodes(component: Any) -> list[Any]:
    model = getattr(component, "model", None)
    return list(model.walk()) if isinstance(model, Model) else []
