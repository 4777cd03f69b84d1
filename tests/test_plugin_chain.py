"""A schedule as one chain: under any timing every op reads the newest value on the device, and nothing hangs."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.mindspore_plugin.chain import Chain, Done, RunOp, Start, build_chain
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import STRATEGIES
from tests.chain_machine import ChainMachine, Fault
from tests.graphs import TINY, TINY_HALF, graphs, race, training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.recomputations import random_recomputed_schedule
from tests.valid_schedules import SOURCES, valid_schedule

# Options with which a strategy moves something of graphs this small.
SMALL: dict[str, dict[str, object]] = {
    "hyperoffload": {"effort": "fast"},
    "optimal": {"time_limit_s": 2.0},
    "mindspore-distance": {"SELECT_DISTANCE": 2, "PREFETCH_DISTANCE": 1},
    "mindspore-peak": {"SELECT_DISTANCE": 2, "PREFETCH_DISTANCE": 1, "PEAK_MODELED_HEADROOM_BYTES": 0},
    "hyper-parallel": {"max_resident_activation_mb": 0},
    "deepcompile": {"offload_act_min_size_mb": 0.0},
    "zero-infinity": {"param_persistence_threshold": 0},
}


SEEDS = st.integers(0, 2**32)


def tensors_of(schedule: Schedule) -> dict[int, int]:
    """What of the step one op gives as a whole, with the position of its last reader."""
    graph = schedule.graph
    position = {op: n for n, op in enumerate(schedule.order)}
    return {
        s.id: max(position[a.op] for a in graph.accesses[s.id])
        for s in graph.storages
        if not s.persistent and s.tensor_class != "input" and sum(s.id in op.writes for op in graph.ops) == 1
    }


def movable_of(schedule: Schedule, tensors: dict[int, int]) -> set[int]:
    """What graph mode can move: parameters, and tensors but for results that a caller finds on the device."""
    graph = schedule.graph
    return {
        s.id
        for s in graph.storages
        if s.persistent or (s.id in tensors and not (s.tensor_class == "output" and schedule.homes[s.id] == "pool"))
    }


def checked(schedule: Schedule, random: Random, movable: set[int] | None = None) -> tuple[Chain, ChainMachine]:
    """The chain, run for some steps under random timing."""
    tensors = tensors_of(schedule)
    chain = build_chain(schedule, movable_of(schedule, tensors) if movable is None else movable, tensors)
    machine = ChainMachine(schedule, chain, tensors, random)
    for _ in range(3):
        machine.step()
    return chain, machine


@given(SEEDS)
@settings(max_examples=250, deadline=None)
def test_any_valid_schedule_runs_as_a_chain_under_any_timing(seed: int) -> None:
    random = Random(seed)
    checked(random_schedule(random), random)


@given(st.sampled_from(SOURCES), st.integers(0, 60), SEEDS)
@settings(max_examples=100, deadline=None)
def test_schedules_whose_ops_name_only_the_last_transfer_of_a_link(source: str, number: int, seed: int) -> None:
    checked(valid_schedule(source, number), Random(seed))


@given(
    graphs(),
    st.sampled_from(sorted(STRATEGIES)),
    st.sampled_from([TINY, TINY_HALF]),
    st.floats(0.4, 1),
    SEEDS,
)
@settings(max_examples=100, deadline=None)
def test_the_schedules_of_every_strategy(
    graph: Graph, strategy: str, hardware: Hardware, fraction: float, seed: int
) -> None:
    random = Random(seed)
    schedule = compiled(graph, strategy, hardware, fraction, random)
    chain, machine = checked(schedule, random)
    moved = {m.storage for m in chain.moves}
    biggest = max((schedule.graph.storages[s].bytes for s in moved), default=0)
    extra = max(2 * biggest, most_bytes_at_once(schedule, chain))
    assert machine.peak_bytes <= planned_peak_bytes(schedule, moved) + extra


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_schedules_that_run_ops_again(seed: int) -> None:
    random = Random(seed)
    checked(random_recomputed_schedule(random)[1], random)


@given(SEEDS)
@settings(max_examples=100, deadline=None)
def test_whatever_cannot_move_stays_and_the_rest_is_right(seed: int) -> None:
    random = Random(seed)
    schedule = random_schedule(random)
    can = movable_of(schedule, tensors_of(schedule))
    movable = {s for s in can if random.random() < 0.5}
    chain, _ = checked(schedule, random, movable)
    assert {m.storage for m in chain.moves} <= movable


def compiled(graph: Graph, strategy: str, hardware: Hardware, fraction: float, random: Random) -> Schedule:
    limit = max(1, int(live_peak_bytes(graph) * fraction))
    durations = Durations(tuple(random.randint(5, 60) for _ in graph.ops), "made up")
    policy = Policy(memory_limit=f"{limit}B", strategy=strategy, options=SMALL.get(strategy, {}))
    try:
        return compile_schedule(graph, durations, hardware, policy)
    except InfeasibleError as error:
        smallest = policy.model_copy(update={"memory_limit": f"{error.smallest.bytes}B"})
        return compile_schedule(graph, durations, hardware, smallest)


def planned_peak_bytes(schedule: Schedule, storages: set[int]) -> int:
    """The most bytes of these storages that the schedule has on the device at once."""
    changes = [
        (r.end_ns, -schedule.graph.storages[r.storage].bytes) for r in schedule.residencies if r.storage in storages
    ]
    changes += [
        (r.start_ns, schedule.graph.storages[r.storage].bytes) for r in schedule.residencies if r.storage in storages
    ]
    return max(accumulate(size for _, size in sorted(changes)), default=0)


def most_bytes_at_once(schedule: Schedule, chain: Chain) -> int:
    """The most bytes of moves that start between two neighbouring ops: there both their memories may exist."""
    most = bytes_here = 0
    for item in chain.items:
        if isinstance(item, RunOp):
            bytes_here = 0
        elif isinstance(item, Start):
            bytes_here += schedule.graph.storages[item.move.storage].bytes
            most = max(most, bytes_here)
    return most


@pytest.mark.parametrize("number", range(12))
def test_the_parts_of_a_move_start_together_and_moves_start_in_the_order_of_the_link(number: int) -> None:
    schedule = valid_schedule("naive in parts", number)
    assert number == 0 or any(t.partial for t in schedule.transfers)
    chain, _ = checked(schedule, Random(number))
    started = [item.move for item in chain.items if isinstance(item, Start) and item.move.kind != "detach"]
    moves = [
        (parts[0].kind, parts[0].storage)
        for parts in schedule.moves
        if parts[0].storage in movable_of(schedule, tensors_of(schedule))
    ]
    both = schedule.hardware.duplex == "half"
    for kind in ("store", "prefetch"):
        assert [(m.kind, m.storage) for m in started if both or m.kind == kind] == [
            m for m in moves if both or m[0] == kind
        ]


@pytest.mark.parametrize(
    "fault", ["no wait for a Prefetch", "a Prefetch does not wait for its Store", "a Store before its op"]
)
def test_the_machine_of_these_tests_finds_what_is_wrong(fault: str) -> None:
    schedule = moving_away()
    tensors = tensors_of(schedule)
    good = build_chain(schedule, movable_of(schedule, tensors), tensors)
    items = list(good.items)
    fetch = next(i.move for i in items if isinstance(i, Start) and i.move.kind == "prefetch")
    if fault == "no wait for a Prefetch":
        items.remove(Done(fetch))
    elif fault == "a Prefetch does not wait for its Store":
        free = replace(fetch, after=())
        items = [Start(free) if i == Start(fetch) else Done(free) if i == Done(fetch) else i for i in items]
        stored = next(i for i in items if isinstance(i, Done) and i.move.kind == "store")
        items.remove(stored)
    else:
        store = next(i for i in items if isinstance(i, Start) and i.move.kind == "store")
        items.remove(store)
        items.insert(0, store)
    with pytest.raises(Fault):
        for seed in range(50):
            ChainMachine(schedule, Chain(tuple(items), good.moves), tensors, Random(seed)).step()


def test_a_wait_that_never_ends_is_found() -> None:
    schedule = moving_away()
    tensors = tensors_of(schedule)
    good = build_chain(schedule, movable_of(schedule, tensors), tensors)
    late = [i for i in good.items if isinstance(i, Start) and i.move.kind == "store"]
    items = tuple(i for i in good.items if i not in late and not (isinstance(i, Done) and i.move.kind == "store"))
    with pytest.raises(Fault, match="nothing can go on"):
        ChainMachine(schedule, Chain(items, good.moves), tensors, Random(0)).step()


def test_what_moves_nothing_is_only_the_ops_in_order() -> None:
    schedule = valid_schedule("hyperoffload", 3)
    chain = build_chain(schedule, (), tensors_of(schedule))
    assert chain.items == tuple(map(RunOp, schedule.order)) and chain.moves == ()


def test_parameters_at_home_in_the_pool_leave_behind_each_stay() -> None:
    graph = training(2)
    homes = {s.id: "pool" for s in graph.storages if s.persistent}
    chain, machine = checked(naive_schedule(graph, homes=homes), Random(0))
    detached = [m.storage for m in chain.moves if m.kind == "detach"]
    assert sorted(detached) == sorted(homes)
    assert not any(region.on_device for region in machine.regions.values())


def moving_away() -> Schedule:
    """`race`, where the activation leaves behind its producer and comes back for its reader."""
    graph = race()
    return naive_schedule(graph, gaps=[(1, 0)])
