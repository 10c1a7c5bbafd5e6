"""What a command printed, apart from where its lines were broken."""

from __future__ import annotations

from click.testing import Result


def printed(result: Result) -> str:
    """All that was printed, with single spaces: lines break where paths happen to be long."""
    return " ".join(result.output.split())
