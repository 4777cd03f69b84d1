"""Run-time strategies: look-ahead paging and MindSpore's sliding window do what their rules say, op by op."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule, schedule_of_plan
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule, TransferKind
from hyperoffload_core.strategies.base import OptionValue, Request
from hyperoffload_core.strategies.lookahead import settled
from tests.byte_machine import run_bytes
from tests.graphs import TINY, TINY_HALF, GraphBuilder, adjacent_layers, chain, graphs, training
from tests.naive_schedule import random_durations


def compiled(
    graph: Graph,
    strategy: str,
    limit: int,
    hardware: Hardware = TINY,
    rules: tuple[Rule, ...] = (),
    op_ns: int | tuple[int, ...] = 100,
    **options: OptionValue,
) -> Schedule:
    policy = Policy(memory_limit=f"{limit}B", strategy=strategy, options=options, rules=rules)
    ns = (op_ns,) * len(graph.ops) if isinstance(op_ns, int) else op_ns
    return compile_schedule(graph, Durations(ns, "made up"), hardware, policy)


def random_ns(graph: Graph, seed: int) -> tuple[int, ...]:
    rng = random.Random(seed)
    return tuple(rng.randint(1, 60) for _ in graph.ops)


def between(graph: Graph, fraction: float) -> int:
    """A limit from the smallest feasible one (0) to the live peak (1)."""
    smallest = smallest_feasible_limit(graph).bytes
    return smallest + int(max(0, live_peak_bytes(graph) - smallest) * fraction)


def issued(schedule: Schedule, kind: TransferKind) -> list[tuple[str, int]]:
    """(storage name, id of the op behind which it is issued, -1 for the start) of each transfer, in order of start."""
    moves = sorted((t for t in schedule.transfers if t.kind == kind), key=lambda t: t.start_ns)
    return [(schedule.graph.storages[t.storage].name, max(t.after_ops, default=-1)) for t in moves]


def late_users(sizes: dict[str, int], users: dict[int, str], outputs: dict[int, int], ops: int) -> Graph:
    """Op 0 makes the values of ``sizes``. Op i uses ``users[i]`` and makes a value of ``outputs[i]`` bytes, which op
    i + 1 reads, or else a small one that nothing reads."""
    b = GraphBuilder("late users")
    x = b.storage("x", 1, "input")
    values = {name: b.storage(name, size) for name, size in sizes.items()}
    b.op("make", [x], list(values.values()))
    made: list[int] = []
    for i in range(1, ops):
        reads = [*made, *([values[users[i]]] if i in users else [])]
        made = [b.storage(f"out{i}", outputs[i])] if i in outputs else []
        b.op(f"op:{i}", reads or [x], made or [b.storage(f"c{i}", 1)])
    return b.graph()


@given(
    graphs(),
    st.sampled_from([TINY, TINY_HALF]),
    st.floats(0, 1),
    st.integers(0, 8),
    st.integers(1, 3),
    st.integers(0, 2**32),
)
@settings(max_examples=120, deadline=None)
def test_lookahead_passes_the_verifier_and_meets_any_feasible_limit(
    graph: Graph, hardware: Hardware, fraction: float, ahead: int, in_flight: int, seed: int
) -> None:
    limit = between(graph, fraction)
    schedule = compiled(
        graph,
        "lookahead",
        limit,
        hardware,
        op_ns=random_ns(graph, seed),
        lookahead_ops=ahead,
        copies_in_flight=in_flight,
    )
    assert schedule.metrics.peak_live_bytes <= schedule.metrics.reserved_bytes <= limit
    run_bytes(schedule, *random_durations(random.Random(seed), schedule))


@given(graphs(), st.sampled_from([TINY, TINY_HALF]), st.floats(0, 1), st.integers(0, 6), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_the_clock_by_which_lookahead_decides_is_that_of_its_schedule(
    graph: Graph, hardware: Hardware, fraction: float, ahead: int, seed: int
) -> None:
    durations, limit = Durations(random_ns(graph, seed), "made up"), between(graph, fraction)
    options = {"lookahead_ops": ahead, "copies_in_flight": 2}
    request = Request(graph, durations.ns, hardware, limit, ("auto",) * len(graph.storages), options)
    runtime = settled(request)
    schedule = schedule_of_plan(graph, durations, hardware, runtime.finish(), {}, "lookahead", limit)
    if not runtime.withdrawn:
        assert runtime.op_end_ns == [t.end_ns for t in schedule.op_times]


@given(graphs(), st.sampled_from([TINY, TINY_HALF]), st.floats(0, 1), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_without_a_window_lookahead_is_reactive(graph: Graph, hardware: Hardware, fraction: float, seed: int) -> None:
    ns, limit = random_ns(graph, seed), between(graph, fraction)
    blind = compiled(graph, "lookahead", limit, hardware, op_ns=ns, lookahead_ops=0)
    reactive = compiled(graph, "reactive", limit, hardware, op_ns=ns)
    assert (blind.transfers, blind.op_times) == (reactive.transfers, reactive.op_times)


def test_lookahead_hides_a_copy_behind_the_ops_in_its_window_and_no_more() -> None:
    """w1 (1000 bytes, 1003 ns) is needed by op 6 and was put out for the 1000 bytes of op 1; it is clean, and memory is
    free for it from op 3 on."""
    b = GraphBuilder("window")
    x, w, big = b.storage("x", 1, "input"), b.storage("w", 1000, "weight", True), b.storage("big", 1000)
    b.op("use:0", [x, w], [b.storage("c0", 1)])
    b.op("make big", [x], [big])
    b.op("use big", [big], [b.storage("c2", 1)])
    for i in range(3, 30):
        b.op(f"other:{i}", [x], [b.storage(f"c{i}", 1)])
    b.op("use:30", [x, w], [b.storage("y", 1, "output")])
    graph, stalls = b.graph(), {}
    for ahead in (0, 1, 5, 20):
        schedule = compiled(graph, "lookahead", 1002, lookahead_ops=ahead)
        last = schedule.op_times[-1]
        stalls[ahead] = last.start_ns - schedule.op_times[-2].end_ns
        assert issued(schedule, "prefetch")[-1] == ("w", 29 - ahead)
    assert stalls == {0: 1003, 1: 903, 5: 503, 20: 0}


@pytest.mark.parametrize(("most", "behind"), [(1, [2, 4, 6, 8]), (3, [2, 2, 2, 4]), (4, [2, 2, 2, 2])])
def test_lookahead_starts_no_more_copies_at_once_than_it_may(most: int, behind: list[int]) -> None:
    """Behind op 2 memory is free for the four weights that ops 8 to 11 use. A copy takes 103 ns, an op 100."""
    b = GraphBuilder("four weights")
    x, big = b.storage("x", 1, "input"), b.storage("big", 400)
    weights = [b.storage(f"w{i}", 100, "weight", True) for i in range(4)]
    for i in range(12):
        reads, writes = {0: ([x], [big]), 2: ([big], [])}.get(i, ([x], []))
        b.op(f"op:{i}", [*reads, *weights[i - 8 : i - 7]] if i > 7 else reads, [*writes, b.storage(f"c{i}", 1)])
    schedule = compiled(b.graph(), "lookahead", 420, lookahead_ops=20, copies_in_flight=most)
    assert issued(schedule, "prefetch") == [("x", -1), *((f"w{i}", op) for i, op in enumerate(behind))]


def test_lookahead_puts_out_nothing_that_its_window_uses_while_there_is_something_else() -> None:
    """The limit holds three weights of the eight that are used in turn: none has to come twice."""
    graph = adjacent_layers(8, 100)
    schedule = compiled(graph, "lookahead", 3 * 100 + 3, lookahead_ops=2)
    assert [name for name, _ in issued(schedule, "prefetch")] == ["x", *(f"w{i}" for i in range(8))]
    assert schedule.metrics.step_ns < compiled(graph, "reactive", 3 * 100 + 3).metrics.step_ns


def test_nothing_moves_when_everything_fits() -> None:
    """Apart from inputs, which paging takes from the pool like all that was handed in."""
    for graph in (chain(5), training(4)):
        limit = 2 * live_peak_bytes(graph)
        assert compiled(graph, "mindspore-window", limit).transfers == ()
        moved = compiled(graph, "lookahead", limit).transfers
        assert [graph.storages[t.storage].tensor_class for t in moved] == ["input"]


def test_lookahead_never_moves_what_is_kept_and_says_when_that_is_too_much() -> None:
    graph = training(6)
    keep_weights = (Rule.model_validate({"class": "weight", "action": "keep"}),)
    schedule = compiled(graph, "lookahead", live_peak_bytes(graph) * 3 // 4, rules=keep_weights)
    assert schedule.transfers
    assert all(graph.storages[t.storage].tensor_class != "weight" for t in schedule.transfers)
    with pytest.raises(InfeasibleError):
        compiled(graph, "lookahead", 40, rules=(Rule.model_validate({"name": "*", "action": "keep"}),))


@given(
    graphs(),
    st.sampled_from([TINY, TINY_HALF]),
    st.floats(0, 1.2),
    st.integers(1, 5),
    st.sampled_from([0, 10, 40]),
    st.integers(0, 2**32),
)
@settings(max_examples=120, deadline=None)
def test_the_window_passes_the_verifier_and_says_by_how_much_it_misses_the_limit(
    graph: Graph, hardware: Hardware, fraction: float, horizon: int, buffer: int, seed: int
) -> None:
    limit = max(1, int(live_peak_bytes(graph) * fraction))
    chosen = random.Random(seed).choice(graph.storages).tensor_class
    rules = (Rule.model_validate({"class": chosen, "action": "keep"}),)
    schedule = compiled(
        graph,
        "mindspore-window",
        limit,
        hardware,
        rules,
        random_ns(graph, seed),
        horizon=horizon,
        buffer_percent=buffer,
    )
    assert (schedule.metrics.reserved_bytes > limit) == any("over the memory limit" in n for n in schedule.notes)
    for transfer in schedule.transfers:
        assert not graph.exists_at_start(transfer.storage)
        assert graph.storages[transfer.storage].tensor_class != chosen
    run_bytes(schedule, *random_durations(random.Random(seed), schedule))


def test_the_window_puts_out_what_is_used_farthest_in_the_future_and_loads_it_one_op_ahead() -> None:
    """x, a, b and c hold 61 of 90 bytes; op 2 makes 40. a, used last, makes room enough alone."""
    graph = late_users({"a": 40, "b": 10, "c": 10}, {5: "c", 6: "b", 8: "a"}, {2: 40}, 10)
    schedule = compiled(graph, "mindspore-window", 90, buffer_percent=0)
    assert issued(schedule, "store") == [("a", 1)]
    assert issued(schedule, "prefetch") == [("a", 7)]
    wider = compiled(graph, "mindspore-window", 90, buffer_percent=0, horizon=3)
    assert issued(wider, "prefetch") == [("a", 5)]


def test_the_window_moves_as_much_as_the_outputs_need_and_not_only_what_is_missing() -> None:
    """9 bytes are missing for op 2, and 30 are moved."""
    graph = late_users({"a": 20, "b": 20, "c": 20}, {5: "c", 6: "b", 8: "a"}, {2: 30}, 10)
    assert issued(compiled(graph, "mindspore-window", 82, buffer_percent=0), "store") == [("a", 1), ("b", 1)]


def test_the_window_holds_compute_until_a_copy_out_has_ended() -> None:
    graph = late_users({"a": 400, "b": 10}, {6: "b", 8: "a"}, {2: 400}, 10)
    schedule = compiled(graph, "mindspore-window", 500, buffer_percent=0, op_ns=10)
    (store,) = (t for t in schedule.transfers if t.kind == "store")
    assert (store.start_ns, store.end_ns) == (20, 20 + 403)
    assert schedule.op_times[2].start_ns == store.end_ns


def test_the_window_evicts_for_its_buffer_although_nothing_is_to_be_loaded() -> None:
    """61 of 70 bytes are in use: all that ops need fits, and a buffer of 20 % does not."""
    graph = late_users({"a": 40, "b": 20}, {6: "b", 8: "a"}, {}, 10)
    assert compiled(graph, "mindspore-window", 70, buffer_percent=0).transfers == ()
    assert issued(compiled(graph, "mindspore-window", 70, buffer_percent=20), "store")[0] == ("a", 0)


def test_the_window_loads_on_demand_what_did_not_fit_and_counts_what_is_an_error_in_mindspore() -> None:
    """While b and the 60 bytes between ops 4 and 5 are there, 40 more for a are not, and op 5 uses a."""
    graph = late_users({"a": 40, "b": 40}, {5: "a", 7: "b"}, {2: 30, 3: 30, 4: 60}, 9)
    keep_b = (Rule.model_validate({"name": "b", "action": "keep"}),)
    schedule = compiled(graph, "mindspore-window", 120, rules=keep_b, buffer_percent=0)
    assert issued(schedule, "prefetch") == [("a", 4)]
    assert any("on demand" in n and ": 1;" in n for n in schedule.notes)
    assert any("over the memory limit of 120 B" in n for n in schedule.notes)


def test_the_window_has_a_limit_of_its_own() -> None:
    graph = late_users({"a": 40, "b": 10, "c": 10}, {5: "c", 6: "b", 8: "a"}, {2: 40}, 10)
    assert compiled(graph, "mindspore-window", 200, buffer_percent=0).transfers == ()
    assert compiled(graph, "mindspore-window", 200, buffer_percent=0, max_size=90).transfers != ()
