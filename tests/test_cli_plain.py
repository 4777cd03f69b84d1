"""What a terminal shows: names of models as text, none of which it obeys, and help of one style."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from app.cli.display import PlainConsole
from app.cli.main import cli, run


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command, hidden ones too."""
    yield path
    for name, sub in getattr(command, "commands", {}).items():
        yield from commands(sub, (*path, name))


@pytest.mark.parametrize("command", list(commands(typer.main.get_command(cli))), ids=" ".join)
def test_help_names_what_an_option_takes_in_capitals_and_no_types(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert not re.search(r"<[a-z ]+>", shown)
    assert re.search(r"--help +-h {3,}Show this message and exit\.", shown)


def test_escapes_and_marks_of_direction_are_shown_instead_of_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    PlainConsole(width=200).print("a\x1b[31mred\u202eturned\x07", "one\ntwo", markup=False)
    shown = capsys.readouterr().out
    assert not {"\x1b", "\u202e", "\x07"} & set(shown)
    assert "red" in shown
    assert "one\ntwo" in shown


def test_errors_repeat_a_name_without_its_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compile", "no\x1b[2Jmodel\u202e"]) == 2
    said = capsys.readouterr().err
    assert "model" in said
    assert not {"\x1b", "\u202e"} & set(said)
