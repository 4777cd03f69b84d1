"""A person's own SQL over the database: it reads, and nothing it can say writes.

Three guards, each enough by itself: the file is opened read-only (``mode=ro``), ``PRAGMA query_only`` is on, and an
authorizer allows only reading (SELECT, columns, functions, the PRAGMAs that describe the schema). What a query may cost
is bounded as well: time, rows, bytes of one value and of the whole answer.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from db.readonly import connect_for_reading
from hyperoffload_core.errors import UserError

MOST_ROWS = 5_000
LONGEST_S = 10.0
MOST_BYTES = 64 << 20
LONGEST_VALUE = 32 << 20
LONGEST_SQL = 100_000
_DESCRIBING_PRAGMAS = {
    "table_info",
    "table_xinfo",
    "table_list",
    "index_list",
    "index_info",
    "index_xinfo",
    "foreign_key_list",
    "function_list",
    "compile_options",
}
_FORBIDDEN_FUNCTIONS = {"load_extension", "writefile", "readfile", "edit", "fts3_tokenizer"}
_ACTIONS = {
    getattr(sqlite3, name): name.removeprefix("SQLITE_").replace("_", " ")
    for name in (
        *("SQLITE_INSERT", "SQLITE_UPDATE", "SQLITE_DELETE", "SQLITE_ATTACH", "SQLITE_DETACH", "SQLITE_ALTER_TABLE"),
        *("SQLITE_CREATE_TABLE", "SQLITE_CREATE_INDEX", "SQLITE_CREATE_VIEW", "SQLITE_CREATE_TRIGGER"),
        *("SQLITE_CREATE_TEMP_TABLE", "SQLITE_CREATE_TEMP_INDEX", "SQLITE_CREATE_TEMP_VIEW"),
        *("SQLITE_CREATE_TEMP_TRIGGER", "SQLITE_CREATE_VTABLE", "SQLITE_DROP_TABLE", "SQLITE_DROP_INDEX"),
        *("SQLITE_DROP_VIEW", "SQLITE_DROP_TRIGGER", "SQLITE_DROP_VTABLE", "SQLITE_TRANSACTION", "SQLITE_SAVEPOINT"),
        *("SQLITE_REINDEX", "SQLITE_ANALYZE", "SQLITE_PRAGMA"),
    )
}
_NEAR = re.compile(r'near "(.*)": syntax error', re.DOTALL)
_NAMED = re.compile(r"(?:no such (?:column|table|function|window)|ambiguous column name): (\S+)")


class QueryError(UserError):
    """A query that cannot be run or was stopped. The message is one sentence; ``line`` and ``column`` (from 1) say
    where in the query, None where that is not known."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message if line is None else f"{message} (line {line}, column {column})")
        self.line, self.column = line, column


