"""Runs are tagged, noted, archived, deleted and brought back; only a purge removes them; old schemas are migrated."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from profiles_samples import keep_schedule, offload_schedule, profile_of
from sqlalchemy import create_engine

from db.curation import (
    KEPT_AFTER_DELETION,
    archive_runs,
    delete_runs,
    deleted_runs,
    name_run,
    note_runs,
    purge_expired,
    purge_runs,
    restore_runs,
    tag_runs,
)
from db.database import APPLICATION_ID, HEAD, Database, DatabaseError, open_database
from db.models import utc_now
from db.queries import count_runs, find_run, get_run, list_runs
from db.recordings import RunDescription, record_profile, start_run
from db.run_filter import FIELDS, RunFilter, SearchError

HOSTILE = "<b onclick=alert(1)>\u202etxt.exe\x07'; DROP TABLE run; --"


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Run 1 keeps, measured; 2 offloads, predicted; 3 the same, measured."""
    opened = open_database(tmp_path / "runs.db")
    for kind, schedule in (
        ("measured", keep_schedule()),
        ("predicted", offload_schedule()),
        ("measured", offload_schedule()),
    ):
        profile = profile_of(schedule, kind)  # type: ignore[arg-type]
        record_profile(opened, RunDescription(kind, profile.schedule, "llama tiny"), profile)  # type: ignore[arg-type]
    return opened


def ids(database: Database, **where: object) -> list[int]:
    return [run.id for run in list_runs(database, RunFilter(**where))]  # type: ignore[arg-type]


def rows(database: Database, table: str) -> int:
    with database.read() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


def test_tags_are_added_and_taken_away_one_by_one(database: Database) -> None:
    tag_runs(database, [1, 2], add=["paper", " paper ", HOSTILE])
    tag_runs(database, [2], add=["best"], remove=["paper"])
    assert get_run(database, 1).tags == ("paper", HOSTILE)
    assert get_run(database, 2).tags == (HOSTILE, "best")
    assert ids(database, tag=HOSTILE) == [2, 1]


@pytest.mark.parametrize("tag", ["", "  ", "x" * 61])
def test_a_tag_that_is_none_is_refused(database: Database, tag: str) -> None:
    with pytest.raises(DatabaseError, match="tag"):
        tag_runs(database, [1], add=[tag])


def test_names_and_notes_keep_what_was_written(database: Database) -> None:
    name_run(database, 1, f" {HOSTILE} ")
    note_runs(database, [1, 3], "two\nlines " + HOSTILE)
    assert get_run(database, 1).label == HOSTILE
    assert get_run(database, 3).note == "two\nlines " + HOSTILE
    note_runs(database, [3], "")
    assert get_run(database, 3).note == ""


def test_a_change_of_several_runs_is_all_or_nothing(database: Database) -> None:
    with pytest.raises(DatabaseError, match="there is no run 9"):
        archive_runs(database, [1, 9])
    with pytest.raises(DatabaseError, match=f"there is no run {2**70}"):
        archive_runs(database, [2**70])
    assert ids(database, archived=False) == [3, 2, 1]


def test_archived_runs_are_left_out_only_where_that_is_asked(database: Database) -> None:
    archive_runs(database, [2])
    assert ids(database, archived=False) == [3, 1]
    assert ids(database, archived=True) == [2]
    assert ids(database) == [3, 2, 1]
    archive_runs(database, [2], False)
    assert ids(database, archived=False) == [3, 2, 1]


def test_a_deleted_run_comes_back_as_it_was(database: Database) -> None:
    tag_runs(database, [3], add=["paper"])
    before = get_run(database, 3)
    assert delete_runs(database, [3]) == [3]
    assert delete_runs(database, [3, 2]) == [2]
    assert (ids(database), ids(database, deleted=True), deleted_runs(database)) == ([1], [3, 2], [2, 3])
    assert find_run(database, "latest").id == 1
    with pytest.raises(DatabaseError, match="run 3 was deleted; `hyperoffload runs restore 3`"):
        find_run(database, "3")
    restore_runs(database, [3, 1])
    assert ids(database) == [3, 1]
    assert get_run(database, 3) == before


def test_a_running_run_is_not_deleted(database: Database) -> None:
    running = start_run(database, RunDescription("measured", keep_schedule(), "tiny"))
    with pytest.raises(DatabaseError, match="still being recorded"):
        delete_runs(database, [1, running])
    assert 1 in ids(database)


