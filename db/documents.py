"""Graphs and schedules as stored documents, each once by content hash."""

from __future__ import annotations

import gzip
import json
from collections import OrderedDict
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select

from db.database import Database, DatabaseError
from db.models import GraphOp, GraphRow, GraphStorage, ScheduleRow
from hyperoffload_core.collector import collector_paused
from hyperoffload_core.graphfile import graph_document
from hyperoffload_core.ir import Graph
from hyperoffload_core.schedule import Metrics, Schedule, from_document, to_document

_KEPT = 8
ROWS_A_STATEMENT = 64
_schedules: OrderedDict[str, Schedule] = OrderedDict()
_schedules_lock = Lock()


def load_schedule(database: Database, schedule_hash: str) -> Schedule:
    """The schedule with this hash; the last few are kept decoded. Raises `DatabaseError` when there is none."""
    with _schedules_lock:
        if schedule_hash in _schedules:
            _schedules.move_to_end(schedule_hash)
            return _schedules[schedule_hash]
    with database.read() as connection:
        document = connection.execute(select(ScheduleRow.document).where(ScheduleRow.hash == schedule_hash)).scalar()
    if document is None:
        raise DatabaseError(f"{database.path} holds no schedule {schedule_hash[:12]}")
    with collector_paused():
        schedule = from_document(_unpack(document))
    with _schedules_lock:
        _schedules[schedule_hash] = schedule
        while len(_schedules) > _KEPT:
            _schedules.popitem(last=False)
    return schedule


def put_graph(connection: Connection, graph: Graph) -> int:
    """The graph's row id, stored when it is new, inside the caller's write transaction."""
    known = connection.execute(select(GraphRow.id).where(GraphRow.hash == graph.hash)).scalar()
    if known is not None:
        return known
    row = {
        "hash": graph.hash,
        "name": graph.name,
        "op_count": len(graph.ops),
        "storage_count": len(graph.storages),
        "persistent_bytes": graph.persistent_bytes,
        "document": _pack(graph_document(graph)),
    }
    graph_id = connection.execute(insert(GraphRow).values(row).returning(GraphRow.id)).scalar_one()
    ops = [(graph_id, o.id, o.name, o.primitive, o.scope, o.phase, o.workspace_bytes, o.flops) for o in graph.ops]
    storages = [
        (graph_id, s.id, s.name, s.bytes, s.tensor_class, s.persistent, "x".join(map(str, s.shape)), s.dtype)
        for s in graph.storages
    ]
    insert_rows(connection, GraphOp, ops)
    insert_rows(connection, GraphStorage, storages)
    return graph_id


def put_schedule(connection: Connection, schedule: Schedule) -> tuple[int, int]:
    """Row ids (graph, schedule), inside the caller's write transaction."""
    graph_id = put_graph(connection, schedule.graph)
    known = connection.execute(select(ScheduleRow.id).where(ScheduleRow.hash == schedule.hash)).scalar()
    if known is not None:
        return graph_id, known
    row = {
        "hash": schedule.hash,
        "graph_id": graph_id,
        "strategy": schedule.strategy,
        "hardware": schedule.hardware.name,
        "memory_limit_bytes": schedule.memory_limit_bytes,
        "duration_source": schedule.duration_source,
        "transfer_count": len(schedule.transfers),
        **{name: getattr(schedule.metrics, name) for name in Metrics.__slots__},
        "document": _pack(to_document(schedule)),
    }
    return graph_id, connection.execute(insert(ScheduleRow).values(row).returning(ScheduleRow.id)).scalar_one()


def insert_rows(connection: Connection, model: Any, rows: list[tuple[Any, ...]]) -> None:
    """Insert whole rows, values in the order of the model's columns, as raw tuples: several times the rate of dicts."""
    if rows:
        connection.exec_driver_sql(_insert(model, 1), rows)


def insert_numbers(connection: Connection, model: Any, rows: NDArray[np.int64]) -> None:
    """Insert whole rows of integers, one row of the matrix each. Many rows share a statement, since a statement costs
    more than a row."""
    shared = len(rows) // ROWS_A_STATEMENT * ROWS_A_STATEMENT
    for part, count in ((rows[:shared], ROWS_A_STATEMENT), (rows[shared:], 1)):
        if len(part):
            values = list(map(tuple, part.reshape(-1, count * rows.shape[1]).tolist()))
            connection.exec_driver_sql(_insert(model, count), values)


def _insert(model: Any, rows: int) -> str:
    table = model.__table__
    names = ", ".join(f'"{c.name}"' for c in table.columns)
    places = f"({', '.join('?' for _ in table.columns)})"
    return f"INSERT INTO {table.name} ({names}) VALUES {', '.join([places] * rows)}"


def _pack(document: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(document, separators=(",", ":")).encode(), compresslevel=6, mtime=0)


def _unpack(data: bytes) -> dict[str, Any]:
    return _decoded(gzip.decompress(data))


def _decoded(text: bytes) -> dict[str, Any]:
    """JSON, with a call of Python for each object: without any, no other thread (of the dashboard) would run until all
    of a large document is decoded."""
    document: dict[str, Any] = json.loads(text, object_hook=lambda row: row)
    return document
