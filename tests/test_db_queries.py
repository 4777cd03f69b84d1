"""Windows hold exactly the events that touch them; lists filter and sort; runs are found by what people type."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import keep_schedule, offload_schedule, profile_of

from db.database import Database, DatabaseError, open_database
from db.policies import save_policy
from db.queries import (
    RunFilter,
    find_run,
    get_run,
    lifetimes_window,
    list_runs,
    ops_window,
    transfers_window,
)
from db.recordings import RunDescription, fail_run, record_profile, start_run
from hyperoffload_core.recording import OpEvents, Profile, StorageLifetimes, TransferEvents


@pytest.fixture
def database(tmp_path: Path) -> Database:
    return open_database(tmp_path / "runs.db")


def touching(events: Any, step: int, start: int, end: int) -> set[tuple[int, ...]]:
    rows = (events.step == step) & (events.start_ns < end) & (events.end_ns > start)
    return {tuple(row) for row in np.stack([getattr(events, f.name)[rows] for f in fields(events)], axis=1).tolist()}


def rows_of(events: Any) -> set[tuple[int, ...]]:
    return {tuple(row) for row in np.stack([getattr(events, f.name) for f in fields(events)], axis=1).tolist()}


@st.composite
def scattered_profiles(draw: st.DrawFn) -> Profile:
    """Events at random times and of very different lengths in two steps; windows do not ask whether they make sense."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = profile_of(offload_schedule(), "measured", steps=2)

    def times(count: int) -> tuple[np.ndarray, np.ndarray]:
        start = np.unique(random.integers(0, 2**40, count * 2))[:count]
        return start, start + random.integers(1, 2 ** random.integers(2, 40), count)

    count = draw(st.integers(1, 60))
    step = np.sort(random.integers(0, 2, count))

    def ids(most: int) -> np.ndarray:
        return random.integers(0, most, count)

    zero = np.zeros(count, dtype=np.int64)
    moves = TransferEvents(step, ids(2), ids(5), ids(2), ids(99), *times(count))
    lifetimes = StorageLifetimes(step, ids(5), ids(99), ids(99), *times(count))
    return replace(base, ops=OpEvents(step, ids(4), *times(count), zero), transfers=moves, lifetimes=lifetimes)


@settings(max_examples=30, deadline=None)
@given(scattered_profiles(), st.data())
def test_a_window_holds_what_touches_it(profile: Profile, data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        database = open_database(Path(folder) / "runs.db")
        run = record_profile(database, RunDescription("measured", profile.schedule, "tiny"), profile)
        step = data.draw(st.integers(0, 1))
        for window, events in (
            (ops_window, profile.ops),
            (transfers_window, profile.transfers),
            (lifetimes_window, profile.lifetimes),
        ):
            # Windows near an event's end ask for events that began long before.
            start = int(data.draw(st.sampled_from(events.end_ns.tolist()))) - data.draw(st.integers(0, 2))
            end = start + data.draw(st.integers(1, 2**41))
            found = window(database, run, step, start, end)
            assert rows_of(found) == touching(events, step, start, end)
            assert np.all(np.diff(found.start_ns) >= 0)


def test_an_event_that_ends_where_the_window_starts_is_outside(database: Database) -> None:
    profile = profile_of(offload_schedule())
    run = record_profile(database, RunDescription("predicted", profile.schedule, "tiny"), profile)
    assert ops_window(database, run, 0, 100, 200).op.tolist() == [1]
    assert transfers_window(database, run, 0, 200, 220).transfer.tolist() == []
    assert ops_window(database, run, 7, 0, 1000).op.tolist() == []


@pytest.fixture
def three_runs(database: Database) -> Database:
    policy = save_policy(database, "tight", 'memory_limit = "60%"', {"memory_limit": "60%"})
    keep, offload = profile_of(keep_schedule(), "measured"), profile_of(offload_schedule(), "measured", late_ns=9)
    base = RunDescription("measured", keep.schedule, "llama-30m", session="s1", label="base", tags=("demo",))
    record_profile(database, base, keep)
    described = RunDescription("measured", offload.schedule, "llama-30m", session="s1", policy_version=policy.id)
    record_profile(database, described, offload)
    failed = start_run(database, RunDescription("predicted", offload.schedule, "deepseek", note="odd 100% case"))
    fail_run(database, failed, "no reason")
    return database


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (RunFilter(), [3, 2, 1]),
        (RunFilter(kind="measured"), [2, 1]),
        (RunFilter(status="failed"), [3]),
        (RunFilter(session="s1", strategy="none"), [1]),
        (RunFilter(policy="tight"), [2]),
        (RunFilter(tag="demo"), [1]),
        (RunFilter(text="LLAMA"), [2, 1]),
        (RunFilter(text="100%"), [3]),
        (RunFilter(text="_"), []),
        (RunFilter(schedule_hash=offload_schedule().hash), [3, 2]),
        (RunFilter(hardware="elsewhere"), []),
    ],
)
def test_runs_are_filtered(three_runs: Database, where: RunFilter, found: list[int]) -> None:
    assert [row.id for row in list_runs(three_runs, where)] == found


def test_runs_are_sorted_with_unknown_values_last(three_runs: Database) -> None:
    assert [r.id for r in list_runs(three_runs, sort="step_median_ns", descending=False)] == [1, 2, 3]
    assert [r.id for r in list_runs(three_runs, sort="step_median_ns")] == [2, 1, 3]
    assert [r.id for r in list_runs(three_runs, limit=1, offset=1)] == [2]
    with pytest.raises(DatabaseError, match="cannot be sorted by 'speed'"):
        list_runs(three_runs, sort="speed")


def test_a_run_row_names_its_policy_and_schedule(three_runs: Database) -> None:
    row = get_run(three_runs, 2)
    assert (row.policy, row.policy_number, row.graph_name) == ("tight", 1, "tiny")
    assert (row.duration_source, row.lower_bound_ns) == ("made up", 400)
    assert row.title == "llama-30m · hyperoffload · measured"


def test_runs_are_found_by_number_label_and_latest(three_runs: Database) -> None:
    assert find_run(three_runs, "2").id == 2
    assert find_run(three_runs, "base").id == 1
    assert find_run(three_runs, "latest").id == 3
    with pytest.raises(DatabaseError, match="no run has the label 'bass'"):
        find_run(three_runs, "bass")
    with pytest.raises(DatabaseError, match="there is no run 44"):
        find_run(three_runs, "44")
    with pytest.raises(DatabaseError, match="holds no run yet"):
        find_run(open_database(three_runs.path.parent / "empty.db"), "latest")
