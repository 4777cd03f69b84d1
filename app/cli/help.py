"""One style of help for every command: what an option or an argument takes stands in capitals, a flag takes nothing."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup

NUMBERS = (int, float)


class Command(TyperCommand):
    def get_params(self, ctx: Any) -> list[Any]:
        return [_plain(param) for param in super().get_params(ctx)]


class Group(TyperGroup):
    def get_params(self, ctx: Any) -> list[Any]:
        return [_plain(param) for param in super().get_params(ctx)]


def in_one_style(*apps: typer.Typer) -> None:
    """Have all commands of the applications show their help in it."""
    for app in apps:
        for command in app.registered_commands:
            command.cls = Command


def _plain(param: Any) -> Any:
    """The parameter with a name for its value; typer would show the Python type."""
    if isinstance(param, TyperArgument):
        if param.metavar is None:
            param.metavar = param.name.upper() + ("..." if param.nargs != 1 else "")
        # The name is the value's; nothing is left to say beside it.
        param.display_type_rich = _nothing  # type: ignore[method-assign]
    elif param.metavar is None:
        number = param.type_descriptor.annotation in NUMBERS
        param.metavar = "" if param.is_flag else "N" if number else "TEXT"
    return param


def _nothing(*_: Any, **__: Any) -> str:
    return ""
