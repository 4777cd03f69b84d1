"""Jobs: asked for by the browser or the command line, done by one fresh process each, watched by anyone.

States: queued -> running -> done, failed or cancelled. A cancel request on a queued job ends it at once; a running job
finds it in what `report_progress` returns. Jobs of dead processes are closed by `db.abandoned.mark_abandoned`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, update

from db.database import Database, DatabaseError
from db.models import LARGEST_ID, Job, utc_now
from db.processes import process_started


@dataclass(frozen=True)
class JobRow:
    """A job as it stands. ``done`` of ``total`` steps of work, total 0 while unknown; ``run_ids`` the runs it made."""

    id: int
    kind: str
    request: dict[str, Any]
    state: str
    pid: int | None
    heartbeat: datetime | None
    done: int
    total: int
    message: str
    cancel_requested: bool
    log: str
    run_ids: tuple[int, ...]
    created: datetime
    started: datetime | None
    finished: datetime | None

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


def enqueue(database: Database, kind: str, request: dict[str, Any]) -> int:
    """Ask for a job; its id. ``request`` holds JSON values."""
    with database.write() as connection:
        return connection.execute(insert(Job).values(kind=kind, request=request).returning(Job.id)).scalar_one()


def claim(database: Database, job_id: int | None = None, pid: int | None = None) -> JobRow | None:
    """Take a queued job (the oldest, or the given one) for a process, this one unless told; None when there is none.

    Two processes never get the same job.
    """
    pid = pid if pid is not None else os.getpid()
    with database.write() as connection:
        query = select(Job.id).where(Job.state == "queued").order_by(Job.id).limit(1)
        found = connection.execute(query if job_id is None else query.where(Job.id == job_id)).scalar()
        if found is None:
            return None
        now = utc_now()
        taken = {"state": "running", "pid": pid, "process_started": process_started(pid), "started": now}
        connection.execute(update(Job).where(Job.id == found).values(taken | {"heartbeat": now}))
        return _job(connection, found)


def report_progress(
    database: Database,
    job_id: int,
    done: int | None = None,
    total: int | None = None,
    message: str | None = None,
    log: str = "",
    run_id: int | None = None,
) -> bool:
    """The job lives and is so far; ``log`` is appended, ``run_id`` added. Whether someone asked to cancel it."""
    with database.write() as connection:
        job = _job(connection, job_id)
        changes: dict[str, Any] = {"done": done, "total": total, "message": message}
        changes = {name: value for name, value in changes.items() if value is not None} | {"heartbeat": utc_now()}
        if log:
            changes["log"] = Job.log + log
        if run_id is not None and run_id not in job.run_ids:
            changes["run_ids"] = [*job.run_ids, run_id]
        connection.execute(update(Job).where(Job.id == job_id).values(changes))
        return job.cancel_requested


def request_cancel(database: Database, job_id: int) -> JobRow:
    """Ask a running job to stop, or end a queued one; nothing happens to a job that has ended. The job as it is now."""
    with database.write() as connection:
        job = _job(connection, job_id)
        if job.state == "queued":
            ended = {"state": "cancelled", "cancel_requested": True, "message": "cancelled", "finished": utc_now()}
            connection.execute(update(Job).where(Job.id == job_id).values(ended))
        elif job.state == "running":
            connection.execute(update(Job).where(Job.id == job_id).values(cancel_requested=True))
        return _job(connection, job_id)


def finish_job(database: Database, job_id: int, message: str = "", run_ids: Sequence[int] | None = None) -> None:
    """The job is done; ``run_ids`` replaces the runs reported so far."""
    _end(database, job_id, "done", message, run_ids)


def fail_job(database: Database, job_id: int, message: str) -> None:
    """The job failed; ``message`` is one sentence."""
    _end(database, job_id, "failed", message, None)


def job_cancelled(database: Database, job_id: int, message: str = "cancelled") -> None:
    """The job has stopped because it was asked to."""
    _end(database, job_id, "cancelled", message, None)


def get_job(database: Database, job_id: int) -> JobRow:
    """One job. Raises `DatabaseError` when there is none with this id."""
    with database.read() as connection:
        return _job(connection, job_id)


def list_jobs(database: Database, states: Sequence[str] = (), limit: int | None = None) -> list[JobRow]:
    """Jobs, newest first, of all states or the given ones."""
    query = select(Job).order_by(Job.id.desc()).limit(limit)
    with database.read() as connection:
        rows = connection.execute(query.where(Job.state.in_(states)) if states else query)
        return [_job_row(row) for row in rows]


def _job(connection: Connection, job_id: int) -> JobRow:
    known = abs(job_id) <= LARGEST_ID
    row = connection.execute(select(Job).where(Job.id == job_id)).one_or_none() if known else None
    if row is None:
        raise DatabaseError(f"there is no job {job_id}")
    return _job_row(row)


def _job_row(row: Any) -> JobRow:
    values = {name: value for name, value in row._mapping.items() if name in JobRow.__dataclass_fields__}
    return JobRow(**{**values, "run_ids": tuple(values["run_ids"])})


def _end(database: Database, job_id: int, state: str, message: str, run_ids: Sequence[int] | None) -> None:
    values: dict[str, Any] = {"state": state, "message": message, "finished": utc_now()}
    if run_ids is not None:
        values["run_ids"] = list(run_ids)
    with database.write() as connection:
        _job(connection, job_id)
        connection.execute(update(Job).where(Job.id == job_id).values(values))
