"""The database opens, is made and migrated in one go, and says in one sentence why when it cannot be used."""

from __future__ import annotations

import ast
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from profiles_samples import offload_schedule, profile_of
from read_only import run_beside_read_only

import db.database
from db.database import HEAD, DatabaseError, check_schema, open_database
from db.models import Base
from db.queries import list_runs
from db.recordings import RunDescription, record_profile


def test_a_new_file_has_exactly_the_tables_of_the_models(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    with database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []


def test_head_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", "db:migrations")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_connections_use_wal_and_foreign_keys(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    with database.read() as connection:
        pragmas = {n: connection.exec_driver_sql(f"PRAGMA {n}").scalar() for n in ("journal_mode", "synchronous")}
        assert pragmas == {"journal_mode": "wal", "synchronous": 1}
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == db.database.BUSY_TIMEOUT_MS


def test_opening_again_changes_nothing_and_needs_no_alembic(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_database(path).close()
    before = path.read_bytes()
    code = (
        "import sys; from db.database import open_database; open_database(sys.argv[1]).close(); "
        "sys.exit('alembic' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=Path(__file__).parent.parent)
    assert path.read_bytes() == before


def test_several_openers_at_once_make_one_schema(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def make() -> None:
        try:
            open_database(tmp_path / "runs.db").close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_text_file_is_not_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("just some notes, longer than an SQLite header would be: " * 20)
    with pytest.raises(DatabaseError, match=r"notes\.txt is not a database"):
        open_database(path)
    assert path.read_text().startswith("just some notes")


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "photos.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE photo (name TEXT)")
    other.commit()
    with pytest.raises(DatabaseError, match="database of another program"):
        open_database(path)
    assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("photo",)]


def test_a_newer_schema_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_database(path).close()
    newer = sqlite3.connect(path)
    newer.execute("UPDATE alembic_version SET version_num = '0099'")
    newer.commit()
    with pytest.raises(DatabaseError, match=f"newer HyperOffload .schema 0099, this program knows up to {HEAD}."):
        open_database(path)


def test_a_schema_that_changes_under_an_open_database_is_noticed(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    check_schema(database)
    other = sqlite3.connect(database.path)
    other.execute("UPDATE alembic_version SET version_num = '0001'")
    other.commit()
    with pytest.raises(DatabaseError, match=f"no longer of schema {HEAD} .it has 0001.; restart"):
        check_schema(database)
    other.execute("ALTER TABLE run DROP COLUMN archived")
    other.commit()
    with pytest.raises(DatabaseError, match=f"no longer of schema {HEAD}; restart"):
        list_runs(database)


def test_a_missing_file_is_made_only_where_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"there is no database at .*; `hyperoffload demo`"):
        open_database(tmp_path / "runs.db", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_a_database(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="is a folder"):
        open_database(tmp_path)


@pytest.mark.parametrize("path", ["/proc/runs.db", "/proc/made/runs.db"])
def test_an_unwritable_folder_is_named(path: str) -> None:
    with pytest.raises(DatabaseError, match=r"/proc"):
        open_database(path)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DatabaseError, match=r"there is no folder .*file for a database"):
        open_database(tmp_path / "file" / "runs.db")


def test_no_folder_is_made_for_a_database(tmp_path: Path) -> None:
    """A path that was not meant is noticed."""
    with pytest.raises(DatabaseError, match=r"there is no folder .*experimnets for a database; make it, or"):
        open_database(tmp_path / "experimnets" / "runs.db")
    assert list(tmp_path.iterdir()) == []


def test_a_locked_database_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db.database, "BUSY_TIMEOUT_MS", 50)
    database = open_database(tmp_path / "runs.db")
    holder = sqlite3.connect(database.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseError, match="is locked by another process"), database.write():
        pass


def test_a_full_disk_says_so_and_keeps_what_was_there(tmp_path: Path) -> None:
    database = open_database(tmp_path / "runs.db")
    profile = profile_of(offload_schedule(), steps=2000)
    description = RunDescription("predicted", profile.schedule, "tiny")
    with database.engine.connect() as connection:
        # SQLite gives the same error for its own page limit as for a full disk; the limit belongs to the connection.
        connection.exec_driver_sql("PRAGMA max_page_count = 60")
    with pytest.raises(DatabaseError, match=r"the disk that holds .* is full"):
        record_profile(database, description, profile)
    with open_database(database.path).read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM run").scalar() == 0
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


READ_ONLY = """
import sys
from db.database import DatabaseError, check_schema, compact, open_database
from db.queries import list_runs
from db.reading import run_query
from db.curation import tag_runs
database = open_database(sys.argv[1])
check_schema(database)
rows = run_query(database.path, "SELECT 1 FROM run").rows
print(database.read_only, [run.model for run in list_runs(database)], rows)
for change in (lambda: tag_runs(database, [1], ["x"]), lambda: compact(database)):
    try:
        change()
    except DatabaseError as error:
        print(error)
"""


def test_a_database_on_a_read_only_file_system_is_opened_for_reading(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    path = folder / "runs.db"
    database = open_database(path)
    profile = profile_of(offload_schedule())
    record_profile(database, RunDescription("predicted", profile.schedule, "tiny"), profile)
    refused = f"{path} cannot be written here, so nothing can be saved; copy it to a folder of your own"
    # While another process has it open its log lies beside it; once that has closed it there is the file alone.
    for _ in range(2):
        said = run_beside_read_only(folder, READ_ONLY, str(path)).splitlines()
        assert said[0] == "True ['tiny'] [(1,)]"
        assert [line.startswith(refused) for line in said[1:]] == [True, True]
        database.close()
    assert [file.name for file in folder.iterdir()] == ["runs.db"]


@pytest.mark.parametrize("left", [("-wal",), ("-wal", "-shm")], ids=["log", "log-and-index"])
def test_what_a_log_on_a_read_only_file_system_holds_is_read(tmp_path: Path, left: tuple[str, ...]) -> None:
    """A process that ended in the middle leaves its log behind; a copy may bring it along without its index."""
    path, shelf = tmp_path / "runs.db", tmp_path / "shelf"
    open_database(path).close()
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("PRAGMA wal_autocheckpoint = 0")
    writer.execute("INSERT INTO saved_query (name, sql, plot, created) VALUES ('late', '', '{}', '2026-01-01')")
    shelf.mkdir()
    for ending in ("", *left):
        shutil.copy(f"{path}{ending}", shelf)
    writer.close()
    code = (
        "import sys\nfrom pathlib import Path\nfrom db.database import *\nfrom db.reading import run_query\n"
        "with open_database(sys.argv[1]).read() as c: print(c.exec_driver_sql('SELECT name FROM saved_query').all())\n"
        "print(run_query(Path(sys.argv[1]), 'SELECT name FROM saved_query').rows)"
    )
    said = run_beside_read_only(shelf, code, str(shelf / "runs.db")).split("\n")
    assert said[:2] == ["[('late',)]", "[('late',)]"]


def test_an_older_database_that_cannot_be_written_says_that_it_has_to_be(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_database(path).close()
    older = sqlite3.connect(path)
    older.execute("UPDATE alembic_version SET version_num = '0001'")
    older.commit()
    older.close()
    code = "import sys\nfrom db.database import *\ntry: open_database(sys.argv[1])\nexcept DatabaseError as e: print(e)"
    assert "is of an older schema and cannot be written here" in run_beside_read_only(tmp_path, code, str(path))


def test_a_failed_migration_leaves_an_empty_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    def refuse(*_: object, **__: object) -> None:
        raise RuntimeError("power failed")

    monkeypatch.setattr(op, "create_table", refuse)
    with pytest.raises(RuntimeError, match="power failed"):
        open_database(tmp_path / "runs.db")
    monkeypatch.undo()
    open_database(tmp_path / "runs.db")


UPPER = {
    "hyperoffload_core": {"db", "profiles", "app", "sqlalchemy", "alembic", "dash", "plotly"},
    "db": {"profiles", "app", "dash", "plotly", "mindspore"},
    "profiles": {"app", "dash", "mindspore"},
}


@pytest.mark.parametrize("package", UPPER)
def test_dependencies_point_down_only(package: str) -> None:
    root = Path(__file__).parent.parent
    wrong = [
        f"{file.relative_to(root)} imports {name}"
        for file in (root / package).rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        for name in _imported(node)
        if name.partition(".")[0] in UPPER[package] | {"pandas", "pyarrow"}
    ]
    assert wrong == []


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module and not node.level else []


def test_a_database_that_was_removed_or_replaced_while_it_is_open_says_so(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    database = open_database(path)
    check_schema(database)
    path.rename(tmp_path / "elsewhere.db")
    with pytest.raises(DatabaseError, match="is not there any more since"):
        check_schema(database)
    open_database(path).close()
    with pytest.raises(DatabaseError, match="was replaced by another file since"):
        check_schema(database)
    database.close()
