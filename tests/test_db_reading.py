"""A person's own SQL reads; whatever it tries, the file stays as it is. Saved queries run and can be saved."""

from __future__ import annotations

import hashlib
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import offload_schedule, profile_of

from db.database import Database, DatabaseError, open_database
from db.meanings import COLUMNS, TABLES
from db.models import Base
from db.reading import QueryError, names_of, run_query
from db.recordings import RunDescription, record_profile
from db.saved_queries import BUILT_IN, delete_query, find_query, list_queries, save_query


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Database:
    """Run 1 measured and run 2 predicted in one session."""
    opened = open_database(tmp_path_factory.mktemp("sql") / "a file?#.db")
    for kind in ("measured", "predicted"):
        profile = profile_of(offload_schedule(), kind)  # type: ignore[arg-type]
        record_profile(opened, RunDescription(kind, profile.schedule, "tiny", session="s"), profile)  # type: ignore[arg-type]
    with opened.write() as connection:
        connection.exec_driver_sql("CREATE TABLE IF NOT EXISTS victim (x)")
        connection.exec_driver_sql("INSERT INTO victim VALUES (1)")
    return opened


def digest(database: Database) -> str:
    """Of all that the database says, whatever its pages look like."""
    with database.engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        return hashlib.sha256("\n".join(raw.iterdump()).encode()).hexdigest()


ATTACKS = [
    "INSERT INTO victim VALUES (2)",
    "UPDATE victim SET x = 3",
    "DELETE FROM victim",
    "REPLACE INTO victim VALUES (2)",
    "DROP TABLE victim",
    "ALTER TABLE victim ADD COLUMN y",
    "CREATE TABLE other (x)",
    "CREATE TEMP TABLE other (x)",
    "CREATE INDEX i ON victim (x)",
    "CREATE VIEW v AS SELECT 1",
    "CREATE TRIGGER t AFTER INSERT ON victim BEGIN DELETE FROM victim; END",
    "CREATE VIRTUAL TABLE f USING fts5(x)",
    "WITH gone AS (SELECT 1) DELETE FROM victim",
    "INSERT INTO victim SELECT x FROM victim RETURNING x",
    "SELECT 1; DELETE FROM victim",
    "SELECT 1;\n--\nDELETE FROM victim;",
    "/* SELECT */ DELETE FROM victim",
    "EXPLAIN SELECT 1; DROP TABLE victim",
    "ATTACH 'FOLDER/made.db' AS made",
    "VACUUM INTO 'FOLDER/made.db'",
    "VACUUM",
    "REINDEX",
    "ANALYZE",
    "BEGIN",
    "BEGIN IMMEDIATE",
    "SAVEPOINT s",
    "COMMIT",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA user_version = 7",
    "PRAGMA application_id = 7",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA table_info = victim; DROP TABLE victim",
    "SELECT load_extension('FOLDER/made.so')",
    "SELECT writefile('FOLDER/made.txt', 'x')",
    "SELECT readfile('/etc/passwd')",
    "SELECT fts3_tokenizer('x', x'00')",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_written(database: Database, attack: str) -> None:
    before, folder = digest(database), database.path.parent
    files = set(folder.iterdir())
    with pytest.raises(QueryError, match=r"refused|one statement|syntax error|no such|only reads"):
        run_query(database.path, attack.replace("FOLDER", str(folder)))
    assert digest(database) == before
    assert {path for path in folder.iterdir() if "made" in path.name} == set()
    assert files <= set(folder.iterdir())


SENTENCES = (
    "SELECT INSERT UPDATE DELETE INTO FROM victim x * , ; ( ) VALUES 1 'a' WITH AS PRAGMA user_version = 7 ATTACH "
    "VACUUM RETURNING SET DROP TABLE CREATE -- /* */ REPLACE OR ON CONFLICT DO UNION ALL BEGIN EXPLAIN"
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from([*SENTENCES.split(), "\n"]), max_size=14))
def test_no_sentence_of_sql_writes(database: Database, words: list[str]) -> None:
    before = digest(database)
    try:
        run_query(database.path, " ".join(words), longest_s=1)
    except QueryError as error:
        assert "\n" not in str(error) or "\n" in words
    assert digest(database) == before


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_an_answer_or_one_sentence(database: Database, text: str) -> None:
    try:
        run_query(database.path, text, longest_s=1)
    except QueryError as error:
        assert str(error)


def test_values_come_as_they_are(database: Database) -> None:
    answer = run_query(
        database.path, "SELECT 1 AS one, 2.5, 'a', x'ff', NULL, CAST(x'61ff' AS TEXT) WHERE :run = 3", {"run": 3}
    )
    assert answer.columns[0] == "one"
    assert answer.rows == [(1, 2.5, "a", b"\xff", None, "a\ufffd")]
    assert answer.cut == ""


def test_a_query_without_end_is_stopped(database: Database) -> None:
    began = time.monotonic()
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with pytest.raises(QueryError, match=r"stopped after 0\.2 s"):
        run_query(database.path, endless, longest_s=0.2)
    assert time.monotonic() - began < 2


