"""`hyperoffload work`: what a background job's process runs. Not for people."""

from __future__ import annotations

import signal
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated

import typer

from app.requests import CompileRequest, RunRequest
from db.database import Database
from db.jobs import report_progress
from hyperoffload_core.errors import UserError


def work(job: Annotated[int, typer.Argument()], database: Annotated[Path, typer.Option()]) -> None:
    """Do one queued job and report into its row."""
    from app.actions import compile_model
    from app.sessions import run_model
    from app.workers import Cancelled, WorkerCrashError
    from db.database import open_database
    from db.jobs import claim, fail_job, finish_job, job_cancelled

    opened = open_database(database, create=False)
    claimed = claim(opened, job)
    if claimed is None:
        return
    report = _JobReport(opened, job)
    signal.signal(signal.SIGTERM, _stop)  # so that the worker is ended and its folder removed
    try:
        if claimed.kind == "compile":
            done = compile_model(
                CompileRequest.model_validate(claimed.request), opened, report.progress, report.cancelled
            )
            report.finished("compiled")
            finish_job(opened, job, "compiled", [done.run_id] if done.run_id is not None else [])
        else:
            outcome = run_model(
                RunRequest.model_validate(claimed.request), opened, report.progress, report.cancelled, report.started
            )
            report.finished("compiled and run")
            finish_job(opened, job, "compiled and run", outcome.run_ids)
    except Cancelled:
        job_cancelled(opened, job)
    except UserError as error:
        fail_job(opened, job, str(error))
    except Exception as error:
        report.log(traceback.format_exc())
        if isinstance(error, WorkerCrashError):
            report.log(error.log)
        fail_job(opened, job, (str(error).strip().splitlines() or [type(error).__name__])[0])
    finally:
        opened.close()


def _stop(_number: int, _frame: FrameType | None) -> None:
    from app.workers import Cancelled

    raise Cancelled


class _JobReport:
    """Progress of a job into its row, and whether someone asked to cancel it, a few times a second at most."""

    def __init__(self, database: Database, job: int) -> None:
        self._database, self._job = database, job
        self._asked = False
        self._latest: tuple[int, int, str] | None = None
        self._written_at = 0.0

    def progress(self, done: int, total: int, message: str) -> None:
        changed = self._latest is None or self._latest[2] != message
        self._latest = (done, total, message)
        self._write(at_once=changed)

    def cancelled(self) -> bool:
        self._write(at_once=False)
        return self._asked

    def started(self, run_id: int) -> None:
        self._asked = report_progress(self._database, self._job, run_id=run_id) or self._asked

    def finished(self, message: str) -> None:
        report_progress(self._database, self._job, 1, 1, message)

    def log(self, text: str) -> None:
        report_progress(self._database, self._job, log=text)

    def _write(self, at_once: bool) -> None:
        now = time.monotonic()
        if not at_once and now - self._written_at < 0.25:
            return
        self._written_at = now
        done, total, message = self._latest or (None, None, None)
        self._asked = report_progress(self._database, self._job, done, total, message) or self._asked
