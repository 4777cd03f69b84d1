"""Queries with names: a handful that are built in, and those people save."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.dialects.sqlite import insert

from db.database import Database, DatabaseError
from db.models import SavedQuery

LONGEST_NAME = 100


@dataclass(frozen=True)
class NamedQuery:
    """``plot`` holds ``kind``, ``x`` and ``y`` (names of columns), or is empty. ``:run`` in the text stands for the
    run a person chooses."""

    name: str
    sql: str
    plot: Mapping[str, Any] = field(default_factory=dict)
    built_in: bool = False


class _Plot(NamedTuple):
    kind: str
    x: str
    y: str
    by: str = ""


def _built_in(name: str, sql: str, plot: _Plot) -> NamedQuery:
    return NamedQuery(name, sql.strip(), plot._asdict(), True)


BUILT_IN = (
    _built_in(
        "Slowest ops of a run",
        """
SELECT o.name, o.primitive, o.phase, count(*) AS times, avg(e.end_ns - e.start_ns) AS mean_ns
FROM op_event e
JOIN run r ON r.id = e.run_id
JOIN graph_op o ON o.graph_id = r.graph_id AND o.op = e.op
WHERE r.id = :run
GROUP BY o.op ORDER BY mean_ns DESC LIMIT 20
""",
        _Plot("bar", "name", "mean_ns"),
    ),
    _built_in(
        "Time by kind of op",
        """
SELECT o.primitive, o.phase, count(*) AS ops, sum(e.end_ns - e.start_ns) AS total_ns
FROM op_event e
JOIN run r ON r.id = e.run_id
JOIN graph_op o ON o.graph_id = r.graph_id AND o.op = e.op
WHERE r.id = :run AND e.step = 0
GROUP BY o.primitive, o.phase ORDER BY total_ns DESC LIMIT 30
""",
        _Plot("bar", "primitive", "total_ns"),
    ),
    _built_in(
        "Bytes moved by class",
        """
SELECT s.tensor_class, iif(t.direction = 0, 'out', 'in') AS direction,
       count(*) AS transfers, sum(t.bytes) AS moved_bytes, sum(t.end_ns - t.start_ns) AS link_ns
FROM transfer_event t
JOIN run r ON r.id = t.run_id
JOIN graph_storage s ON s.graph_id = r.graph_id AND s.storage = t.storage
WHERE r.id = :run AND t.step = 0
GROUP BY s.tensor_class, direction ORDER BY moved_bytes DESC
""",
        _Plot("bar", "tensor_class", "moved_bytes"),
    ),
    _built_in(
        "Worst stalls of a run",
        """
-- Gaps between ops in the first step, and the transfer that ended last before compute went on.
WITH gap AS (
  SELECT e.run_id, e.op, e.start_ns, e.start_ns - lag(e.end_ns, 1, 0) OVER (ORDER BY e.start_ns) AS gap_ns
  FROM op_event e WHERE e.run_id = :run AND e.step = 0
)
SELECT o.name AS op, g.gap_ns, g.start_ns,
       (SELECT iif(t.direction = 0, 'Store of ', 'Prefetch of ') || s.name
        FROM transfer_event t JOIN graph_storage s ON s.graph_id = r.graph_id AND s.storage = t.storage
        WHERE t.run_id = :run AND t.step = 0 AND t.end_ns > g.start_ns - g.gap_ns AND t.end_ns <= g.start_ns
        ORDER BY t.end_ns DESC LIMIT 1) AS waited_for
FROM gap g
JOIN run r ON r.id = g.run_id
JOIN graph_op o ON o.graph_id = r.graph_id AND o.op = g.op
WHERE g.gap_ns > 0 ORDER BY g.gap_ns DESC LIMIT 20
""",
        _Plot("bar", "op", "gap_ns"),
    ),
    _built_in(
        "Largest storages of a run",
        """
SELECT s.name, s.tensor_class, s.bytes, s.shape, s.dtype,
       count(l.start_ns) AS stays, sum(l.end_ns - l.start_ns) AS on_device_ns
