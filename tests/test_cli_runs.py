"""`hyperoffload runs` and its subcommands, in this process, over a database of three runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from profiles_samples import keep_schedule, profile_of

from app.cli.main import run as command
from db.database import open_database
from db.queries import get_run
from db.recordings import RunDescription, record_profile

Answer = Callable[..., tuple[int, str]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    database = open_database(tmp_path / "runs.db")
    profile = profile_of(keep_schedule())
    for label in ("first", "[red]second[/nothing]\x1b[2J", ""):
        record_profile(database, RunDescription("predicted", profile.schedule, "tiny", label=label), profile)
    database.close()
    return database.path


@pytest.fixture
def ask(path: Path, capsys: pytest.CaptureFixture[str]) -> Answer:
    """The exit code of ``hyperoffload runs ...`` and all that it printed."""

    def asked(*arguments: str) -> tuple[int, str]:
        code = command(["runs", *arguments, "--database", str(path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return asked


def listed(ask: Answer, *arguments: str) -> list[int]:
    return [row["id"] for row in json.loads(ask("--json", *arguments)[1])]


def test_runs_are_tagged_named_and_noted(ask: Answer, path: Path) -> None:
    assert ask("tag", "1", "3", "--add", "paper", "--add", "july") == (0, "runs 1, 3 tagged\n")
    assert ask("tag", "3", "--remove", "july") == (0, "run 3 tagged\n")
    assert ask("name", "3", "the best") == (0, "run 3 named\n")
    assert ask("note", "3", "--text", "shown to the team")[0] == 0
    run = get_run(open_database(path), 3)
    assert (run.tags, run.label, run.note) == (("paper",), "the best", "shown to the team")
    assert listed(ask, "--find", "tag:paper -tag:july") == [3]
    assert "paper, july" in ask()[1]


def test_runs_are_archived_deleted_and_restored(ask: Answer) -> None:
    ask("archive", "1")
    assert (listed(ask), listed(ask, "--archived")) == ([3, 2], [1])
    ask("archive", "1", "--undo")
    assert "`hyperoffload runs restore` undoes it" in ask("delete", "1", "2")[1]
    assert (listed(ask), listed(ask, "--deleted")) == ([3], [2, 1])
    ask("restore", "1")
    assert listed(ask) == [3, 1]
    assert ask("purge", "--all") == (0, "run 2 removed for good\n")
    assert ask("purge", "--all") == (0, "no run is deleted\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tag", "1"], "name a tag: --add TAG or --remove TAG"),
        (["tag", "9", "--add", "x"], "there is no run 9"),
        (["purge"], "name the runs to remove for good, or say --all"),
        (["purge", "1"], "run 1 is not deleted"),
        (["--find", "speed>3"], "'speed' is no field of a run"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(ask: Answer, arguments: list[str], says: str) -> None:
    code, text = ask(*arguments)
    assert code == 2
    assert text.startswith("hyperoffload: ")
    assert says in text


def test_names_are_printed_as_text(ask: Answer) -> None:
    _, text = ask()
    assert "[red]second[/nothing]\ufffd[2J" in text


def test_a_list_that_is_cut_says_so(ask: Answer) -> None:
    assert "1 of 3 runs; --last 3 shows all of them" in ask("--last", "1")[1]
    assert "holds no run that matches 'nowhere'" in ask("--find", "nowhere")[1]
    assert "holds no archived run" in ask("--archived")[1]
