"""A person's SQL, asked from the command line and from the browser: which run ``:run`` means, results as files."""

from __future__ import annotations

import json
import math
from typing import Any

from db.database import Database, DatabaseError
from db.queries import find_run, list_runs
from db.reading import MOST_ROWS, Answer, QueryError, names_of, run_query
from profiles.plain import csv_table

RUN = "run"
# Rows of a file: the same query without the page's smaller bound.
MOST_ROWS_IN_FILE = 1_000_000
_ACTING = ("=", "+", "-", "@", "\t", "\r")


def ask(database: Database, sql: str, run: str = "", most_rows: int = MOST_ROWS) -> Answer:
    """Run one reading query. ``run`` is what ``:run`` stands for (`run_meant`).

    Raises `db.reading.QueryError`, `DatabaseError` for an unknown run.
    """
    names = names_of(sql)
    if others := sorted(names - {RUN}):
        raise QueryError(f"the query wants a value for :{others[0]}; only :run, the number of a run, can be given")
    values = {RUN: run_meant(database, run)} if RUN in names else None
    return run_query(database.path, sql, values, most_rows)


def run_meant(database: Database, run: str = "") -> int:
    """The run a person names (a number, a label, ``latest``); for no name the newest that moves something, else the
    newest with a step."""
    if run.strip():
        return find_run(database, run.strip()).id
    rows = [row for row in list_runs(database, limit=50) if row.step_count]
    if not rows:
        raise DatabaseError(f"{database.path} holds no run with a step yet; `hyperoffload demo` records some")
    return next((row for row in rows if row.bytes_in), rows[0]).id


def cell_text(value: Any) -> str:
    """A value as people read it in a file or table: bytes only by their number."""
    if value is None:
        return ""
    return f"<{len(value):,} bytes>" if isinstance(value, bytes) else str(value)


def answer_csv(answer: Answer) -> str:
    """Comma-separated, with a line of headings. A text that a spreadsheet would run begins with an apostrophe."""
    rows = ([_harmless(v) if isinstance(v, str) else cell_text(v) for v in row] for row in answer.rows)
    return csv_table([_harmless(column) for column in answer.columns], rows)


def answer_json(answer: Answer) -> str:
    """One document: ``columns`` and ``rows``, and ``cut`` when there are more rows."""
    rows = [
        [v if v is None or isinstance(v, (int, str)) or _finite(v) else cell_text(v) for v in row]
        for row in answer.rows
    ]
    document = {"columns": list(answer.columns), "rows": rows} | ({"cut": answer.cut} if answer.cut else {})
    return json.dumps(document, indent=1, ensure_ascii=False)


def _finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _harmless(text: str) -> str:
    # Nothing else is changed: a saved policy or a log has many lines, and a file holds all there is.
    return f"'{text}" if text.startswith(_ACTING) else text
