"""Background jobs, in their real processes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.main import run as command
from app.jobs import JobView, cancel_job, job_view, start_compile_job, start_run_job
from app.requests import CompileRequest, RunRequest
from db.database import open_database
from db.jobs import get_job
from db.processes import process_started
from db.queries import get_run
from hyperoffload_core.graphfile import GraphFile, write_graph
from hyperoffload_core.policy import Policy
from tests.graphs import training


def _wait(database: Path, job: int, until: Callable[[JobView], bool] = lambda view: view.ended) -> JobView:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        view = job_view(database, job)
        if until(view):
            return view
        time.sleep(0.05)
    raise AssertionError(f"still {view}")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


def _compile(tmp_path: Path, limit: str) -> CompileRequest:
    file = tmp_path / "graph.json"
    write_graph(GraphFile(training(4, 1 << 20)), file)
    return CompileRequest(model=str(file), policy=Policy(memory_limit=limit), hardware="h200")


def test_a_compile_job_leads_to_its_run(tmp_path: Path, database: Path) -> None:
    view = _wait(database, start_compile_job(database, _compile(tmp_path, "80%")))
    assert view.state == "done", view
    opened = open_database(database)
    run = get_run(opened, view.run_ids[0])
    opened.close()
    assert (run.kind, run.strategy, run.hardware, run.status) == ("predicted", "hyperoffload", "h200", "complete")


def test_a_job_that_cannot_be_done_says_why(tmp_path: Path, database: Path) -> None:
    view = _wait(database, start_compile_job(database, _compile(tmp_path, "1B")))
    assert view.state == "failed"
    assert "the smallest feasible limit is" in view.message
    assert view.run_ids == ()


def _long_run_job(database: Path) -> int:
    request = RunRequest(model="tiny", policies=(Policy(memory_limit="70%"),), steps=1000)
    job = start_run_job(database, request)
    view = _wait(database, job, lambda view: view.ended or (len(view.run_ids) == 2 and view.done > 5))
    assert view.state == "running", view
    return job


@pytest.mark.mindspore
def test_a_cancelled_job_stops_soon_and_its_runs_are_marked(database: Path) -> None:
    job = _long_run_job(database)
    asked = time.monotonic()
    cancel_job(database, job)
    view = _wait(database, job)
    assert view.state == "cancelled"
    assert time.monotonic() - asked < 10
    opened = open_database(database)
    assert [get_run(opened, r).status for r in view.run_ids] == ["cancelled"] * 2
    opened.close()


@pytest.mark.mindspore
def test_a_job_whose_process_died_is_failed_and_its_runs_incomplete(database: Path) -> None:
    job = _long_run_job(database)
    opened = open_database(database)
    pid = get_job(opened, job).pid
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)
    view = _wait(database, job)
    assert view.state == "failed"
    assert [get_run(opened, r).status for r in view.run_ids] == ["incomplete"] * 2
    opened.close()


@pytest.mark.mindspore
def test_a_job_that_does_not_listen_is_killed(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = _long_run_job(database)
    opened = open_database(database)
    pid = get_job(opened, job).pid
    assert pid is not None
    os.killpg(pid, signal.SIGSTOP)
    assert command(["jobs", "--cancel", str(job), "--database", str(database)]) == 0
    assert capsys.readouterr().out == f"job {job} cancelled\n"
    view = job_view(database, job)
    assert (view.state, process_started(pid)) == ("cancelled", "")
    assert [get_run(opened, r).status for r in view.run_ids] == ["cancelled"] * 2
    opened.close()
