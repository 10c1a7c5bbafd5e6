"""Contextual word vectors for spaCy.

spaCy imports every installed plugin at start-up, so this module imports nothing that works.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "attach"]

if TYPE_CHECKING:
    from .pipe.docdata import attach


def __getattr__(name: str) -> Any:
    if name == "attach":
        from .pipe.docdata import attach

        return attach
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
