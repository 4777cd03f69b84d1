"""`hyperoffload sql`: tables, CSV, JSON, saved queries, and one sentence for what cannot be asked."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from profiles_samples import keep_schedule, offload_schedule, profile_of

from app.cli.main import run as command
from app.querying import answer_csv, answer_json, ask, run_meant
from db.database import Database, DatabaseError, open_database
from db.reading import Answer, QueryError
from db.recordings import RunDescription, record_profile

Answered = Callable[..., tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Run 1 moves something, run 2 keeps everything."""
    opened = open_database(tmp_path / "runs.db")
    for schedule in (offload_schedule(), keep_schedule()):
        profile = profile_of(schedule, "measured")
        record_profile(opened, RunDescription("measured", profile.schedule, "=tiny"), profile)
    return opened


@pytest.fixture
def say(database: Database, capsys: pytest.CaptureFixture[str]) -> Answered:
    def said(*arguments: str) -> tuple[int, str]:
        code = command(["sql", *arguments, "--database", str(database.path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return said


def test_a_table_says_when_it_is_cut(say: Answered) -> None:
    code, text = say("SELECT id, strategy FROM run ORDER BY id", "--rows", "1")
    assert code == 0
    assert "hyperoffload" in text and "none" not in text
    assert "Only the first 1 rows are shown" in text


def test_files_hold_every_row(say: Answered) -> None:
    query = "SELECT id, model, NULL AS empty FROM run ORDER BY id"
    rows = list(csv.reader(io.StringIO(say(query, "--csv")[1])))
    assert rows == [["id", "model", "empty"], ["1", "'=tiny", ""], ["2", "'=tiny", ""]]
    assert json.loads(say(query, "--json")[1]) == {
        "columns": ["id", "model", "empty"],
        "rows": [[1, "=tiny", None], [2, "=tiny", None]],
    }


def test_a_saved_query_is_run_for_a_run(say: Answered) -> None:
    assert "act" in say("--saved", "bytes moved BY class", "--run", "1")[1]
    say("SELECT :run AS chosen", "--save", "which one")
    assert "yours" in say("--list")[1]
    assert json.loads(say("--saved", "which one", "--json", "--run", "2")[1])["rows"] == [[2]]


def test_an_own_query_is_deleted_and_a_built_in_one_stays(say: Answered) -> None:
    say("SELECT 1", "--save", "mine")
    assert say("--delete", "MINE") == (0, "deleted the saved query 'MINE'\n")
    listed = say("--list")[1]
    assert "mine" not in listed and "Slowest ops of a run" in listed
    assert say("--delete", "slowest ops of a run")[1] == (
        "hyperoffload: 'Slowest ops of a run' is built in and stays\n"
    )


def test_the_schema_is_explained(say: Answered) -> None:
    assert "One stay of a storage on the device" in say("--schema")[1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "write a query, or name a saved one"),
        (["SELECT 1", "--saved", "x"], "write a query, or name a saved one"),
        (["--saved", "x"], "there is no saved query 'x'; saved are 'Slowest ops of a run'"),
        (["--delete", "x"], "there is no saved query 'x'"),
        (["SELECT 1", "--delete", "x"], "--delete goes without a query"),
        (["SELECT 1", "--csv", "--json"], "do not go together"),
        (["DROP TABLE run"], "DROP is refused: a query here only reads"),
        (["SELECT x FROM run"], "no such column: x (line 1, column 8)"),
        (["SELECT :run", "--run", "9"], "there is no run 9"),
        (["SELECT :x"], "wants a value for :x"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(say: Answered, arguments: list[str], says: str) -> None:
    code, text = say(*arguments)
    assert (code, text.count("\n")) == (2, 1)
    assert says in text


def test_without_a_name_the_newest_run_that_moves_something_is_meant(database: Database, tmp_path: Path) -> None:
    assert run_meant(database) == 1
    assert run_meant(database, "latest") == 2
    with pytest.raises(DatabaseError, match="holds no run with a step yet"):
        run_meant(open_database(tmp_path / "empty.db"))
    with pytest.raises(QueryError, match=":walk"):
        ask(database, "SELECT :walk")


def test_numbers_that_json_does_not_know_are_texts() -> None:
    assert json.loads(answer_json(Answer(("x", "y"), [(float("inf"), 0.5)], 0)))["rows"] == [["inf", 0.5]]


def test_bytes_are_named_and_formulas_are_harmless() -> None:
    answer = Answer(("=a", "b"), [("@x", b"\0\1"), ("-1", -1.5), ("two\nlines", 3)], 0, "cut")
    assert answer_csv(answer) == "'=a,b\n'@x,<2 bytes>\n'-1,-1.5\n\"two\nlines\",3\n"
    assert json.loads(answer_json(answer)) == {
        "columns": ["=a", "b"],
        "rows": [["@x", "<2 bytes>"], ["-1", -1.5], ["two\nlines", 3]],
        "cut": "cut",
    }
