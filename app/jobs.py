"""Background jobs: a compile or a run asked for from the browser, each in a fresh interpreter of its own.

The job's process runs ``hyperoffload work JOB``, which calls the same functions as the command line (`app.actions`,
`app.sessions`) and reports into the job's row, so that any page (or a reload) can watch it. Nothing here imports
mindspore.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.requests import CompileRequest, RunRequest
from db.abandoned import mark_abandoned
from db.database import Database, DatabaseError, open_database
from db.jobs import JobRow, enqueue, fail_job, get_job, job_cancelled, list_jobs, request_cancel
from db.models import utc_now
from db.processes import process_started
from db.queries import get_run
from db.recordings import cancel_run

LAUNCHER = Path(__file__).resolve().parent.parent / "hyperoffload.py"
GRACE_S = 4.0

_children: dict[int, subprocess.Popen[bytes]] = {}
_children_lock = threading.Lock()


@dataclass(frozen=True)
class JobView:
    """A job as a page shows it. ``state`` is queued, running, done, failed or cancelled; ``done`` of ``total`` steps of
    work (total 0 while unknown); ``message`` the stage or, at the end, the outcome in one sentence; ``run_ids`` the
    runs made so far, in the order of the policies asked for."""

    id: int
    kind: str
    state: str
    done: int
    total: int
    message: str
    run_ids: tuple[int, ...]
    elapsed_s: float
    cancel_requested: bool
    log: str
    request: dict[str, Any]

    @property
    def ended(self) -> bool:
        return self.state in ("done", "failed", "cancelled")


def start_compile_job(database_path: Path | str, request: CompileRequest) -> int:
    """Start compiling in the background; the job's id. Raises `DatabaseError` when the database cannot be used."""
    return _start(database_path, "compile", request.model_dump(mode="json", by_alias=True))


def start_run_job(database_path: Path | str, request: RunRequest) -> int:
    """Start capturing, compiling and executing in the background; the job's id."""
    return _start(database_path, "run", request.model_dump(mode="json", by_alias=True))


def job_view(database_path: Path | str, job_id: int) -> JobView:
    """The job now. A job whose process died shows as failed. Raises `DatabaseError` for an unknown job."""
    _reap()
    database = open_database(database_path, create=False)
    try:
        job = get_job(database, job_id)
        if job.state == "running" and not _alive(job):
            mark_abandoned(database)
            job = get_job(database, job_id)
    finally:
        database.close()
    return _view(job)


def job_views(database_path: Path | str, limit: int) -> list[JobView]:
    """The newest jobs, newest first."""
    _reap()
    database = open_database(database_path, create=False)  # which closes jobs whose process died
    try:
        return [_view(job) for job in list_jobs(database, limit=limit)]
    finally:
        database.close()


def cancel_job(database_path: Path | str, job_id: int, wait: bool = False) -> None:
    """Ask the job to stop and return (when it has ended, if told to ``wait``); one that has not stopped within seconds
    is terminated, then killed, with its whole process group, and its unfinished runs are marked cancelled. Nothing
    happens to a job that has ended."""
    database = open_database(database_path, create=False)
    try:
        job = request_cancel(database, job_id)
    finally:
        database.close()
    if job.state == "running":
        enforcing = threading.Thread(target=_enforce, args=(Path(database_path), job_id), daemon=True)
        enforcing.start()
        if wait:
            enforcing.join()


def _start(database_path: Path | str, kind: str, request: dict[str, Any]) -> int:
    _reap()
    path = Path(database_path).absolute()
    database = open_database(path)
    try:
        job_id = enqueue(database, kind, request)
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", str(LAUNCHER), "work", str(job_id), "--database", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            fail_job(database, job_id, f"the job's process could not be started ({error})")
            return job_id
    finally:
        database.close()
    with _children_lock:
        _children[job_id] = process
    return job_id


def _enforce(path: Path, job_id: int) -> None:
    """The job has been asked to stop: wait, then terminate its process group, then kill it."""
    database = open_database(path, create=False)
    try:
        if _ends_within(database, job_id, GRACE_S):
            return
        pid = get_job(database, job_id).pid
        # Written first: a job found without its process would count as failed.
        _close_runs(database, job_id)
        job_cancelled(database, job_id)
        for force in (signal.SIGTERM, signal.SIGKILL):
            _signal_group(pid, force)
            _signal_group(pid, signal.SIGCONT)  # a stopped process hears no other signal than SIGKILL
            time.sleep(1)
    except DatabaseError:
        # The database went away under us; there is no row left to write to.
        return
    finally:
        database.close()


def _ends_within(database: Database, job_id: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if get_job(database, job_id).ended:
            return True
        time.sleep(0.1)
    return get_job(database, job_id).ended


def _close_runs(database: Database, job_id: int) -> None:
    for run_id in get_job(database, job_id).run_ids:
        if get_run(database, run_id).status in ("running", "incomplete"):
            cancel_run(database, run_id)


def _signal_group(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        try:
            os.killpg(pid, number)
        except (ProcessLookupError, PermissionError):
            return


def _alive(job: JobRow) -> bool:
    return job.pid is None or process_started(job.pid) != ""


def _reap() -> None:
    """Collect children that have ended, so that none stays a zombie."""
    with _children_lock:
        for job_id, process in list(_children.items()):
            if process.poll() is not None:
                del _children[job_id]


def _view(job: JobRow) -> JobView:
    began = job.started or job.created
    return JobView(
        id=job.id,
        kind=job.kind,
        state=job.state,
        done=job.done,
        total=job.total,
        message=job.message,
        run_ids=job.run_ids,
        elapsed_s=((job.finished or utc_now()) - began).total_seconds(),
        cancel_requested=job.cancel_requested,
        log=job.log,
        request=job.request,
    )
