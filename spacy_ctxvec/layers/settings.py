"""What a layer is told by its config, and what it is doing now: neither belongs in a saved model.

Thinc saves the attributes of a layer with its weights and puts them back on loading, so that a
setting changed in the config would be changed back by the file.
"""

from __future__ import annotations

from typing import Any

from thinc.model import deserialize_attr, serialize_attr


class Unsaved:
    """Base of attributes that keep the value they were constructed with when weights are loaded."""


@serialize_attr.register(Unsaved)
def _serialize(_: Any, value: Unsaved, name: str, model: Any) -> bytes:
    return b""


@deserialize_attr.register(Unsaved)
def _deserialize(_: Any, value: bytes, name: str, model: Any) -> Unsaved:
    return model.attrs[name]
