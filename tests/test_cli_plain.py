"""Names of models reach a terminal as text: nothing in them is obeyed by it."""

from __future__ import annotations

import pytest

from app.cli.display import PlainConsole
from app.cli.main import run


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