def test_a_query_whose_every_step_is_slow_is_stopped_as_well(database: Database) -> None:
    slow = "WITH t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(randomblob(20000000)) FROM t"
    began = time.monotonic()
    with pytest.raises(QueryError, match="stopped after"):
        run_query(database.path, slow, longest_s=0.2)
    assert time.monotonic() - began < 5


def test_too_many_rows_and_too_large_answers_are_cut_and_say_so(database: Database) -> None:
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100) SELECT i FROM n"
    answer = run_query(database.path, many, most_rows=7)
    assert [row[0] for row in answer.rows] == list(range(1, 8))
    assert answer.cut == "Only the first 7 rows are shown; add a LIMIT or a WHERE."
    large = many.replace("SELECT i FROM n", "SELECT zeroblob(30000000) FROM n")
    answer = run_query(database.path, large)
    assert (len(answer.rows), answer.cut[:41]) == (2, "Only the first 2 rows are shown: more wou")
    with pytest.raises(QueryError, match="too big"):
        run_query(database.path, "SELECT randomblob(1000000000)")


@pytest.mark.parametrize(
    ("sql", "says", "place"),
    [
        ("", "write a query first", None),
        (" ;; ", "write a query first", None),
        ("-- nothing", "no result; write a SELECT", None),
        ("SELEC 1", 'near "SELEC": syntax error', (1, 1)),
        ("SELECT id,\n  max(id FROM run", 'near "FROM": syntax error', (2, 10)),
        ("SELECT 'y' AS y, x near y FROM run y z y", 'near "y": syntax error', (1, 25)),
        ("SELECT id FROM\nrunn", "no such table: runn", (2, 1)),
        ("SELECT 'foo', r.foo FROM run r", "no such column: r.foo", (1, 17)),
        ("SELECT afoo, foo FROM (SELECT 1 AS afoo)", "no such column: foo", (1, 14)),
        ("SELECT nofunc(1)", "no such function: nofunc", (1, 8)),
        ("SELECT (1", "incomplete input", (1, 10)),
        ("SELECT :walk", "wants a value for :walk; only :run", None),
        ("SELECT ?", "wants a value for ?", None),
        ("SELECT 1 SELECT 2", 'near "SELECT": syntax error', (1, 10)),
        ("SELECT 1; SELECT 2", "one statement at a time", None),
        ("DELETE FROM run", "DELETE is refused: a query here only reads", None),
        ("PRAGMA user_version", "PRAGMA user_version is refused", None),
        ("SELECT\x00", "zero character", None),
        ("SELECT " + "1," * 60_000, "at most 100,000", None),
    ],
)
def test_what_is_wrong_is_one_sentence_with_its_place(
    database: Database, sql: str, says: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(QueryError, match=re.escape(says)) as raised:
        run_query(database.path, sql)
    assert (raised.value.line, raised.value.column) == (place or (None, None))


def test_the_schema_can_be_asked_for(database: Database) -> None:
    assert ("run",) in run_query(database.path, "SELECT name FROM sqlite_schema").rows
    assert run_query(database.path, "PRAGMA table_info(run)").rows
    assert run_query(database.path, "EXPLAIN QUERY PLAN SELECT * FROM run").rows


def test_names_in_texts_and_comments_are_none() -> None:
    assert names_of("SELECT :run, ':no', \":no\" -- :no\n /* :no */ WHERE x = :other") == {"run", "other"}


@pytest.mark.parametrize("query", BUILT_IN, ids=lambda query: query.name)
def test_a_built_in_query_finds_something_and_can_be_drawn(database: Database, query: object) -> None:
    assert query in BUILT_IN
    answer = run_query(database.path, query.sql, {"run": 1})  # type: ignore[attr-defined]
    assert answer.rows
    assert {query.plot["x"], query.plot["y"]} <= set(answer.columns)  # type: ignore[attr-defined]


def test_queries_are_saved_found_replaced_and_deleted(database: Database) -> None:
    save_query(database, " my  query ", "SELECT 1", {"kind": "bar", "x": "a", "y": "b"})
    save_query(database, "my query", "SELECT 2")
    assert find_query(database, "My Query").sql == "SELECT 2"
    assert [query.name for query in list_queries(database)][-1] == "my query"
    delete_query(database, "my query")
    for wrong in (
        lambda: find_query(database, "my query"),
        lambda: save_query(database, BUILT_IN[0].name.upper(), "SELECT 1"),
        lambda: save_query(database, "  ", "SELECT 1"),
        lambda: save_query(database, "empty", "  "),
        lambda: delete_query(database, BUILT_IN[0].name),
    ):
        with pytest.raises(DatabaseError):
            wrong()


def test_every_table_and_column_has_a_meaning() -> None:
    tables = Base.metadata.tables
    assert set(TABLES) == set(COLUMNS) == set(tables)
    for name, table in tables.items():
        assert set(COLUMNS[name]) == {column.name for column in table.columns}, name


def test_a_missing_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="cannot be opened for reading"):
        run_query(tmp_path / "none.db", "SELECT 1")
