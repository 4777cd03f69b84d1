"""A storage that moves in parts: it is away once, however many parts, and every place that shows transfers says so."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles_samples import ACT, GRAPH

from app.dashboard.views.details import Link, details
from app.dashboard.views.lane_traces import lane_traces
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import Timeline
from app.dashboard.views.transfers import transfer_rows
from app.dashboard.views.why import why
from db.database import open_database
from db.queries import load_profile, transfers_window
from db.recordings import RunDescription, record_profile
from hyperoffload_core.explain.verdicts import transfer_verdicts
from hyperoffload_core.schedule import Schedule, ScheduleFileError, from_document, to_document
from hyperoffload_core.simulator import simulate
from hyperoffload_core.verifier import verify
from profiles.chrome_trace import trace_events
from profiles.compare import compare
from profiles.comparison import LabelledProfile
from profiles.figures_lanes import gantt_figure
from profiles.report import report_html
from tests.graphs import training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.random_times import simulate_random


def moved(parts: int) -> Schedule:
    """``act`` of 400 bytes leaves after the first op and is back for the last."""
    return naive_schedule(GRAPH, gaps=[(ACT, 0)], durations_ns=[300] * 4, parts=parts)


@pytest.fixture
def view() -> StepView:
    return StepView(simulate(moved(3)))


def test_the_parts_of_a_move_belong_together() -> None:
    everywhere = [(s, k) for s in range(12) for k in range(-1, 5)]
    schedule = naive_schedule(training(3), gaps=everywhere, parts=3)
    whole = naive_schedule(training(3), gaps=everywhere)
    assert all(len(move) == 1 for move in whole.moves)
    assert len(schedule.moves) == len(whole.moves)
    for move in schedule.moves:
        assert len({(t.storage, t.kind) for t in move}) == 1
        assert sum(t.bytes for t in move) == schedule.graph.storages[move[0].storage].bytes
    assert sorted(t.id for move in schedule.moves for t in move) == sorted(t.id for t in schedule.transfers)


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 1 << 32))
def test_whatever_parts_take_a_stay_spans_all_of_them_and_ops_find_all_of_them(random: Random, seed: int) -> None:
    """A stay begins with the first part in and ends with the last part out; an op that needs the storage runs after
    the last part in, a part in starts after the last part out."""
    schedule = random_schedule(random)
    profile = simulate_random(schedule, np.random.default_rng(seed), spread=30)
    columns = (profile.transfers.transfer, profile.transfers.start_ns, profile.transfers.end_ns)
    time = {t: (start, end) for t, start, end in zip(*(c.tolist() for c in columns), strict=True)}
    op_start = dict(zip(profile.ops.op.tolist(), profile.ops.start_ns.tolist(), strict=True))
    life, planned_op = profile.lifetimes, {t.op: t for t in schedule.op_times}
    last_out: dict[int, int] = {}
    for move in schedule.moves:
        storage = move[0].storage
        row = max(
            i for i, r in enumerate(schedule.residencies) if r.storage == storage and r.start_ns <= move[0].start_ns
        )
        start, end = int(life.start_ns[row]), int(life.end_ns[row])
        assert all(start <= time[t.id][0] and time[t.id][1] <= end for t in move)
        arrived = max(time[t.id][1] for t in move)
        if move[0].kind == "store":
            last_out[storage] = arrived
            continue
        assert start == min(time[t.id][0] for t in move) >= last_out.get(storage, 0)
        stay = schedule.residencies[row]
        users = [a.op for a in schedule.graph.accesses[storage]]
        inside = [o for o in users if stay.start_ns <= planned_op[o].start_ns and planned_op[o].end_ns <= stay.end_ns]
        assert all(op_start[o] >= arrived for o in inside)


def test_moving_in_parts_moves_the_same_bytes_and_pays_the_latency_per_part() -> None:
    whole, parts = moved(1).metrics, moved(4).metrics
    assert (parts.bytes_out, parts.bytes_in) == (whole.bytes_out, whole.bytes_in) == (400, 400)
    one, four = simulate(moved(1)), simulate(moved(4))
    assert [int((p.transfers.end_ns - p.transfers.start_ns).sum()) for p in (one, four)] == [2 * 403, 8 * 103]
    assert sum(v.blocking_ns for v in transfer_verdicts(moved(4))) == parts.blocking_ns


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("partial", "yes", "'yes' is neither true nor false"),
        ("offset_bytes", 1.5, "'1.5' is no integer"),
        ("bytes", "4", "'4' is no integer"),
    ],
)
def test_a_part_that_is_written_wrongly_is_told(field: str, value: object, says: str) -> None:
    document = json.loads(json.dumps(to_document(moved(3))))
    document["transfers"][1][field] = value
    with pytest.raises(ScheduleFileError, match=says):
        from_document(document)


def test_a_recorded_part_comes_back_with_its_bytes(tmp_path: Path) -> None:
    schedule = moved(3)
    profile = simulate(schedule)
    database = open_database(tmp_path / "parts.db")
    run = record_profile(database, RunDescription(kind="predicted", schedule=schedule, model="tiny"), profile)
    found = load_profile(database, run)
    assert found.schedule == schedule
    verify(found.schedule)
    for column in fields(profile.transfers):
        np.testing.assert_array_equal(getattr(found.transfers, column.name), getattr(profile.transfers, column.name))
    window = transfers_window(database, run, 0, 0, int(profile.transfers.end_ns[1]))
    assert window.bytes.tolist() == [133, 133]
    database.close()


def test_a_storage_in_parts_is_compared_with_the_same_storage_moved_whole() -> None:
    """It is treated alike (offloaded once) but moves differently (three parts), on one row."""
    found = compare([LabelledProfile(n, simulate(moved(p))) for n, p in (("whole", 1), ("parts", 3))])
    assert found.storages == ()
    assert [(t.storage, t.direction) for t in found.transfers] == [("act", "in"), ("act", "out")]
    for transfer in found.transfers:
        assert [(m.count, m.parts, m.bytes) for m in transfer.moves] == [(1, 1, 400), (1, 3, 400)]
    kept = compare([LabelledProfile(n, simulate(s)) for n, s in (("none", naive_schedule(GRAPH)), ("parts", moved(3)))])
    assert [p.text for p in kept.storages[0].placements if p] == ["kept", "offloaded 1 time"]
    profiles = [LabelledProfile(n, simulate(moved(p))) for n, p in (("whole", 1), ("parts", 3))]
    assert "in 3 parts" in report_html(compare(profiles), profiles)


def test_the_trace_and_the_chart_of_the_report_name_the_part() -> None:
    profile = simulate(moved(3))
    slices = [e for e in trace_events(profile, "parts") if e["ph"] == "X" and e["cat"] == "transfer"]
    assert [e["args"]["part"] for e in slices] == [f"part {n} of 3" for n in (1, 2, 3)] * 2
    assert [(e["args"]["offset_bytes"], e["args"]["bytes"]) for e in slices[:3]] == [(0, 133), (133, 133), (266, 134)]
    assert "part" not in next(e for e in trace_events(simulate(moved(1)), "") if e.get("cat") == "transfer")["args"]
    assert "(part 2 of 3)" in str(gantt_figure([LabelledProfile("parts", profile)]))


def test_bars_rows_and_details_of_the_dashboard_name_the_part(view: StepView) -> None:
    traces = list(lane_traces(view, (0, view.end_ns), view.end_ns, Timeline(view).places(0)))
    hovers = [text for t in traces for text in t.get("hovertext", ()) if "act" in text]
    assert len(hovers) == 6
    assert sum("(part 2 of 3)" in text for text in hovers) == 2
    rows = sorted(transfer_rows(view), key=lambda r: r["start_ns"])
    assert [(r["direction"], r["part"]) for r in rows] == [
        (d, f"part {n} of 3") for d in ("out", "in") for n in (1, 2, 3)
    ]
    second = details(view, "transfer", view.profile.schedule.moves[0][1].id)
    assert second is not None
    assert dict(second.facts)["Bytes"] == ("133 B, part 2 of 3: from byte 133 of 400 on",)


def test_a_storage_in_parts_says_why_it_leaves_as_one_that_moves_whole(view: StepView) -> None:
    found = details(view, "storage", ACT)
    assert found is not None
    facts = dict(found.facts)
    links = [w.text for w in facts["Transfers"] if isinstance(w, Link)]
    assert len(links) == 6 and all("part " in text for text in links)
    # Six parts, each with the latency.
    assert "its copies take 818 ns of the links" in why(view.explanation, "storage", ACT).text
    pool = naive_schedule(GRAPH, homes={0: "pool"}, gaps=[(0, 0)], durations_ns=[900] * 4, parts=2)
    weight = StepView(simulate(pool))
    found = details(weight, "storage", 0)
    assert found is not None
    assert dict(found.facts)["Home"] == ("the pool",)
    assert "leaves" in why(weight.explanation, "storage", 0).text


def test_a_move_that_lacks_a_part_is_still_shown() -> None:
    schedule = moved(3)
    short = replace(schedule, transfers=tuple(t for t in schedule.transfers if t.id != 1))
    assert [len(move) for move in short.moves] == [2, 3]
