"""What the kernels record of a chain becomes a profile: every event once, in order, and memory by those events."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hyperoffload_core.cost import measured_durations
from hyperoffload_core.explain.explanation import explain
from hyperoffload_core.ir import storages_of
from hyperoffload_core.metrics import live_curve
from hyperoffload_core.mindspore_plugin.chain import Chain, Done, RunOp, Start, build_chain
from hyperoffload_core.mindspore_plugin.kernels import EVENT, EVENT_KINDS
from hyperoffload_core.mindspore_plugin.recorded import moves_of, recorded_profile
from hyperoffload_core.recording import UNKNOWN_ADDRESS, Profile
from hyperoffload_core.schedule import Schedule
from tests.graphs import training
from tests.naive_schedule import naive_schedule
from tests.recomputations import random_recomputed_schedule
from tests.valid_schedules import SOURCES, valid_schedule

SEEDS = st.integers(0, 40)
BEGAN_NS = 1_000_000


def tensors_of(schedule: Schedule) -> dict[int, int]:
    """What of the step one op gives as a whole, with the position of its last reader."""
    graph, position = schedule.graph, {op: n for n, op in enumerate(schedule.order)}
    return {
        s.id: max(position[a.op] for a in graph.accesses[s.id])
        for s in graph.storages
        if not s.persistent and s.tensor_class != "input" and sum(s.id in op.writes for op in graph.ops) == 1
    }


def chain_of(schedule: Schedule, without: frozenset[int] = frozenset()) -> Chain:
    tensors = tensors_of(schedule)
    movable = {s.id for s in schedule.graph.storages if s.persistent or s.id in tensors} - without
    return build_chain(schedule, movable, tensors)


def events_of(chain: Chain, random: Random, steps: int = 1, unmarked: frozenset[int] = frozenset()) -> NDArray[np.void]:
    """What the kernels would record of steps in which ops and copies take random times."""
    rows: list[tuple[int, ...]] = []
    now = BEGAN_NS
    for step in range(1, steps + 1):

        def add(kind: str, index: int, start: int, end: int, issued: int | None = None, step: int = step) -> None:
            rows.append((step, index, EVENT_KINDS.index(kind), start if issued is None else issued, start, end, 0))

        add("begin", 0, now, now)
        ended: dict[int, int] = {}
        free = {"store": now, "prefetch": now, "detach": now}
        copies = []
        for item in chain.items:
            now += random.randint(0, 2)
            match item:
                case RunOp(op):
                    now += random.randint(1, 90)
                    if op not in unmarked:
                        add("mark", op, now, now)
                case Start(move):
                    start = max([now, free[move.kind], *(ended[a] for a in move.after)]) + random.randint(0, 5)
                    ended[move.index] = free[move.kind] = end = start + random.randint(1, 200)
                    copies.append((move.kind, move.index, start, end, now))
                case Done(move):
                    called, now = now, max(now, ended[move.index])
                    add("done", move.index, called, now)
        called, now = now, max([now, *ended.values()])
        for copy in copies:
            add(*copy)
        add("end", 0, called, now)
        now += random.randint(0, 1000)
    return np.array(rows, EVENT)


def profile_of(schedule: Schedule, seed: int, steps: int = 1) -> Profile:
    chain = chain_of(schedule)
    return recorded_profile(schedule, chain, events_of(chain, Random(seed), steps), "measured here")


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_ops_run_in_order_without_overlap_and_fill_the_step_with_the_waits(source: str, seed: int) -> None:
    schedule = valid_schedule(source, seed)
    found = profile_of(schedule, seed, steps=2)
    assert found.kind == "measured"
    assert found.step_count == 2
    for step in range(2):
        rows = found.ops.step == step
        start, end = found.ops.start_ns[rows], found.ops.end_ns[rows]
        assert found.ops.op[rows].tolist() == list(schedule.order)
        assert (end >= start).all()
        assert (start[1:] >= end[:-1]).all()
        assert (end - start).sum() == found.steps.compute_ns[step]
        assert found.steps.compute_ns[step] + found.steps.blocking_ns[step] == found.steps.step_ns[step]
        assert end.max() <= found.steps.step_ns[step]


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_transfers_are_those_of_the_schedule_with_the_times_of_their_copies(source: str, seed: int) -> None:
    schedule = valid_schedule(source, seed)
    chain = chain_of(schedule)
    events = events_of(chain, Random(seed))
    found = recorded_profile(schedule, chain, events, "").transfers
    moved = {m.storage for m in chain.moves}
    planned = {t.id: t for t in schedule.transfers if t.storage in moved}
    assert sorted(found.transfer.tolist()) == sorted(planned)
    copies = {
        int(e["index"]): (int(e["start_ns"]) - BEGAN_NS, int(e["end_ns"]) - BEGAN_NS)
        for e in events
        if EVENT_KINDS[e["kind"]] in ("store", "prefetch")
    }
    index_of = {t.id: n for n, parts in moves_of(schedule, chain) for t in parts}
    for row, transfer in enumerate(found.transfer.tolist()):
        t = planned[transfer]
        assert (found.storage[row], found.bytes[row], found.direction[row]) == (
            t.storage,
            t.bytes,
            int(t.kind == "prefetch"),
        )
        assert (found.start_ns[row], found.end_ns[row]) == copies[index_of[transfer]]


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=25, deadline=None)
@given(seed=SEEDS)
def test_what_an_op_or_copy_uses_is_on_the_device_meanwhile_and_once(source: str, seed: int) -> None:
    schedule = valid_schedule(source, seed)
    found = profile_of(schedule, seed)
    lives, step_ns = found.lifetimes, int(found.steps.step_ns[0])
    stays: dict[int, list[tuple[int, int]]] = {}
    for storage, start, end in zip(lives.storage.tolist(), lives.start_ns.tolist(), lives.end_ns.tolist(), strict=True):
        assert 0 <= start < end <= step_ns
        stays.setdefault(storage, []).append((start, end))
    for op, start, end in zip(
        found.ops.op.tolist(), found.ops.start_ns.tolist(), found.ops.end_ns.tolist(), strict=True
    ):
        for storage in storages_of(schedule.graph.ops[op]):
            assert any(a <= start and end <= b for a, b in stays[storage]), schedule.graph.storages[storage]
    for storage, start, end in zip(
        found.transfers.storage.tolist(),
        found.transfers.start_ns.tolist(),
        found.transfers.end_ns.tolist(),
        strict=True,
    ):
        assert any(a <= start and end <= b for a, b in stays[storage])
    for storage, rows in stays.items():
        assert rows == sorted(rows)
        if schedule.graph.storages[storage].persistent:
            assert all(before[1] <= after[0] for before, after in pairwise(rows))
    assert (lives.offset == UNKNOWN_ADDRESS).all()
    _, live = live_curve(lives.start_ns, lives.end_ns, lives.bytes)
    assert found.steps.peak_bytes[0] == live.max()


def test_a_parameter_whose_home_is_the_pool_is_there_from_its_prefetch_to_its_detach() -> None:
    graph = training(3)
    weight = next(s.id for s in graph.storages if s.tensor_class == "weight")
    schedule = naive_schedule(graph, gaps=[(weight, -1)], homes={weight: "pool"})
    chain = chain_of(schedule)
    events = events_of(chain, Random(1))
    found = recorded_profile(schedule, chain, events, "").lifetimes
    rows = found.storage == weight
    kind_of = {m.index: m.kind for m in chain.moves if m.storage == weight}
    at = {kind_of[int(e["index"])]: e for e in events if EVENT_KINDS[e["kind"]] == kind_of.get(int(e["index"]))}
    assert found.start_ns[rows][0] == at["prefetch"]["start_ns"] - BEGAN_NS
    assert found.end_ns[rows][-1] == at["detach"]["end_ns"] - BEGAN_NS


def test_what_graph_mode_cannot_move_has_no_transfers_and_counts_for_the_whole_step() -> None:
    schedule = valid_schedule("reactive", 3)
    stuck = next(t.storage for t in schedule.transfers if schedule.graph.storages[t.storage].persistent)
    chain = chain_of(schedule, without=frozenset({stuck}))
    found = recorded_profile(schedule, chain, events_of(chain, Random(1)), "")
    assert stuck not in found.transfers.storage
    moved = {m.storage for m in chain.moves}
    assert set(found.transfers.transfer.tolist()) == {t.id for t in schedule.transfers if t.storage in moved}
    rows = found.lifetimes.storage == stuck
    assert found.lifetimes.start_ns[rows].tolist() == [0]
    assert found.lifetimes.end_ns[rows].tolist() == found.steps.step_ns.tolist()
    told = explain(found, 0)
    assert {move.storage for move in told.moves} <= moved


def test_an_op_that_mindspores_graph_does_not_have_takes_no_time() -> None:
    schedule = valid_schedule("none", 5)
    missing = schedule.order[2]
    chain = chain_of(schedule)
    found = recorded_profile(schedule, chain, events_of(chain, Random(1), unmarked=frozenset({missing})), "").ops
    row = found.op.tolist().index(missing)
    assert found.start_ns[row] == found.end_ns[row] == found.end_ns[row - 1]
    assert found.op.tolist() == list(schedule.order)


def test_a_step_whose_first_events_were_lost_is_left_out() -> None:
    schedule = valid_schedule("hyperoffload", 2)
    chain = chain_of(schedule)
    events = events_of(chain, Random(1), steps=3)
    whole = recorded_profile(schedule, chain, events, "")
    rest = recorded_profile(schedule, chain, events[5:], "")
    assert (whole.step_count, rest.step_count) == (3, 2)
    assert rest.steps.step_ns.tolist() == whole.steps.step_ns[1:].tolist()
    assert set(rest.ops.step.tolist()) == {0, 1}


def test_op_durations_for_the_compiler_come_from_steps_of_graph_mode() -> None:
    schedule = valid_schedule("none", 1)
    found = measured_durations([profile_of(schedule, 7, steps=5)])
    assert sum(found.ns) == pytest.approx(sorted(profile_of(schedule, 7, steps=5).steps.compute_ns)[2], rel=0.05)


def test_an_op_that_runs_again_is_recorded_each_time() -> None:
    graph, again = random_recomputed_schedule(Random(1))
    assert len(again.graph.ops) > len(graph.ops)
    assert profile_of(again, 3).ops.op.tolist() == list(again.order)