def test_a_purge_removes_only_deleted_runs_and_what_no_other_run_uses(database: Database) -> None:
    with pytest.raises(DatabaseError, match="run 2 is not deleted"):
        purge_runs(database, [2])
    delete_runs(database, [1, 2])
    purge_runs(database, [1, 2])
    assert [rows(database, t) for t in ("run", "schedule", "graph")] == [1, 1, 1]
    delete_runs(database, [3])
    purge_runs(database, [3])
    tables = ("run", "schedule", "graph", "graph_op", "op_event", "transfer_event", "storage_lifetime", "run_step")
    assert [rows(database, table) for table in tables] == [0] * len(tables)


def test_what_was_deleted_long_ago_is_removed(database: Database) -> None:
    delete_runs(database, [1])
    assert purge_expired(database) == []
    assert purge_expired(database, utc_now() + KEPT_AFTER_DELETION + timedelta(minutes=1)) == [1]
    assert rows(database, "run") == 2


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("", [3, 2, 1]),
        ("tiny LLAMA", [3, 2, 1]),
        ("offload -predicted", [3]),
        ("strategy:hyper", [3, 2]),
        ("strategy=none", [1]),
        ("-strategy=none kind:pred", [2]),
        ('"llama tiny" kind=measured', [3, 1]),
        ("tag:pap", [1]),
        ("tag=pap", []),
        ("-tag:paper", [3, 2]),
        ("#2", [2]),
        ("run>=2", [3, 2]),
        ("peak > 1.5KiB", [3, 2, 1]),
        ("peak<1KiB", []),
        ("step=420ns", [3, 2]),
        ("step<=400ns", [1]),
        ("exposed>0.001us", [3, 2]),
        ("age<1h", [3, 2, 1]),
        ("age>1d", []),
        ("when>2020-01-01", [3, 2, 1]),
        ("when:1999", []),
        ("steps=1", [3, 2, 1]),
        ("policy:x", []),
        ("-policy:x", [3, 2, 1]),
        ("%", []),
        (f'"{HOSTILE}"', []),
    ],
)
def test_a_search_finds(database: Database, search: str, found: list[int]) -> None:
    tag_runs(database, [1], add=["paper"])
    assert ids(database, search=search) == found
    assert count_runs(database, RunFilter(search=search)) == len(found)


@pytest.mark.parametrize(
    ("search", "says"),
    [
        ("speed>3", f"'speed' is no field of a run; fields are {FIELDS[0]}"),
        ("step<10", "'10' is no time; write a number with a unit"),
        ("peak>2", "'2' has no unit; write peak>2GiB"),
        ("peak>1.5", "'1.5' has no unit; write peak>1.5GiB"),
        ("llama step<", "'step<' needs a value behind it"),
        ("-Tag:", "'Tag:' needs a value behind it"),
        ("peak<big", "peak: 'big' is not a size"),
        ("run=many", "'many' is no number"),
        ("model<3", "model is a text: write model:3"),
        ("when>soon", "'soon' is no date"),
        ("age>soon", "'soon' is no age"),
        ("step>99999999999999999999s", "is no time"),
    ],
)
def test_a_search_that_means_nothing_says_why(database: Database, search: str, says: str) -> None:
    with pytest.raises(SearchError) as raised:
        ids(database, search=search)
    assert says in str(raised.value)


def test_a_database_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    """Rows and the events that hang on them stay; runs are neither archived nor deleted."""
    path = tmp_path / "old.db"
    config = Config()
    config.set_main_option("script_location", "db:migrations")
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
    engine.dispose()
    # Every column of a new database but those that the first schema lacks.
    new = open_database(tmp_path / "new.db")
    profile = profile_of(offload_schedule(), "measured", steps=3)
    record_profile(new, RunDescription("measured", profile.schedule, "tiny", label="kept"), profile)
    new.close()
    old = sqlite3.connect(path)
    old.execute("ATTACH ? AS new", (str(tmp_path / "new.db"),))
    tables = [name for (name,) in old.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")]
    for table in set(tables) - {"alembic_version"}:
        columns = ", ".join(name for (name,) in old.execute(f"SELECT name FROM pragma_table_info('{table}', 'main')"))
        old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM new.{table}")
    old.commit()
    old.close()

    database = open_database(path)
    (run,) = list_runs(database, RunFilter(archived=False))
    assert (run.label, run.step_count, run.archived, run.deleted) == ("kept", 3, False, None)
    assert (rows(database, "op_event"), rows(database, "transfer_event"), rows(database, "saved_query")) == (12, 6, 0)
    with database.read() as connection:
        assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == HEAD
        assert connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall() == []
