"""Static planners: they move what their published rule says, at the places it says, and every schedule is valid."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule, TransferKind
from hyperoffload_core.strategies import STRATEGIES, StrategyError
from hyperoffload_core.strategies.base import OptionValue
from tests.byte_machine import run_bytes
from tests.graphs import (
    TINY,
    TINY_HALF,
    GraphBuilder,
    adjacent_layers,
    chain,
    graphs,
    olla_control_dep,
    olla_diamond,
    olla_simple,
)
from tests.naive_schedule import random_durations

STATIC = ("mindspore-distance", "mindspore-peak", "hyper-parallel")
NEAR: dict[str, OptionValue] = {"SELECT_DISTANCE": 2, "PREFETCH_DISTANCE": 1}
OFFLOAD_WEIGHTS = (Rule.model_validate({"class": "weight", "action": "offload"}),)


def compiled(
    graph: Graph,
    strategy: str,
    limit: int = 1 << 30,
    hardware: Hardware = TINY,
    rules: tuple[Rule, ...] = (),
    op_ns: int = 100,
    **options: OptionValue,
) -> Schedule:
    policy = Policy(memory_limit=f"{limit}B", strategy=strategy, options=options, rules=rules)
    return compile_schedule(graph, Durations((op_ns,) * len(graph.ops), "made up"), hardware, policy)


def issued(schedule: Schedule, kind: TransferKind) -> list[tuple[str, int]]:
    """(storage name, id of the op behind which it is issued, -1 for the start) of each transfer, in order of start."""
    moves = sorted((t for t in schedule.transfers if t.kind == kind), key=lambda t: t.start_ns)
    return [(schedule.graph.storages[t.storage].name, max(t.after_ops, default=-1)) for t in moves]


def idle(output: bool = False, workspace: int = 0) -> Graph:
    """``a`` of 40 bytes: made by op 0, used by op 1, idle for 7 ops, used by op 9. Op 5 has a workspace."""
    b = GraphBuilder("idle")
    x, a, last = b.storage("x", 1, "input"), b.storage("a", 40, "output" if output else "activation"), b.storage("c", 1)
    b.op("make", [x], [a])
    b.op("use", [a], [last])
    for i in range(7):
        following = b.storage(f"c{i}", 1)
        b.op(f"other:{i}", [last], [following], workspace=workspace if i == 3 else 0)
        last = following
    b.op("backward", [a, last], [b.storage("y", 1, "output")], "backward")
    b.op("end", [last], [b.storage("z", 1, "output")], "backward")
    return b.graph()


def nested(sizes: Sequence[int] = (10, 20, 30), between: int = 4, workspace: int = 0) -> Graph:
    """Activations ``a0``, ``a1``, ... made by ops 0, 1, ...; ``between`` ops, the second of which has a workspace; then
    used in reverse order."""
    b = GraphBuilder("nested")
    last = b.storage("x", 1, "input")
    activations = [b.storage(f"a{i}", size) for i, size in enumerate(sizes)]
    for i, activation in enumerate(activations):
        b.op(f"forward:{i}", [last], [activation])
    for i in range(between):
        following = b.storage(f"c{i}", 1)
        b.op(f"other:{i}", [last], [following], workspace=workspace if i == 1 else 0)
        last = following
    for i, activation in reversed(list(enumerate(activations))):
        following = b.storage(f"d{i}", 1)
        b.op(f"backward:{i}", [activation, last], [following], "backward")
        last = following
    return b.graph()


@given(
    graphs(),
    st.sampled_from([TINY, TINY_HALF]),
    st.sampled_from(STATIC),
    st.sampled_from(["auto", "offload", "keep"]),
    st.integers(0, 2**32),
)
@settings(max_examples=200, deadline=None)
def test_every_schedule_passes_the_verifier_and_keeps_what_is_to_be_kept(
    graph: Graph, hardware: Hardware, strategy: str, action: str, seed: int
) -> None:
    rng = random.Random(seed)
    options: dict[str, OptionValue] = {}
    if strategy == "hyper-parallel":
        options = {"max_resident_activation_mb": 0}
    else:
        options = {"SELECT_DISTANCE": rng.randint(0, 3), "PREFETCH_DISTANCE": rng.randint(0, 4)}
        options["RELEASE_DISTANCE"] = rng.randint(0, 4)
    if strategy == "mindspore-peak":
        options["PEAK_MODELED_HEADROOM_BYTES"] = rng.randint(0, 10)
        options["ENABLE_ADAPTIVE_PREFETCH_DISTANCE"] = rng.random() < 0.5
    chosen = rng.choice(graph.storages).tensor_class
    rules = (Rule.model_validate({"class": chosen, "action": action}),)
    limit = max(1, int(live_peak_bytes(graph) * rng.random()))
    schedule = compiled(graph, strategy, limit, hardware, rules, rng.randint(1, 50), **options)
    assert (schedule.metrics.reserved_bytes > limit) == any("over the memory limit" in n for n in schedule.notes)
    if action == "keep":
        assert all(graph.storages[t.storage].tensor_class != chosen for t in schedule.transfers)
    run_bytes(schedule, *random_durations(rng, schedule))


@pytest.mark.parametrize("strategy", STATIC)
@pytest.mark.parametrize("graph", [olla_simple(), olla_control_dep(), olla_diamond(), chain(6)], ids=lambda g: g.name)
def test_nothing_moves_where_nothing_is_idle_for_long(graph: Graph, strategy: str) -> None:
    assert compiled(graph, strategy, live_peak_bytes(graph)).transfers == ()


@pytest.mark.parametrize("strategy", ["mindspore-peak", "hyper-parallel"])
def test_nothing_moves_when_everything_fits(strategy: str) -> None:
    near = {**NEAR, "PEAK_MODELED_HEADROOM_BYTES": 0} if strategy == "mindspore-peak" else {}
    schedule = compiled(nested(), strategy, live_peak_bytes(nested()), **near)
    assert schedule.transfers == ()
    assert schedule.notes == ()


@pytest.mark.parametrize(("distance", "moves"), [(7, True), (8, False)])
def test_distance_selects_a_value_whose_uses_are_more_than_the_distance_apart(distance: int, moves: bool) -> None:
    schedule = compiled(idle(), "mindspore-distance", SELECT_DISTANCE=distance)
    assert bool(schedule.transfers) == moves


def test_distance_copies_out_behind_the_producer_and_in_some_ops_ahead_of_the_user() -> None:
    schedule = compiled(idle(), "mindspore-distance", SELECT_DISTANCE=5, PREFETCH_DISTANCE=3)
    assert issued(schedule, "store") == [("a", 0)]
    assert issued(schedule, "prefetch") == [("a", 9 - 1 - 3)]


def test_distance_never_copies_in_ahead_of_the_copy_out() -> None:
    schedule = compiled(idle(), "mindspore-distance", SELECT_DISTANCE=5)
    assert issued(schedule, "prefetch") == [("a", 1)]
    store, prefetch = sorted(schedule.transfers, key=lambda t: t.start_ns)
    assert store.kind == "store" and store.end_ns <= prefetch.start_ns


@pytest.mark.parametrize("release", [0, 2])
def test_distance_gives_memory_back_where_compute_waits_for_the_copy_out(release: int) -> None:
    """40 bytes take 43 ns and ops 10: the copy-out, from 10 to 53, outlasts ops 1 to 4 where none waits."""
    schedule = compiled(
        idle(), "mindspore-distance", op_ns=10, SELECT_DISTANCE=5, PREFETCH_DISTANCE=0, RELEASE_DISTANCE=release
    )
    waiting = [
        t.op for t in schedule.op_times if set(t.waits) & {x.id for x in schedule.transfers if x.kind == "store"}
    ]
    assert waiting == [2 + release]
    assert schedule.op_times[1 + release].end_ns == 20 + 10 * release
    assert schedule.op_times[2 + release].start_ns == 53


def test_distance_takes_values_in_the_order_of_their_first_use_up_to_a_number() -> None:
    for number, names in ((0, []), (1, ["a2"]), (2, ["a2", "a1"]), (100, ["a2", "a1", "a0"])):
        schedule = compiled(nested(), "mindspore-distance", SELECT_NUM=number, **NEAR)
        assert sorted(name for name, _ in issued(schedule, "store")) == sorted(names)


def test_distance_copies_out_once_and_in_for_each_gap() -> None:
    b = GraphBuilder("two gaps")
    x, a = b.storage("x", 1, "input"), b.storage("a", 40)
    b.op("make", [x], [a])
    for i in range(1, 11):
        b.op(f"op:{i}", [a] if i in (5, 10) else [x], [b.storage(f"c{i}", 1)])
    schedule = compiled(b.graph(), "mindspore-distance", **NEAR)
    assert issued(schedule, "store") == [("a", 0)]
    assert issued(schedule, "prefetch") == [("a", 3), ("a", 8)]


def test_distance_brings_an_output_back_at_the_end() -> None:
    schedule = compiled(idle(output=True), "mindspore-distance", SELECT_DISTANCE=5, PREFETCH_DISTANCE=0)
    assert issued(schedule, "store") == [("a", 0)]
    assert issued(schedule, "prefetch") == [("a", 8), ("a", 10)]


def test_distance_leaves_alone_what_an_in_place_op_touches() -> None:
    b = GraphBuilder("in place")
    x, a, gradient = b.storage("x", 1, "input"), b.storage("a", 40), b.storage("g", 40, "gradient")
    weight = b.storage("w", 40, "weight", True)
    b.op("make", [x], [a, gradient])
    for i in range(6):
        b.op(f"other:{i}", [x], [b.storage(f"c{i}", 1)])
    b.op("add", [a], [a])
    b.op("adam", [gradient, weight], [weight], "optimizer")
    assert compiled(b.graph(), "mindspore-distance", **NEAR).transfers == ()


def test_remote_weights_come_in_for_each_user_and_go_out_behind_an_update() -> None:
    b = GraphBuilder("remote")
    x, w = b.storage("x", 1, "input"), b.storage("w", 40, "weight", True)
    for i in range(8):
        reads, writes = {1: ([x, w], []), 6: ([w], [w])}.get(i, ([x], []))
        b.op(f"op:{i}", reads, [*writes, b.storage(f"c{i}", 1)])
    schedule = compiled(b.graph(), "mindspore-distance", rules=OFFLOAD_WEIGHTS, PREFETCH_DISTANCE=1)
    assert schedule.homes[w] == "pool"
    assert issued(schedule, "prefetch") == [("w", -1), ("w", 4)]
    assert issued(schedule, "store") == [("w", 6)]


def test_a_remote_weight_stays_where_its_next_copy_would_be_issued_before_its_last_user_is_done() -> None:
    b = GraphBuilder("remote")
    x, w = b.storage("x", 1, "input"), b.storage("w", 40, "weight", True)
    for i in range(6):
        b.op(f"op:{i}", [x, w] if i in (1, 3) else [x], [b.storage(f"c{i}", 1)])
    for ahead, copies in ((1, 2), (2, 1)):
        schedule = compiled(b.graph(), "mindspore-distance", rules=OFFLOAD_WEIGHTS, PREFETCH_DISTANCE=ahead)
        assert len(issued(schedule, "prefetch")) == copies


def test_adjacent_remote_layers_stall_for_what_the_op_in_front_cannot_hide() -> None:
    """100 bytes take 103 ns, ops 60. Issued with its op a copy stalls in full; one op ahead the link is the bound."""
    graph = adjacent_layers(8, 100)
    on_demand = compiled(graph, "mindspore-distance", rules=OFFLOAD_WEIGHTS, op_ns=60, PREFETCH_DISTANCE=0)
    assert issued(on_demand, "prefetch") == [(f"w{i}", i - 1) for i in range(8)]
    assert on_demand.metrics.step_ns == 8 * (60 + 103)
    ahead = compiled(graph, "mindspore-distance", rules=OFFLOAD_WEIGHTS, op_ns=60, PREFETCH_DISTANCE=1)
    assert ahead.metrics.step_ns == 8 * 103 + 60


@pytest.mark.parametrize(
    ("weight", "leave"),
    [("SIZE", ["a2"]), ("COVER_START", ["a0", "a1"]), ("COVER_END", ["a0", "a1"])],
)
def test_peak_takes_the_best_score_until_the_modelled_peak_is_low_enough(weight: str, leave: list[str]) -> None:
    """Three values of 10, 20 and 30 bytes cover the peak, and 25 are to leave."""
    weights: dict[str, OptionValue] = {
        f"SCORE_WEIGHT_{name}": float(name == weight)
        for name in ("SIZE", "COVER_START", "COVER_END", "NEIGHBOR_IMPACT")
    }
    graph = nested(workspace=100)
    schedule = compiled(
        graph, "mindspore-peak", live_peak_bytes(graph) - 15, PEAK_MODELED_HEADROOM_BYTES=10, **NEAR, **weights
    )
    assert sorted(name for name, _ in issued(schedule, "store")) == leave


@pytest.mark.parametrize(("penalty", "leave"), [(0.0, ["a1", "a2"]), (10.0, ["a0", "a2"])])
def test_peak_avoids_offloads_that_end_close_together(penalty: float, leave: list[str]) -> None:
    graph = nested((28, 29, 30), workspace=100)
    weights = {"SCORE_WEIGHT_COVER_START": 0.0, "SCORE_WEIGHT_COVER_END": 0.0, "SCORE_WEIGHT_NEIGHBOR_IMPACT": penalty}
    limit = live_peak_bytes(graph) - 40
    schedule = compiled(graph, "mindspore-peak", limit, PEAK_MODELED_HEADROOM_BYTES=0, **NEAR, **weights)
    assert sorted(name for name, _ in issued(schedule, "store")) == leave


def test_peak_can_take_its_distances_from_sizes_and_one_constant_kernel_time() -> None:
    """40 bytes at 1 MB/s are 40 us, two kernels of 20 us."""
    adaptive: dict[str, OptionValue] = {
        "ENABLE_ADAPTIVE_PREFETCH_DISTANCE": True,
        "ENABLE_ADAPTIVE_RELEASE_DISTANCE": True,
        "H2D_BANDWIDTH_GBPS": 0.001,
        "D2H_BANDWIDTH_GBPS": 0.001,
        "DEFAULT_KERNEL_TIME_US": 20.0,
    }
    schedule = compiled(
        idle(workspace=50),
        "mindspore-peak",
        60,
        op_ns=10,
        PEAK_MODELED_HEADROOM_BYTES=0,
        SELECT_DISTANCE=5,
        **adaptive,
    )
    assert issued(schedule, "prefetch") == [("a", 9 - 1 - 2)]
    stores = {t.id for t in schedule.transfers if t.kind == "store"}
    assert [t.op for t in schedule.op_times if stores & set(t.waits)] == [1 + 1 + 2]


def test_peak_says_where_its_headroom_leaves_no_room() -> None:
    report = compiled(nested(), "mindspore-peak", 30, PEAK_MODELED_HEADROOM_BYTES=40, **NEAR).notes[0]
    assert "not to 0 B, as the limit is not above PEAK_MODELED_HEADROOM_BYTES" in report


def test_peak_reports_a_target_it_cannot_reach() -> None:
    schedule = compiled(nested(), "mindspore-peak", 30, PEAK_MODELED_HEADROOM_BYTES=20, **NEAR)
    report, over = schedule.notes
    assert "the modelled peak fell from" in report and "not to 10 B" in report
    assert over.startswith("over the memory limit of 30 B by")


def test_peak_knows_remote_weights_and_a_limit_of_its_own() -> None:
    graph = adjacent_layers(8, 100)
    few = compiled(graph, "mindspore-peak", MAX_DEVICE_MEMORY=100, PEAK_MODELED_HEADROOM_BYTES=0)
    assert few.transfers == () and "not to 100 B" in few.notes[0]
    remote = compiled(
        graph,
        "mindspore-peak",
        rules=OFFLOAD_WEIGHTS,
        MAX_DEVICE_MEMORY=310,
        PREFETCH_DISTANCE=1,
        PEAK_MODELED_HEADROOM_BYTES=0,
    )
    assert remote.notes == () and len(remote.transfers) == 8


def test_hyper_parallel_takes_the_longest_gaps_until_the_budget_holds() -> None:
    """25 of 60 bytes are to leave: the longest gaps hold 10 and 20."""
    graph = nested()
    schedule = compiled(graph, "hyper-parallel", live_peak_bytes(graph) - 25, max_resident_activation_mb=0)
    assert issued(schedule, "store") == [("a0", 0), ("a1", 1)]
    assert issued(schedule, "prefetch") == [("a1", 7), ("a0", 8)]


def test_hyper_parallel_copies_in_only_when_the_op_is_next_and_on_one_stream_with_copies_out() -> None:
    """Two copies-out of 1003 ns start when the first ends at 10; the copies-in queue behind them."""
    graph = nested((1000, 1000), between=3)
    schedule = compiled(graph, "hyper-parallel", 1, op_ns=10, max_resident_activation_mb=0)
    assert [(t.start_ns, t.kind) for t in sorted(schedule.transfers, key=lambda t: t.start_ns)] == [
        (10, "store"),
        (1013, "store"),
        (2016, "prefetch"),
        (3029, "prefetch"),
    ]


def test_hyper_parallel_has_a_budget_for_activations_alone() -> None:
    mib = 1 << 20
    small, large = nested((mib // 4,) * 3), nested((mib // 2,) * 3)
    assert compiled(small, "hyper-parallel", 1, max_resident_activation_mb=1).transfers == ()
    assert compiled(large, "hyper-parallel", max_resident_activation_mb=1).transfers != ()


def test_hyper_parallel_says_where_the_original_fails() -> None:
    graph = nested()
    schedule = compiled(graph, "hyper-parallel", 1, max_resident_activation_mb=0, max_offload_activation_mb=0)
    assert any("needs 3.00 KiB of pinned host memory" in note for note in schedule.notes)
    b = GraphBuilder("rewritten")
    x, a = b.storage("x", 1, "input"), b.storage("a", 40)
    for i in range(9):
        b.op(f"op:{i}", *{0: ([x], [a]), 4: ([a], [a]), 8: ([a], [])}.get(i, ([x], [b.storage(f"c{i}", 1)])))
    rewritten = compiled(b.graph(), "hyper-parallel", 1, max_resident_activation_mb=0)
    assert issued(rewritten, "store") == [("a", 0), ("a", 4)]
    assert any("stale: 1" in note for note in rewritten.notes)


@pytest.mark.parametrize(
    ("strategy", "option", "value"),
    [
        ("mindspore-distance", "SELECT_DISTANCE", -1),
        ("mindspore-peak", "D2H_BANDWIDTH_GBPS", 0.0),
        ("hyper-parallel", "max_resident_activation_mb", 1.5),
    ],
)
def test_values_that_a_knob_does_not_take_are_refused(strategy: str, option: str, value: OptionValue) -> None:
    with pytest.raises(StrategyError, match=f"option '{option}' of '{strategy}'"):
        compiled(chain(3), strategy, **{option: value})


def test_shipped_defaults() -> None:
    shipped = {o.name: o.default for name in STATIC for o in STRATEGIES[name].options}
    assert shipped["SELECT_DISTANCE"] == shipped["SELECT_NUM"] == 100
    assert (shipped["PREFETCH_DISTANCE"], shipped["RELEASE_DISTANCE"]) == (50, 0)
    assert shipped["PEAK_MODELED_HEADROOM_BYTES"] == 4294967296
    assert (shipped["max_resident_activation_mb"], shipped["max_offload_activation_mb"]) == (1024, 65536)
