"""What is recorded comes back as it was; a writer that is killed leaves whole steps and a run marked incomplete."""

from __future__ import annotations

import gc
import json
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from profiles_samples import keep_schedule, offload_schedule, profile_of

from db import documents
from db.database import Database, DatabaseError, open_database
from db.documents import _decoded, load_schedule
from db.queries import get_run, list_runs, load_profile, median_step, run_steps
from db.recordings import (
    RunDescription,
    append_profile,
    cancel_run,
    fail_run,
    finish_run,
    record_profile,
    start_run,
)
from hyperoffload_core.recording import Profile, ProfileKind
from tests.dashboard_example import example_profile, example_schedule


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(tmp_path / "runs.db")


def description(profile: Profile, **more: object) -> RunDescription:
    return RunDescription(kind=profile.kind, schedule=profile.schedule, model="tiny", **more)  # type: ignore[arg-type]


def assert_equal(one: Profile, other: Profile) -> None:
    assert one.schedule == other.schedule
    assert (one.kind, one.conditions, one.losses) == (other.kind, other.conditions, other.losses)
    for table in ("ops", "transfers", "lifetimes", "steps"):
        a, b = getattr(one, table), getattr(other, table)
        for column in fields(a):
            np.testing.assert_array_equal(getattr(a, column.name), getattr(b, column.name), err_msg=column.name)


def test_a_recorded_profile_comes_back_equal(database: Database) -> None:
    profile = profile_of(offload_schedule(), "measured", steps=3, late_ns=2**40, losses=(3.0, 2.0, 1.0))
    run = record_profile(database, description(profile), profile)
    assert_equal(load_profile(database, run), profile)


def test_steps_appended_in_parts_continue_the_numbering(database: Database) -> None:
    schedule = offload_schedule()
    whole = profile_of(schedule, "measured", steps=3, losses=(3.0, 2.0, 1.0))
    run = start_run(database, description(whole))
    append_profile(database, run, profile_of(schedule, "measured", steps=2, losses=(3.0, 2.0)))
    append_profile(database, run, profile_of(schedule, "measured", steps=1, losses=(1.0,)))
    finish_run(database, run)
    assert_equal(load_profile(database, run), whole)


def test_one_step_is_loaded_as_step_zero(database: Database) -> None:
    profile = profile_of(offload_schedule(), "measured", steps=3, late_ns=7, losses=(3.0, 2.0, 1.0))
    run = record_profile(database, description(profile), profile)
    one = load_profile(database, run, step=2)
    assert one.step_count == 1
    assert set(one.ops.step) == set(one.transfers.step) == set(one.lifetimes.step) == {0}
    assert one.ops.start_ns.tolist() == [14, 114, 214, 334]
    assert one.losses == (1.0,)


def test_the_run_shows_the_median_step_and_the_highest_peak(database: Database) -> None:
    profile = profile_of(offload_schedule(), "measured", steps=3, late_ns=5)
    run = get_run(database, record_profile(database, description(profile), profile))
    assert (run.step_min_ns, run.step_median_ns, run.step_max_ns) == (420, 425, 430)
    assert median_step(database, run.id) == 1
    assert run.peak_bytes == run.peak_planned_bytes == 1750
    assert run.transfer_ns == 200
    assert run.hidden_ns == 180  # the prefetch runs 20 ns beyond op 2
    assert run.overlap == 0.9


def test_graphs_and_schedules_are_stored_once(database: Database) -> None:
    for schedule in (keep_schedule(), offload_schedule(), offload_schedule()):
        profile = profile_of(schedule)
        record_profile(database, description(profile), profile)
    with database.read() as connection:
        counts = [
            connection.exec_driver_sql(f"SELECT count(*) FROM {t}").scalar() for t in ("graph", "schedule", "run")
        ]
    assert counts == [1, 2, 3]
    schedule = offload_schedule()
    assert load_schedule(database, schedule.hash) == schedule


def test_events_can_be_read_with_plain_sql(database: Database) -> None:
    profile = profile_of(offload_schedule())
    record_profile(database, description(profile), profile)
    rows = sqlite3.connect(database.path).execute(
        "SELECT s.name, s.tensor_class, t.bytes, t.end_ns - t.start_ns FROM transfer_event t "
        "JOIN run r ON r.id = t.run_id JOIN graph_storage s ON s.graph_id = r.graph_id "
        "AND s.storage = t.storage WHERE t.direction = 0"
    )
    assert rows.fetchall() == [("act", "activation", 400, 100)]


