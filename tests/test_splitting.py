"""Transfers in parts where one held up another: what it gains, and that it is safe under any timing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import schedule_of_plan
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addresses import pack_plan
from hyperoffload_core.passes.plan import Plan, PlannedTransfer, Stay
from hyperoffload_core.passes.splitting import split_transfers
from hyperoffload_core.passes.timing import time_plan
from hyperoffload_core.policy import Policy, match_rules
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import DeadlockError
from hyperoffload_core.strategies import Request, find_strategy, resolve_options
from hyperoffload_core.verifier import verify
from tests.byte_machine import run_bytes
from tests.graphs import TINY, TINY_HALF, GraphBuilder, random_graph

ONE_NS = Link(1_000_000_000, 1)
SIMPLE = replace(TINY, link_out=ONE_NS, link_in=ONE_NS)
SLOW = Link(200_000_000, 1)
SLOW_FULL, SLOW_HALF = (replace(h, link_out=SLOW, link_in=SLOW) for h in (TINY, TINY_HALF))


def scheduled(graph: Graph, plan: Plan, durations_ns: tuple[int, ...], hardware: Hardware) -> Schedule:
    """The verified schedule of a plan."""
    limit = pack_plan(graph, plan, 0)[1]
    schedule = schedule_of_plan(graph, Durations(durations_ns, "made up"), hardware, plan, {}, "test", limit)
    verify(schedule)
    return schedule


def held_up() -> tuple[Graph, Plan, tuple[int, ...]]:
    """``urgent`` may come in when the first op gives up its bytes at 300 ns, while ``big`` is on the link until 1001.

    The last op needs ``big``, the one before it ``urgent``.
    """
    b = GraphBuilder("held-up")
    x, y, z = b.storage("x", 100, "input"), b.storage("y", 8), b.storage("z", 8, "output")
    urgent, big = b.storage("urgent", 100, "weight", True), b.storage("big", 1000, "weight", True)
    b.op("first", [x], [y])
    b.op("middle", [y, urgent], [z])
    b.op("last", [z, big], [z])
    plan = Plan(
        order=(0, 1, 2),
        stays=(
            Stay(x, -1, 0, to_end=False),
            Stay(y, 0, 1, to_end=False),
            Stay(z, 1, 2, to_end=True),
            Stay(urgent, 1, 1, to_end=False, fetch=0),
            Stay(big, 2, 2, to_end=False, fetch=1),
        ),
        transfers=(PlannedTransfer("prefetch", urgent, 0), PlannedTransfer("prefetch", big, -1)),
        links=((), (1, 0)),
        homes=("device", "device", "device", "pool", "pool"),
        spans_ns=((0, 300), (0, 1702), (1102, 1802), (1001, 1702), (0, 1802)),
        op_spans_ns=((0, 300), (1102, 1702), (1702, 1802)),
        offsets=(0, 104, 112, 0, 120),
    )
    return b.graph(), plan, (300, 600, 100)


def test_a_large_prefetch_is_split_where_the_urgent_one_behind_it_could_start() -> None:
    graph, plan, durations_ns = held_up()
    assert scheduled(graph, plan, durations_ns, SIMPLE).metrics.step_ns == 1001 + 101 + 600 + 100
    split = split_transfers(graph, plan, durations_ns, SIMPLE)
    schedule = scheduled(graph, split, durations_ns, SIMPLE)
    first, rest = schedule.moves[0]
    (urgent,) = schedule.moves[1]
    # 299 bytes would fit before 300 ns; 296 keep the alignment of the storage
    assert (first.offset_bytes, first.bytes, first.start_ns, first.end_ns) == (0, 296, 0, 297)
    assert (urgent.start_ns, urgent.end_ns) == (300, 401)
    assert (rest.offset_bytes, rest.bytes, rest.start_ns, rest.end_ns) == (296, 704, 401, 1106)
    assert first.partial and rest.partial and not urgent.partial
    assert schedule.metrics.step_ns == 1106 + 100
    assert (schedule.metrics.bytes_in, schedule.metrics.bytes_out) == (1100, 0)


@pytest.mark.parametrize("latency_ns", [60, 10_000])
def test_nothing_is_split_into_parts_that_are_mostly_latency(latency_ns: int) -> None:
    """Then the urgent one goes ahead of the whole big one, or nothing changes."""
    graph, plan, durations_ns = held_up()
    hardware = replace(TINY, link_in=Link(1_000_000_000, latency_ns))
    found = split_transfers(graph, plan, durations_ns, hardware)
    assert all(t.bytes is None for t in found.transfers)


def test_a_plan_that_waits_for_no_link_stays_as_it_is() -> None:
    graph, plan, durations_ns = held_up()
    ordered = replace(plan, links=((), (0, 1)))
    assert split_transfers(graph, ordered, (300, 6000, 100), SIMPLE) is ordered
    fast = replace(TINY, link_in=Link(10**15, 0))
    assert split_transfers(graph, plan, durations_ns, fast) is plan


def test_in_half_duplex_a_large_store_lets_an_urgent_prefetch_go_between() -> None:
    """``act`` leaves after the first op, which no one waits for; ``late`` may come in while that is on the link."""
    b = GraphBuilder("half")
    x, act, z = b.storage("x", 64, "input"), b.storage("act", 1000), b.storage("z", 8, "output")
    late = b.storage("late", 64, "weight", True)
    b.op("produce", [x], [act])
    b.op("other", [x], [z])
    b.op("use", [late, z], [z])
    b.op("back", [act, z], [z])
    graph, durations_ns = b.graph(), (100, 200, 3000, 100)
    plan = Plan(
        order=(0, 1, 2, 3),
        stays=(
            Stay(x, -1, 1, to_end=False),
            Stay(act, 0, 0, to_end=False, store=0),
            Stay(z, 1, 3, to_end=True),
            Stay(late, 2, 2, to_end=False, fetch=1),
            Stay(act, 3, 3, to_end=False, fetch=2),
        ),
        transfers=(
            PlannedTransfer("store", act, 0),
            PlannedTransfer("prefetch", late, 1),
            PlannedTransfer("prefetch", act, 1),
        ),
        links=((0, 1, 2),),
        homes=("device", "device", "device", "pool"),
        spans_ns=((0, 300), (0, 1101), (100, 6000), (1101, 4166), (1166, 6000)),
        op_spans_ns=((0, 100), (100, 300), (1166, 4166), (4166, 4266)),
        offsets=(0, 64, 1064, 0, 64),
    )
    half = replace(SIMPLE, duplex="half")
    assert scheduled(graph, plan, durations_ns, half).metrics.step_ns == 4266
    schedule = scheduled(graph, split_transfers(graph, plan, durations_ns, half), durations_ns, half)
    first, rest = schedule.moves[0]
    # 1000 bytes are aligned to 8: 192 bytes leave by 100 + 1 + 192, the prefetch follows at 300
    assert (first.bytes, first.end_ns) == (192, 293)
    assert [t.start_ns for t in schedule.moves[1]] == [300]
    assert (rest.start_ns, rest.end_ns) == (365, 365 + 1 + 808)
    assert schedule.metrics.step_ns == 365 + 3000 + 100


def plans(seed: int, hardware: Hardware, name: str) -> Iterator[tuple[Graph, Plan, tuple[int, ...]]]:
    """A plan of a random graph of large storages, and the same with its transfers in other orders on the links."""
    rng = random.Random(seed)
    graph = random_graph(rng)
    graph = replace(graph, storages=tuple(replace(s, bytes=s.bytes * rng.choice([3, 11, 25])) for s in graph.storages))
    durations_ns = tuple(rng.randint(20, 900) for _ in graph.ops)
    smallest = smallest_feasible_limit(graph).bytes
    limit = smallest + int(max(0, live_peak_bytes(graph) - smallest) * rng.random())
    strategy = find_strategy(name)
    request = Request(
        graph=graph,
        durations_ns=durations_ns,
        hardware=hardware,
        limit_bytes=limit,
        actions=match_rules(graph, Policy(memory_limit=f"{limit}B", strategy=name)),
        options=resolve_options(strategy, {}),
    )
    plan = pack_plan(graph, strategy.plan(request), limit)[0]
    yield graph, plan, durations_ns
    for _ in range(10 if plan.transfers else 0):
        other = replace(plan, links=tuple(tuple(rng.sample(run, len(run))) for run in plan.links))
        with suppress(DeadlockError):
            time_plan(graph, other, durations_ns, hardware)
            yield graph, other, durations_ns


@pytest.mark.parametrize("hardware", [SLOW_FULL, SLOW_HALF], ids=lambda h: h.duplex)
def test_a_changed_plan_is_faster_and_safe_under_any_timing(hardware: Hardware) -> None:
    rng, in_parts = random.Random(1), 0
    for seed in range(300):
        for graph, plan, durations_ns in plans(seed, hardware, ("lookahead", "superoffload")[seed % 2]):
            changed = split_transfers(graph, plan, durations_ns, hardware)
            if changed is plan:
                continue
            before = scheduled(graph, plan, durations_ns, hardware).metrics
            schedule = scheduled(graph, changed, durations_ns, hardware)
            in_parts += any(t.partial for t in schedule.transfers)
            assert schedule.metrics.step_ns < before.step_ns
            assert (schedule.metrics.bytes_in, schedule.metrics.bytes_out) == (before.bytes_in, before.bytes_out)
            assert schedule.metrics.reserved_bytes == before.reserved_bytes
            for _ in range(3):
                op_ns = [rng.randint(1, 900) for _ in graph.ops]
                run_bytes(schedule, op_ns, [rng.randint(1, 900) for _ in schedule.transfers])
    assert in_parts >= 5  # else this would test little