FROM run r
JOIN graph_storage s ON s.graph_id = r.graph_id
LEFT JOIN storage_lifetime l ON l.run_id = r.id AND l.step = 0 AND l.storage = s.storage
WHERE r.id = :run
GROUP BY s.storage ORDER BY s.bytes DESC LIMIT 50
""",
        _Plot("bar", "name", "bytes"),
    ),
    _built_in(
        "Runs by strategy",
        """
SELECT model || ' · ' || strategy AS tried, kind, count(*) AS runs, min(step_median_ns) AS best_step_ns,
       min(iif(kind = 'predicted', reserved_bytes, peak_bytes)) AS smallest_peak_bytes
FROM run
WHERE deleted IS NULL AND step_count > 0
GROUP BY model, strategy, kind ORDER BY model, best_step_ns
""",
        _Plot("bar", "tried", "best_step_ns", "kind"),
    ),
    _built_in(
        "Step time against peak",
        """
SELECT id, model, strategy, kind, iif(kind = 'predicted', reserved_bytes, peak_bytes) AS peak_bytes, step_median_ns
FROM run
WHERE deleted IS NULL AND step_count > 0
ORDER BY peak_bytes
""",
        _Plot("scatter", "peak_bytes", "step_median_ns"),
    ),
    _built_in(
        "Predicted against measured",
        """
SELECT m.id AS measured_run, p.id AS predicted_run, m.model, m.strategy,
       p.step_median_ns AS predicted_ns, m.step_median_ns AS measured_ns,
       round(100.0 * (p.step_median_ns - m.step_median_ns) / m.step_median_ns, 1) AS error_percent
FROM run m
JOIN run p ON p.session = m.session AND p.schedule_id = m.schedule_id AND p.kind = 'predicted'
WHERE m.kind = 'measured' AND m.session <> '' AND m.step_count > 0
  AND m.deleted IS NULL AND p.deleted IS NULL
ORDER BY m.id DESC
""",
        _Plot("scatter", "predicted_ns", "measured_ns"),
    ),
)


def list_queries(database: Database) -> list[NamedQuery]:
    """The built-in ones, then people's own by name."""
    with database.read() as connection:
        rows = connection.execute(select(SavedQuery.name, SavedQuery.sql, SavedQuery.plot).order_by(SavedQuery.name))
        return [*BUILT_IN, *(NamedQuery(row.name, row.sql, row.plot) for row in rows)]


def find_query(database: Database, name: str) -> NamedQuery:
    """The query of that name. Raises `DatabaseError` that says which there are."""
    queries = list_queries(database)
    for query in queries:
        if query.name.lower() == name.strip().lower():
            return query
    raise DatabaseError(f"there is no saved query {name!r}; saved are {', '.join(repr(q.name) for q in queries)}")


def save_query(database: Database, name: str, sql: str, plot: Mapping[str, Any] | None = None) -> NamedQuery:
    """Save a query under a name, in place of an own one that has it. Raises `DatabaseError` for no name, no text, or
    the name of a built-in query."""
    name = " ".join(name.split())
    if not name or len(name) > LONGEST_NAME:
        raise DatabaseError(f"a saved query needs a name of at most {LONGEST_NAME} characters")
    if any(query.name.lower() == name.lower() for query in BUILT_IN):
        raise DatabaseError(f"{name!r} is built in; choose another name")
    if not sql.strip():
        raise DatabaseError("there is no query to save")
    text, drawn = sql.strip(), dict(plot or {})
    with database.write() as connection:
        statement = insert(SavedQuery).values(name=name, sql=text, plot=drawn)
        replaced = {"sql": text, "plot": drawn}
        connection.execute(statement.on_conflict_do_update(index_elements=[SavedQuery.name], set_=replaced))
    return NamedQuery(name, text, drawn)


def delete_query(database: Database, name: str) -> None:
    """Remove an own query. Raises `DatabaseError` for a built-in or unknown one."""
    query = find_query(database, name)
    if query.built_in:
        raise DatabaseError(f"{query.name!r} is built in and stays")
    with database.write() as connection:
        connection.execute(delete(SavedQuery).where(SavedQuery.name == query.name))