@dataclass(frozen=True)
class Answer:
    """What a query found. ``cut`` is a sentence when there is more than ``rows`` holds, else empty. Values are None,
    int, float, str or bytes."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    elapsed_ns: int
    cut: str = ""


def run_query(
    path: Path, sql: str, values: dict[str, Any] | None = None, most_rows: int = MOST_ROWS, longest_s: float = LONGEST_S
) -> Answer:
    """Run one reading statement; ``values`` are those of its ``:names``. Raises `QueryError`."""
    if not sql.strip().rstrip(";").strip():
        raise QueryError("write a query first")
    if len(sql) > LONGEST_SQL:
        raise QueryError(f"the query has {len(sql):,} characters; at most {LONGEST_SQL:,} are run")
    if "\x00" in sql:
        raise QueryError("the query holds a zero character, which SQLite does not read")
    began = time.monotonic_ns()
    refused: list[str] = []
    connection = _open(path, refused)
    # From another thread: a single instruction on large values takes longer than any count of instructions allows for.
    clock = threading.Timer(longest_s, connection.interrupt)
    clock.daemon = True
    clock.start()
    try:
        cursor = connection.execute(sql, values or {})
        if cursor.description is None:
            raise QueryError("this statement has no result; write a SELECT")
        columns = tuple(str(column[0]) for column in cursor.description)
        rows, cut = _fetch(cursor, most_rows)
    except (sqlite3.Error, sqlite3.Warning, OverflowError, UnicodeError) as error:
        raise _explained(error, sql, connection, refused, longest_s) from error
    finally:
        # The clock must not stop what is closed: it has ended before.
        clock.cancel()
        clock.join()
        connection.close()
    return Answer(columns, rows, time.monotonic_ns() - began, cut)


def names_of(sql: str) -> set[str]:
    """The ``:names`` a query wants values for; quoted texts and comments hold none."""
    return set(re.findall(r"(?<![:\w]):([A-Za-z_]\w*)", re.sub(r"\"[^\"]*\"|`[^`]*`|\[[^\]]*\]", " ", _bare(sql))))


def _bare(sql: str) -> str:
    """The query with blanks in place of texts and comments; every other character stays where it is."""
    quoted = r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/"
    return re.sub(quoted, lambda match: re.sub(r"[^\n]", " ", match[0]), sql, flags=re.DOTALL)


def _open(path: Path, refused: list[str]) -> sqlite3.Connection:
    """A connection that can only read; ``refused`` collects what the authorizer turned down."""
    try:
        connection = connect_for_reading(path)
    except sqlite3.Error as error:
        raise QueryError(f"{path} cannot be opened for reading ({error})") from error
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
    connection.text_factory = lambda data: data.decode(errors="replace")

    def allowed(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _DESCRIBING_PRAGMAS:
            return sqlite3.SQLITE_OK
        name = second if action == sqlite3.SQLITE_FUNCTION else _ACTIONS.get(action, "this statement")
        refused.append(f"PRAGMA {first}" if action == sqlite3.SQLITE_PRAGMA else str(name))
        return sqlite3.SQLITE_DENY

    connection.set_authorizer(allowed)
    return connection


def _fetch(cursor: sqlite3.Cursor, most_rows: int) -> tuple[list[tuple[Any, ...]], str]:
    rows: list[tuple[Any, ...]] = []
    size = 0
    for row in cursor:
        if len(rows) == most_rows:
            return rows, f"Only the first {most_rows:,} rows are shown; add a LIMIT or a WHERE."
        size += sum(len(value) if isinstance(value, (str, bytes)) else 8 for value in row)
        if size > MOST_BYTES:
            shown = f"the first {len(rows):,} row{'s' if len(rows) != 1 else ''}"
            return rows, f"Only {shown} are shown: more would be above {MOST_BYTES >> 20} MiB. Ask for fewer columns."
        rows.append(row)
    return rows, ""


def _explained(
    error: Exception, sql: str, connection: sqlite3.Connection, refused: list[str], longest_s: float
) -> QueryError:
    message = str(error)
    if refused:
        verb = re.match(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(\w*)", sql, re.DOTALL)
        word = verb[1].upper() if verb else ""
        named = refused[0] if word in ("", "SELECT", "WITH", "VALUES", "EXPLAIN", "PRAGMA") else word
        return QueryError(f"{named} is refused: a query here only reads")
    if "interrupted" in message:
        return QueryError(f"the query was stopped after {longest_s:g} s; ask for less, or add a LIMIT inside it")
    if "one statement at a time" in message:
        return QueryError("write one statement at a time")
    if "not supply a value" in message or "Binding" in message:
        wanted = ", ".join(f":{name}" for name in sorted(names_of(sql))) or "?"
        return QueryError(f"the query wants a value for {wanted}; only :run, the number of a run, can be given")
    if "readonly" in message or "query_only" in message:
        return QueryError("a query here only reads")
    place = _place(message, sql, connection)
    return QueryError(f"SQLite says: {message}", *place)


def _place(message: str, sql: str, connection: sqlite3.Connection) -> tuple[int | None, int | None]:
    """Line and column of what SQLite complains about. It names the token only, so of several equal ones the wrong one
    is looked for: the first up to which the query is no longer the beginning of a correct one."""
    if "incomplete input" in message:
        return _line_and_column(sql, len(sql.rstrip()))
    near, named = _NEAR.search(message), _NAMED.search(message)
    word = near[1] if near else named[1].rpartition(".")[2] if named else ""
    if not word:
        return None, None
    searched = _bare(sql) if word.lower() in _bare(sql).lower() else sql
    found = [match.start() for match in re.finditer(re.escape(word), searched, re.IGNORECASE)][:200]
    if named:
        whole = [i for i in found if re.fullmatch(r"\W|", sql[i + len(word) : i + len(word) + 1])]
        found = [i for i in whole if re.fullmatch(r"\W|", sql[max(0, i - 1) : i])] or found
    if near and len(found) > 1:
        for start in found:
            try:
                connection.execute(f"EXPLAIN {sql[: start + len(word)]}")
            except (sqlite3.Error, sqlite3.Warning) as other:
                if str(other) == message:
                    return _line_and_column(sql, start)
    return _line_and_column(sql, found[0]) if found else (None, None)


def _line_and_column(sql: str, offset: int) -> tuple[int, int]:
    return sql.count("\n", 0, offset) + 1, offset - (sql.rfind("\n", 0, offset) + 1) + 1
