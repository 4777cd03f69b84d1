"""Event times, simulated profiles and what metrics say of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.explain.verdicts import transfer_verdicts
from hyperoffload_core.metrics import exposed_ns, live_curve, peak_bytes
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import DeadlockError, event_times, simulate
from tests.graphs import TINY, adjacent_layers, chain, olla_control_dep, olla_diamond, olla_simple, training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.random_times import simulate_random

schedules = st.randoms(use_true_random=False).map(random_schedule)


def test_ops_and_transfers_start_as_soon_as_what_they_wait_for_has_ended() -> None:
    # op 0 -> store 0 -> (op 2 waits); prefetch 1 after store 0 and op 1
    times = event_times(
        order=[0, 1, 2],
        op_waits=[[], [], [1]],
        links=[[0], [1]],
        after_ops=[[0], [1]],
        after_transfers=[[], [0]],
        op_ns=[10, 5, 7],
        transfer_ns=[20, 30],
    )
    assert times.op_start.tolist() == [0, 10, 60]
    assert times.op_end.tolist() == [10, 15, 67]
    assert times.transfer_start.tolist() == [10, 30]
    assert times.transfer_end.tolist() == [30, 60]


def test_a_link_runs_its_transfers_one_after_the_other() -> None:
    times = event_times([], [], [[1, 0], [2]], [[]] * 3, [[]] * 3, [], np.array([4, 5, 6]))
    assert times.transfer_start.tolist() == [5, 0, 0]


def test_a_circle_of_waits_names_its_op_and_transfer() -> None:
    with pytest.raises(DeadlockError, match="op 1, which waits for transfer 0, which waits for op 1") as caught:
        event_times([0, 1], [[], [0]], [[0]], [[1]], [[]], [1, 1], [1])
    assert (caught.value.op, caught.value.transfer) == (1, 0)


def test_waiting_for_what_no_link_carries_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="op 0 waits for transfer 0, which never runs"):
        event_times([0], [[0]], [[]], [[]], [[]], [1], [1])


@settings(max_examples=60, deadline=None)
@given(schedules)
def test_simulating_a_schedule_gives_its_own_times_stays_and_metrics(schedule: Schedule) -> None:
    profile = simulate(schedule)
    time = {t.op: t for t in schedule.op_times}
    assert profile.ops.op.tolist() == list(schedule.order)
    assert profile.ops.start_ns.tolist() == [time[o].start_ns for o in schedule.order]
    assert profile.transfers.end_ns.tolist() == [t.end_ns for t in schedule.transfers]
    assert profile.lifetimes.start_ns.tolist() == [r.start_ns for r in schedule.residencies]
    assert profile.lifetimes.end_ns.tolist() == [r.end_ns for r in schedule.residencies]
    metrics, steps = schedule.metrics, profile.steps
    assert steps.step_ns[0] == metrics.step_ns
    assert steps.exposed_ns[0] == metrics.exposed_ns
    assert steps.blocking_ns[0] == metrics.blocking_ns
    assert steps.peak_bytes[0] == metrics.peak_live_bytes
    assert (steps.bytes_out[0], steps.bytes_in[0]) == (metrics.bytes_out, metrics.bytes_in)


@settings(max_examples=60, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_under_random_durations_no_two_stays_share_a_byte_and_the_limit_holds(schedule: Schedule, seed: int) -> None:
    profile = simulate_random(schedule, np.random.default_rng(seed), spread=50)
    rows = profile.lifetimes
    stays = list(zip(*(c.tolist() for c in (rows.offset, rows.bytes, rows.start_ns, rows.end_ns)), strict=True))
    for i, (offset, size, start, end) in enumerate(stays):
        for other_offset, other_size, other_start, other_end in stays[:i]:
            together = start < other_end and other_start < end
            assert not (together and offset < other_offset + other_size and other_offset < offset + size)
    assert profile.steps.peak_bytes[0] <= schedule.memory_limit_bytes


@pytest.mark.parametrize(
    ("graph", "live"),
    [
        (olla_simple(), [10, 60, 50, 70, 40]),
        (olla_control_dep(), [10, 60, 110, 130, 150, 120, 10]),
        (olla_diamond(), [10, 60, 110, 130, 150, 120, 10]),
    ],
    ids=lambda v: getattr(v, "name", ""),
)
def test_live_bytes_of_the_published_tiny_graphs(graph, live: list[int]) -> None:  # type: ignore[no-untyped-def]
    profile = simulate(naive_schedule(graph))
    rows = profile.lifetimes
    _, curve = live_curve(rows.start_ns, rows.end_ns, rows.bytes)
    assert curve[:-1].tolist() == live
    assert profile.steps.peak_bytes[0] == max(live)


def test_the_diamond_in_its_best_order_peaks_at_130_bytes() -> None:
    order = ["ABCDEFG".index(op) for op in "ABDECFG"]
    assert naive_schedule(olla_diamond(), order=order).metrics.peak_live_bytes == 130


def test_a_stay_without_length_holds_nothing_and_touching_stays_do_not_add_up() -> None:
    assert peak_bytes([0, 10, 10], [10, 20, 10], [5, 6, 100]) == 6
    assert peak_bytes([], [], []) == 0


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30), st.integers(0, 9))))
def test_exposed_time_counts_each_moment_with_a_transfer_and_without_an_op(rows: list[tuple[bool, int, int]]) -> None:
    ops = [(s, s + d) for is_op, s, d in rows if is_op]
    moves = [(s, s + d) for is_op, s, d in rows if not is_op]
    moments = sum(any(s <= t < e for s, e in moves) and not any(s <= t < e for s, e in ops) for t in range(40))
    assert exposed_ns([s for s, _ in ops], [e for _, e in ops], [s for s, _ in moves], [e for _, e in moves]) == moments


def test_a_longer_store_delays_the_end_of_the_stay_that_it_ends() -> None:
    schedule = naive_schedule(chain(4, 100), gaps=[(1, 0)])
    store = schedule.transfers[0]
    profile = simulate(schedule, transfer_ns=[1000, 103])
    stay = next(i for i, r in enumerate(schedule.residencies) if r.storage == store.storage)
    assert profile.lifetimes.end_ns[stay] == profile.transfers.end_ns[0] == store.start_ns + 1000
    assert profile.kind == "predicted" and TINY.title in profile.conditions


# --- verdicts on transfers -------------------------------------------------------------------------------------------


def test_adjacent_offloaded_layers_stall_exactly_at_the_second_of_each_pair() -> None:
    """The public case: layers 2, 3, 6, 7 of 8 come from the pool; 3 and 7 are fetched when 2 and 6 are done."""
    graph = adjacent_layers(8, 100)
    weight = {s.name: s.id for s in graph.storages if s.tensor_class == "weight"}
    offloaded = [weight[f"w{i}"] for i in (2, 3, 6, 7)]
    schedule = naive_schedule(
        graph,
        homes=dict.fromkeys(offloaded, "pool"),
        ahead={weight["w2"]: 2, weight["w6"]: 2},
        durations_ns=[60] * 8,
    )
    verdicts = transfer_verdicts(schedule)
    by_layer = {graph.storages[t.storage].name: v for t, v in zip(schedule.transfers, verdicts, strict=True)}
    assert {name: v.blocking_ns for name, v in by_layer.items()} == {"w2": 0, "w3": 103, "w6": 0, "w7": 103}
    assert {name: v.exposed_ns for name, v in by_layer.items()} == {"w2": 0, "w3": 103, "w6": 0, "w7": 103}
    assert by_layer["w6"].slack_ns == 120 - 103
    # the second of a pair goes where the first one was; under a limit that has no room for both it has to wait for it
    place = {graph.storages[r.storage].name: r.offset for r in schedule.residencies}
    assert place["w3"] == place["w2"] and place["w7"] == place["w6"]
    assert {by_layer[name].cause for name in ("w3", "w7")} == {"memory"}
    # with room for both, nothing but the order in which they were asked for keeps it back
    roomy = replace(schedule, memory_limit_bytes=schedule.memory_limit_bytes + 100)
    assert [v.cause for v in transfer_verdicts(roomy)] == ["dependency", "order", "order", "order"]


def test_the_cause_says_what_a_transfer_waited_for() -> None:
    schedule = naive_schedule(training(2, 50), gaps=[(s, k) for s in range(9) for k in range(-1, 4)])
    transfers = {t.id: t for t in schedule.transfers}
    ends = {t.op: t.end_ns for t in schedule.op_times}
    for t, verdict in zip(schedule.transfers, transfer_verdicts(schedule), strict=True):
        own = [
            ends[o] for o in t.after_ops if t.storage in {*schedule.graph.ops[o].reads, *schedule.graph.ops[o].writes}
        ]
        own += [transfers[o].end_ns for o in t.after_transfers if transfers[o].storage == t.storage]
        if t.start_ns in own:
            assert verdict.cause == "dependency"
        elif verdict.cause == "link":
            assert any(o.end_ns == t.start_ns and o.kind == t.kind for o in schedule.transfers)
        elif verdict.cause == "memory":
            freed = [r.storage for r in schedule.residencies if r.end_ns == t.start_ns and r.storage != t.storage]
            assert freed
    assert {v.cause for v in transfer_verdicts(schedule)} >= {"dependency", "link"}


@settings(max_examples=60, deadline=None)
@given(schedules)
def test_blocking_time_is_fully_attributed_to_transfers(schedule: Schedule) -> None:
    verdicts = transfer_verdicts(schedule)
    assert sum(v.blocking_ns for v in verdicts) == schedule.metrics.blocking_ns
    assert transfer_verdicts(simulate(schedule)) == verdicts
    for t, v in zip(schedule.transfers, verdicts, strict=True):
        assert v.hidden_ns + v.exposed_ns == t.end_ns - t.start_ns


@settings(max_examples=40, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_slack_is_exactly_how_much_later_a_transfer_may_end(schedule: Schedule, seed: int) -> None:
    if not schedule.transfers:
        return
    row = Random(seed).randrange(len(schedule.transfers))
    slack = transfer_verdicts(schedule)[row].slack_ns

    def delayed(extra: int) -> tuple[list[int], int]:
        durations = [t.end_ns - t.start_ns for t in schedule.transfers]
        durations[row] += extra
        profile = simulate(schedule, transfer_ns=durations)
        return profile.ops.start_ns.tolist(), int(profile.steps.step_ns[0])

    planned = delayed(0)
    assert delayed(slack) == planned
    assert delayed(slack + 1) != planned


def test_a_schedule_whose_waits_form_a_circle_cannot_be_simulated() -> None:
    schedule = naive_schedule(chain(4, 100), gaps=[(1, 0)])
    store, prefetch = schedule.transfers
    circle = replace(schedule, transfers=(replace(store, after_transfers=(prefetch.id,)), prefetch))
    with pytest.raises(DeadlockError, match="transfer"):
        simulate(circle)
