"""Runs and jobs whose process died are closed with a reason, so nothing stays 'running' for ever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from db.models import Job, Run, utc_now
from db.processes import is_alive

if TYPE_CHECKING:
    from db.database import Database

# A live writer touches its heartbeat with every append; a process that is stopped or hangs does not.
SILENT_AFTER = timedelta(minutes=15)


def mark_abandoned(database: Database) -> tuple[list[int], list[int]]:
    """Turn running runs of dead or silent processes into ``incomplete`` and such jobs into ``failed``.

    Returns their ids (runs, jobs). `db.database.open_database` calls this.
    """
    now = utc_now()
    closed: tuple[list[int], list[int]] = ([], [])
    with database.read() as connection:
        runs = connection.execute(
            select(Run.id, Run.pid, Run.process_started, Run.heartbeat).where(Run.status == "running")
        ).all()
        jobs = connection.execute(
            select(Job.id, Job.pid, Job.process_started, Job.heartbeat).where(Job.state == "running")
        ).all()
    reasons = [
        {row.id: reason for row in rows if (reason := _why(row.pid, row.process_started, now - row.heartbeat))}
        for rows in (runs, jobs)
    ]
    if not any(reasons):
        return closed
    with database.write() as connection:
        for run, reason in reasons[0].items():
            change = update(Run).where(Run.id == run, Run.status == "running")
            connection.execute(change.values(status="incomplete", reason=reason, finished=now))
            closed[0].append(run)
        for job, reason in reasons[1].items():
            ended = update(Job).where(Job.id == job, Job.state == "running")
            connection.execute(ended.values(state="failed", message=reason, finished=now))
            closed[1].append(job)
    return closed


def _why(pid: int | None, started: str, silence: timedelta) -> str:
    if not is_alive(pid, started):
        return f"its process (pid {pid}) ended before it was finished"
    if silence > SILENT_AFTER:
        minutes = int(silence.total_seconds() // 60)
        return f"its process (pid {pid}) has been silent for {minutes} minutes"
    return ""