@pytest.mark.parametrize("kind", ["predicted", "measured"])
def test_a_step_within_one_reading_of_the_clock_is_recorded(database: Database, kind: ProfileKind) -> None:
    """Each storage that left and came back did so at the time at which all began and ended."""
    schedule = example_schedule()
    run_id = record_profile(
        database, RunDescription(kind, schedule, "quick"), example_profile(schedule, kind, stretch=0)
    )
    held = load_profile(database, run_id).lifetimes
    assert sorted(held.storage.tolist()) == sorted({r.storage for r in schedule.residencies})
    assert len(held.storage) < len(schedule.residencies)
    assert get_run(database, run_id).step_median_ns == 0


def test_a_run_has_no_steps_before_the_first_append(database: Database) -> None:
    run = get_run(database, start_run(database, description(profile_of(keep_schedule()))))
    assert (run.status, run.step_count, run.step_median_ns, run.overlap) == ("running", 0, None, None)
    with pytest.raises(DatabaseError, match="no recorded step yet"):
        median_step(database, run.id)


def test_ended_runs_say_why_and_take_no_more_steps(database: Database) -> None:
    profile = profile_of(keep_schedule())
    failed, cancelled = (start_run(database, description(profile)) for _ in range(2))
    fail_run(database, failed, "the kernel of op 'mix' raised an error")
    cancel_run(database, cancelled)
    assert get_run(database, failed).reason == "the kernel of op 'mix' raised an error"
    assert get_run(database, cancelled).status == "cancelled"
    with pytest.raises(DatabaseError, match=f"run {failed} is failed"):
        append_profile(database, failed, profile)
    with pytest.raises(DatabaseError, match="there is no run 99"):
        append_profile(database, 99, profile)


def test_a_profile_of_another_graph_is_refused_and_leaves_nothing(database: Database) -> None:
    profile = profile_of(keep_schedule())
    run = start_run(database, description(profile))
    profile.ops.op[3] = 17
    with pytest.raises(DatabaseError, match="op 17, but its graph has 4"):
        append_profile(database, run, profile)
    assert get_run(database, run).step_count == 0


WRITER = """
import sys
sys.path[:0] = sys.argv[2:]
from profiles_samples import offload_schedule, profile_of
from db.database import open_database
from db.recordings import RunDescription, append_profile, start_run
profile = profile_of(offload_schedule(), "measured", steps=50)
database = open_database(sys.argv[1])
run = start_run(database, RunDescription("measured", profile.schedule, "tiny"))
while True:
    append_profile(database, run, profile)
    print("appended", flush=True)
"""


def test_a_killed_recording_is_incomplete_with_whole_appends(tmp_path: Path) -> None:
    path, here = tmp_path / "runs.db", Path(__file__).parent
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(here), str(here.parent)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout is not None
    for _ in range(3):
        assert writer.stdout.readline() == "appended\n"
    time.sleep(0.0137)  # most likely in the middle of an append
    writer.send_signal(signal.SIGKILL)
    writer.wait()

    database = open_database(path)
    run = list_runs(database)[0]
    assert run.status == "incomplete"
    assert run.reason == f"its process (pid {writer.pid}) ended before it was finished"
    assert run.step_count >= 150
    assert run.step_count % 50 == 0
    profile = load_profile(database, run.id)
    assert profile.step_count == run.step_count == len(run_steps(database, run.id).step_ns)
    assert len(profile.ops.op) == 4 * run.step_count
    assert len(profile.transfers.storage) == 2 * run.step_count
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"


def test_the_live_writer_is_left_alone(database: Database) -> None:
    run = start_run(database, description(profile_of(keep_schedule())))
    assert get_run(open_database(database.path), run).status == "running"


def test_other_threads_run_while_a_large_document_is_read() -> None:
    """Counted in turns that another thread takes, not in time."""
    rows = [{"id": n, "reads": [n, n + 1]} for n in range(50_000)]
    text = json.dumps({"ops": rows}).encode()
    turns, began, ended = 0, threading.Event(), threading.Event()

    def other() -> None:
        nonlocal turns
        began.set()
        while not ended.is_set():
            turns += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    thread = threading.Thread(target=other)
    sys.setswitchinterval(1e-5)
    try:
        thread.start()
        began.wait()
        start = turns
        document = _decoded(text)
        taken = turns - start
    finally:
        ended.set()
        sys.setswitchinterval(before)
        thread.join()
    assert document == {"ops": rows}
    assert taken > 100


def test_the_collector_is_on_again_after_a_schedule_was_read(database: Database) -> None:
    record_profile(database, RunDescription("predicted", offload_schedule(), "m"), profile_of(offload_schedule()))
    documents._schedules.clear()
    assert load_schedule(database, offload_schedule().hash) == offload_schedule()
    assert gc.isenabled()
