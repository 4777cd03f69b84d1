"""`hyperoffload experiments`: what the page of experiments shows, as text and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from dashboard_example import example_profile, example_schedule

from app.cli.main import run as command
from app.experiments import Table, read_cells, read_sections
from db.database import Database, open_database
from db.recordings import RunDescription, record_profile

Answered = Callable[..., tuple[int, str]]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Runs 1 and 2 are of one graph with two strategies, run 3 is of another."""
    opened = open_database(tmp_path / "runs.db")
    for layers, strategy in ((8, "reactive"), (8, "none"), (4, "reactive")):
        schedule = example_schedule(layers, 12_000_000)
        schedule = replace(schedule, strategy=strategy, policy={**schedule.policy, "strategy": strategy})
        record_profile(opened, RunDescription("predicted", schedule, "=mine"), example_profile(schedule))
    return opened


@pytest.fixture
def say(database: Database, capsys: pytest.CaptureFixture[str]) -> Answered:
    def said(*arguments: str) -> tuple[int, str]:
        code = command(["experiments", *arguments, "--database", str(database.path)])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return said


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_all_experiments_are_listed(say: Answered) -> None:
    names = [row["name"] for row in rows_of(say("--csv")[1])]
    assert names == ["runs", "limits", *(section.name for section in read_sections())]
    assert all(section.title in say()[1] for section in read_sections())


def test_runs_of_one_graph_are_rows_and_others_are_not(say: Answered) -> None:
    rows = rows_of(say("runs", "--csv")[1])
    assert [(row["run"], row["strategy"], row["model"]) for row in rows] == [
        ("2", "none", "'=mine"),
        ("1", "reactive", "'=mine"),
    ]
    assert all(int(row["step_ns"]) > 0 and int(row["limit_bytes"]) > 0 for row in rows)
    shown = say("runs", "--graph", rows[0]["graph"])[1]
    assert [line.split()[2] for line in shown.splitlines()] == ["run", "2", "1"]


def test_a_database_without_such_runs_says_what_would_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_database(tmp_path / "empty.db").close()
    assert command(["experiments", "runs", "--database", str(tmp_path / "empty.db")]) == 0
    assert "no graph has runs to set against each other" in capsys.readouterr().out


def test_the_limits_are_those_of_the_workload_and_hardware_asked_for(say: Answered) -> None:
    first = read_cells()[0]
    own = [c for c in read_cells() if (c.workload, c.hardware) == (first.workload, first.hardware)]
    asked = ("limits", "--workload", first.workload, "--hardware", first.hardware)
    rows = rows_of(say(*asked, "--csv")[1])
    assert [(r["limit"], r["strategy"], int(r["step_ns"])) for r in rows] == [
        (c.limit, c.strategy, c.step_ns) for c in own
    ]
    assert len(say(*asked)[1].splitlines()) == len(own) + 1


def test_a_section_is_printed_and_its_tables_are_csv(say: Answered) -> None:
    for section in read_sections():
        code, shown = say(section.name)
        assert (code, section.origin in shown) == (0, True)
        tables = [b for _, blocks in section.blocks for b in blocks if isinstance(b, Table)]
        if not tables:
            assert say(section.name, "--csv") == (2, f"hyperoffload: {section.name} has no table\n")
            continue
        read = list(csv.reader(io.StringIO(say(section.name, "--csv")[1])))
        assert [tuple(row) for row in read if row] == [row for t in tables for row in (t.heads, *t.rows)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nothing"], "no experiment is called 'nothing'; they are runs, limits, "),
        (["limits", "--workload", "mine"], "there is no workload 'mine' among the experiments; "),
        (["runs", "--graph", "x"], "no graph with runs to set against each other is called 'x'; there are "),
        (["runs", "--hardware", "h200"], "--workload and --hardware choose from `experiments limits`"),
        (["--graph", "x"], "--graph chooses from `experiments runs`"),
    ],
)
def test_what_is_not_there_is_one_sentence(say: Answered, arguments: list[str], says: str) -> None:
    code, text = say(*arguments)
    assert (code, text.count("\n")) == (2, 1)
    assert says in text
