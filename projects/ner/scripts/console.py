"""Run a script so that a fault the user can mend ends in its message, not in a traceback."""

from __future__ import annotations

from collections.abc import Callable

import typer
from wasabi import msg

from spacy_ctxvec.errors import CtxvecError


def run_script(main: Callable[..., None]) -> None:
    """Parse the command line for `main` and run it."""
    try:
        typer.run(main)
    except CtxvecError as error:
        msg.fail(str(error), exits=1)
