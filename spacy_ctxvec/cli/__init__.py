"""`spacy ctxvec COMMAND`, hung into spaCy's own command line through its `spacy_cli` entry point.

`python -m spacy` imports this module whatever the command is, so a command's own module is
imported when the command runs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from spacy.cli._util import app
from typer.core import TyperGroup

COMMANDS = (
    "demo", "info", "data", "pretrain", "adapt", "evaluate-lm", "train-nmt", "translate", "convert",
    "export", "cache", "benchmark", "init-config", "layers", "debug", "probe",
)  # fmt: skip


class LazyGroup(TyperGroup):
    """A command group that knows its commands by name: NAME is `NAME_cli` in module `.NAME`.

    There, `_` stands for `-`. A command with commands of its own is a dictionary of these.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = import_module(f".{name}", __name__)
        found = getattr(module, f"{name}_cli")
        commands, about = {cmd_name: found}, {}
        if isinstance(found, dict):
            commands, about = found, {"help": module.__doc__, "no_args_is_help": True}
        own = typer.Typer(add_completion=False, rich_markup_mode=None, **about)
        for own_name, function in commands.items():
            own.command(own_name)(_speaking_plainly(function))
        return typer.main.get_command(own)


def _speaking_plainly(function: Callable[..., None]) -> Callable[..., None]:
    """Faults that the user can mend end in their message and status 1, not in a traceback."""

    @functools.wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:
        from wasabi import msg

        from ..errors import CtxvecError

        try:
            function(*args, **kwargs)
        except CtxvecError as error:
            msg.fail(str(error), exits=1)

    return command


def register(ctx: typer.Context) -> None:
    """Contextual word vectors: train them, look at them, use them."""


group = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None)
group.callback()(register)
app.add_typer(group, name="ctxvec", help="Contextual word vectors")
