"""A job is done once, reports as it goes, stops when asked, and does not outlive its process."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from db.abandoned import mark_abandoned
from db.database import Database, DatabaseError, open_database
from db.jobs import (
    claim,
    enqueue,
    fail_job,
    finish_job,
    get_job,
    job_cancelled,
    list_jobs,
    report_progress,
    request_cancel,
)
from db.models import Job, utc_now


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(tmp_path / "runs.db")


def test_a_job_goes_from_queued_to_done(database: Database) -> None:
    job = enqueue(database, "compile", {"policy": "tight"})
    taken = claim(database)
    assert taken is not None
    assert (taken.id, taken.state, taken.request) == (job, "running", {"policy": "tight"})
    assert not report_progress(database, job, done=1, total=4, message="capturing", log="line 1\n")
    assert not report_progress(database, job, done=2, log="line 2\n", run_id=17)
    now = get_job(database, job)
    assert (now.done, now.total, now.message, now.log) == (2, 4, "capturing", "line 1\nline 2\n")
    finish_job(database, job, "compiled")
    ended = get_job(database, job)
    assert (ended.state, ended.message, ended.run_ids, ended.ended) == ("done", "compiled", (17,), True)


def test_each_job_is_claimed_by_one(database: Database) -> None:
    jobs = {enqueue(database, "run", {}) for _ in range(10)}
    with ThreadPoolExecutor(4) as pool:
        claimed = [job for job in pool.map(lambda _: claim(database), range(20)) if job]
    assert len(claimed) == 10
    assert {job.id for job in claimed} == jobs


def test_a_given_job_is_claimed_only_while_it_is_queued(database: Database) -> None:
    first, second = enqueue(database, "run", {}), enqueue(database, "run", {})
    assert claim(database, second) is not None
    assert claim(database, second) is None
    assert get_job(database, first).state == "queued"


def test_a_queued_job_is_cancelled_at_once(database: Database) -> None:
    job = enqueue(database, "run", {})
    assert request_cancel(database, job).state == "cancelled"
    assert claim(database) is None


def test_a_running_job_learns_that_it_should_stop(database: Database) -> None:
    job = enqueue(database, "run", {})
    claim(database)
    assert request_cancel(database, job).state == "running"
    assert report_progress(database, job, done=1)
    job_cancelled(database, job)
    assert get_job(database, job).state == "cancelled"
    assert request_cancel(database, job).state == "cancelled"


def test_jobs_are_listed_newest_first(database: Database) -> None:
    jobs = [enqueue(database, "run", {}) for _ in range(3)]
    fail_job(database, jobs[1], "no such file")
    assert [j.id for j in list_jobs(database)] == jobs[::-1]
    assert [j.message for j in list_jobs(database, ["failed"])] == ["no such file"]
    with pytest.raises(DatabaseError, match="there is no job 99"):
        get_job(database, 99)


def test_the_job_of_a_dead_process_fails(database: Database) -> None:
    code = "import sys; from db.database import *; from db.jobs import *; claim(open_database(sys.argv[1]))"
    job = enqueue(database, "run", {})
    subprocess.run([sys.executable, "-c", code, str(database.path)], check=True, cwd=Path(__file__).parent.parent)
    assert get_job(database, job).state == "running"
    assert mark_abandoned(database) == ([], [job])
    assert "ended before it was finished" in get_job(database, job).message


def test_a_job_that_has_been_silent_for_long_fails(database: Database) -> None:
    job = enqueue(database, "run", {})
    claim(database)
    with database.write() as connection:
        connection.execute(update(Job).values(heartbeat=utc_now() - timedelta(minutes=14)))
    assert mark_abandoned(database) == ([], [])
    with database.write() as connection:
        connection.execute(update(Job).values(heartbeat=utc_now() - timedelta(minutes=16)))
    assert mark_abandoned(database) == ([], [job])
    assert "silent for 16 minutes" in get_job(database, job).message


def test_a_reused_process_id_is_not_the_same_process(database: Database) -> None:
    job = enqueue(database, "run", {})
    claim(database)
    with database.write() as connection:
        connection.execute(update(Job).values(process_started="12345"))
    assert mark_abandoned(database) == ([], [job])
