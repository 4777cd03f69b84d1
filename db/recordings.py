"""Writing runs: start, append profiles of some steps at a time, finish.

Every call is one transaction, so a writer that is killed leaves whole appends behind and the run marked incomplete
(`db.abandoned`). An append turns an incomplete run whose writer was only silent back into a running one.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, insert, select, update

from db.database import Database, DatabaseError
from db.documents import insert_numbers, insert_rows, put_schedule
from db.models import OpEvent, Run, RunStep, StorageLifetime, TransferEvent, utc_now
from db.processes import process_started
from hyperoffload_core.metrics import covered_ns, union_ns
from hyperoffload_core.recording import Profile, ProfileKind, StorageLifetimes
from hyperoffload_core.schedule import Schedule


@dataclass(frozen=True)
class RunDescription:
    """What is known of a run before its first step.

    ``model`` is the name people see, ``source`` what a worker needs to capture the model again (JSON values).
    ``session`` ties runs of one interleaved session together. ``link_bandwidth_bytes_per_s`` None means unlimited,
    ``paced`` that copies were held back to that bandwidth. ``policy_version`` is a row id (`db.policies`).
    """

    kind: ProfileKind
    schedule: Schedule
    model: str
    source: dict[str, Any] = field(default_factory=dict)
    session: str = ""
    policy_version: int | None = None
    link_bandwidth_bytes_per_s: int | None = None
    paced: bool = False
    conditions: str = ""
    label: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""


def start_run(database: Database, description: RunDescription) -> int:
    """Record that a run has begun in this process; its id."""
    with database.write() as connection:
        return _start(connection, description)


def append_profile(database: Database, run_id: int, profile: Profile) -> None:
    """Add the profile's steps after those the run has.

    Raises `DatabaseError` for an unknown run, a run that has ended, or a profile of another graph.
    """
    with database.write() as connection:
        _append(connection, run_id, profile)


def finish_run(database: Database, run_id: int, bit_identical: bool | None = None, reason: str = "") -> None:
    """The run is complete; ``bit_identical``: its results equal those without offload, None where not compared;
    ``reason``: what has to be known of that comparison, in words."""
    _end(database, run_id, "complete", reason, bit_identical)


def fail_run(database: Database, run_id: int, reason: str) -> None:
    """The run failed; ``reason`` is one sentence."""
    _end(database, run_id, "failed", reason)


def cancel_run(database: Database, run_id: int, reason: str = "cancelled by the user") -> None:
    _end(database, run_id, "cancelled", reason)


def record_profile(
    database: Database, description: RunDescription, profile: Profile, bit_identical: bool | None = None
) -> int:
    """A whole run at once (a prediction, an imported profile): complete or not there at all. Its id."""
    with database.write() as connection:
        run_id = _start(connection, description)
        _append(connection, run_id, profile)
        ended = {"status": "complete", "finished": utc_now(), "bit_identical": bit_identical}
        connection.execute(update(Run).where(Run.id == run_id).values(ended))
        return run_id


def heartbeat(database: Database, run_id: int) -> None:
    """The writer lives, though it has nothing to append yet."""
    with database.write() as connection:
        connection.execute(update(Run).where(Run.id == run_id).values(heartbeat=utc_now()))


def _start(connection: Connection, description: RunDescription) -> int:
    schedule = description.schedule
    graph_id, schedule_id = put_schedule(connection, schedule)
    pid = os.getpid()
    row = {
        "kind": description.kind,
        "status": "running",
        "session": description.session,
        "model": description.model,
        "source": description.source,
        "graph_id": graph_id,
        "schedule_id": schedule_id,
        "policy_version_id": description.policy_version,
        "strategy": schedule.strategy,
        "hardware": schedule.hardware.name,
        "memory_limit_bytes": schedule.memory_limit_bytes,
        "link_bandwidth_bytes_per_s": description.link_bandwidth_bytes_per_s,
        "paced": description.paced,
        "conditions": description.conditions,
        "peak_planned_bytes": schedule.metrics.peak_live_bytes,
        "reserved_bytes": schedule.metrics.reserved_bytes,
        "label": description.label,
        "tags": list(description.tags),
        "note": description.note,
        "pid": pid,
        "process_started": process_started(pid),
    }
    return connection.execute(insert(Run).values(row).returning(Run.id)).scalar_one()


def _status(connection: Connection, run_id: int) -> str:
    status = connection.execute(select(Run.status).where(Run.id == run_id)).scalar()
    if status is None:
        raise DatabaseError(f"there is no run {run_id}")
    return status


def _end(database: Database, run_id: int, status: str, reason: str, bit_identical: bool | None = None) -> None:
    with database.write() as connection:
        _status(connection, run_id)
        values = {"status": status, "reason": reason, "finished": utc_now(), "bit_identical": bit_identical}
        connection.execute(update(Run).where(Run.id == run_id).values(values))


def _append(connection: Connection, run_id: int, profile: Profile) -> None:
    status = _status(connection, run_id)
    if status not in ("running", "incomplete"):
        raise DatabaseError(f"run {run_id} is {status}; nothing can be appended to it")
    first = connection.execute(select(Run.step_count).where(Run.id == run_id)).scalar_one()
    ops, transfers, lifetimes = profile.ops, profile.transfers, _distinct(profile.lifetimes)
    for name, ids, count in (
        ("op", ops.op, len(profile.schedule.graph.ops)),
        ("storage", lifetimes.storage, len(profile.schedule.graph.storages)),
    ):
        if len(ids) and not 0 <= int(ids.min()) <= int(ids.max()) < count:
            raise DatabaseError(f"the profile names {name} {int(ids.max())}, but its graph has {count} of them")
    insert_rows(connection, RunStep, _step_rows(run_id, first, profile))
    op_columns = (ops.step + first, ops.start_ns, ops.op, ops.end_ns, ops.copy_ns)
    insert_numbers(connection, OpEvent, _rows(run_id, *op_columns))
    transfer_columns = (
        transfers.step + first,
        transfers.start_ns,
        transfers.transfer,
        transfers.storage,
        transfers.direction,
        transfers.bytes,
        transfers.end_ns,
    )
    insert_numbers(connection, TransferEvent, _rows(run_id, *transfer_columns))
    lifetime_columns = (
        lifetimes.step + first,
        lifetimes.start_ns,
        lifetimes.storage,
        lifetimes.end_ns,
        lifetimes.offset,
        lifetimes.bytes,
    )
    insert_numbers(connection, StorageLifetime, _rows(run_id, *lifetime_columns))
    losses = connection.execute(select(Run.losses).where(Run.id == run_id)).scalar_one()
    values = {
        **_summary(connection, run_id),
        "step_count": first + profile.step_count,
        "losses": [*losses, *profile.losses],
        "status": "running",
        "reason": "",
        "heartbeat": utc_now(),
    }
    if profile.conditions:
        values["conditions"] = profile.conditions
    connection.execute(update(Run).where(Run.id == run_id).values(values))


def _distinct(stays: StorageLifetimes) -> StorageLifetimes:
    """Without what is there already: a storage may come and go several times within one reading of a clock, and stays
    that begin and end at the same time are one empty stay to whoever looks at times."""
    empty = np.flatnonzero(stays.start_ns == stays.end_ns)
    if len(empty) < 2:
        return stays
    told_by = np.stack((stays.step, stays.start_ns, stays.storage))[:, empty]
    _, first = np.unique(told_by, axis=1, return_index=True)
    kept = np.ones(len(stays.step), dtype=bool)
    kept[np.delete(empty, first)] = False
    return StorageLifetimes(*(getattr(stays, column.name)[kept] for column in fields(stays)))


def _rows(run_id: int, *columns: Any) -> NDArray[np.int64]:
    # Sorted as the table is clustered: appending to the end of the tree is what makes inserts quick.
    order = np.lexsort(columns[2::-1])
    return np.stack([np.full(len(order), run_id, np.int64), *(column[order] for column in columns)], axis=1)


def _step_rows(run_id: int, first: int, profile: Profile) -> list[tuple[int, ...]]:
    ops, transfers, steps = profile.ops, profile.transfers, profile.steps
    rows = []
    for step in range(profile.step_count):
        o, t = ops.step == step, transfers.step == step
        op_start, op_end = ops.start_ns[o], ops.end_ns[o]
        start, end = transfers.start_ns[t], transfers.end_ns[t]
        moving = union_ns(start, end)
        rows.append(
            (
                run_id,
                first + step,
                *(int(getattr(steps, c)[step]) for c in ("step_ns", "compute_ns", "exposed_ns", "blocking_ns")),
                int((moving[1] - moving[0]).sum()),
                int(covered_ns(*moving, union_ns(op_start, op_end)).sum()),
                *(int(getattr(steps, c)[step]) for c in ("peak_bytes", "bytes_out", "bytes_in")),
                int((op_end - op_start).max(initial=0)),
                int((end - start).max(initial=0)),
            )
        )
    return rows


def _summary(connection: Connection, run_id: int) -> dict[str, int]:
    """The run's metrics from its steps: those of the (lower) median step, and the highest peak."""
    rows = (
        connection.execute(select(RunStep).where(RunStep.run_id == run_id).order_by(RunStep.step_ns)).mappings().all()
    )
    if not rows:
        return {}
    median = rows[(len(rows) - 1) // 2]
    names = ("compute_ns", "exposed_ns", "blocking_ns", "transfer_ns", "hidden_ns", "bytes_out", "bytes_in")
    return {
        "step_median_ns": median["step_ns"],
        "step_min_ns": rows[0]["step_ns"],
        "step_max_ns": rows[-1]["step_ns"],
        "peak_bytes": max(row["peak_bytes"] for row in rows),
        **{name: median[name] for name in names},
    }
