"""Strategy `optimal`: the shortest step there is, held against trying everything and against every other strategy."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.optimum import Compared, StoredOptimum, compare, compiled, read_optima, solve, table, worst
from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.exact.addressed import AddressedSearch
from hyperoffload_core.exact.instance import make_instance
from hyperoffload_core.exact.pack import pack_exactly
from hyperoffload_core.exact.search import Search
from hyperoffload_core.hardware import Hardware, Link
from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.addresses import Block
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import STRATEGIES, StrategyError
from tests.exhaustive import Exhaustive
from tests.graphs import (
    TINY,
    TINY_HALF,
    GraphBuilder,
    adjacent_layers,
    chain,
    olla_control_dep,
    olla_diamond,
    olla_simple,
    random_graph,
    training,
)
from tests.milp import shortest_ns_by_highs
from tests.random_times import simulate_random
from tests.small_problems import UNIT_BYTES, SmallProblem, small_problem

NO_LIMIT = 1 << 60


def optimal(
    graph: Graph,
    limit_bytes: int,
    durations_ns: tuple[int, ...] | None = None,
    hardware: Hardware = TINY,
    rules: tuple[Rule, ...] = (),
    **options: float,
) -> Schedule:
    policy = Policy(memory_limit=f"{limit_bytes}B", strategy="optimal", rules=rules, options=options)
    ns = durations_ns or (10,) * len(graph.ops)
    return compile_schedule(graph, Durations(ns, "made up"), hardware, policy)


def proved(schedule: Schedule) -> bool:
    return any(note.startswith("proved optimal") for note in schedule.notes)


@pytest.mark.parametrize(
    ("graph", "limit"),
    [(olla_simple(), 70), (olla_control_dep(), 150), (olla_diamond(), 130)],
    ids=lambda v: str(v)[:5],
)
def test_ollas_graphs_need_no_transfer_at_their_best_peak(graph: Graph, limit: int) -> None:
    schedule = optimal(graph, limit)
    assert schedule.transfers == ()
    assert schedule.metrics.step_ns == schedule.metrics.compute_ns == 10 * len(graph.ops)
    assert schedule.metrics.peak_live_bytes == limit
    assert proved(schedule)


def test_the_diamond_is_reordered_and_the_control_edge_forbids_it() -> None:
    free, bound = optimal(olla_diamond(), 130), optimal(olla_control_dep(), 130)
    names = [olla_diamond().ops[op].name for op in free.order]
    assert names.index("E") < names.index("C")
    assert bound.transfers
    assert bound.metrics.step_ns > free.metrics.step_ns


def test_the_floor_of_control_dep_is_reached_with_spilling() -> None:
    schedule = optimal(olla_control_dep(), 120)
    assert schedule.transfers
    assert schedule.metrics.peak_live_bytes == 120
    with pytest.raises(InfeasibleError):
        optimal(olla_control_dep(), 119)


def test_nothing_moves_when_everything_fits() -> None:
    graph = training(1)
    schedule = optimal(graph, live_peak_bytes(graph))
    assert schedule.transfers == ()
    assert schedule.metrics.step_ns == schedule.metrics.compute_ns


def test_adjacent_layers_expose_what_one_layer_cannot_hide() -> None:
    """Three weights of 100 ns, room for two, layers of 50 ns. The step ends as it began, so two copies come in: the
    third weight once the first has been used, hidden by the second layer only, and the first one for the next step."""
    graph = adjacent_layers(3, 100)
    hardware = Hardware("plain", "1 byte a ns", 1 << 30, Link(10**9, 0), Link(10**9, 0), "full")
    schedule = optimal(graph, 202, (50,) * 3, hardware)
    assert proved(schedule)
    assert schedule.metrics.step_ns == 300
    assert schedule.metrics.exposed_ns == 150


def test_a_valid_remote_copy_is_dropped_instead_of_stored() -> None:
    """Where the way out is slow the weight has its home in the pool, comes in twice and never goes out."""
    b = GraphBuilder("twice")
    w, x, a, large, y = (
        b.storage("w", 100, "weight", True),
        b.storage("x", 1, "input"),
        b.storage("a", 1),
        b.storage("large", 100),
        b.storage("y", 1, "output"),
    )
    b.op("first", [w, x], [a])
    b.op("between", [a], [large])
    b.op("shrink", [large], [a])
    b.op("again", [w, a], [y])
    slow_out = Hardware("slow out", "10 ns a byte out", 1 << 30, Link(10**8, 0), Link(10**9, 0), "full")
    schedule = optimal(b.graph(), 110, hardware=slow_out)
    assert [t.kind for t in schedule.transfers] == ["prefetch", "prefetch"]
    assert schedule.homes[w] == "pool"


def test_an_overwritten_value_neither_leaves_nor_returns() -> None:
    b = GraphBuilder("overwritten")
    x, a, scratch, y = b.storage("x", 10, "input"), b.storage("a", 50), b.storage("s", 60), b.storage("y", 10, "output")
    b.op("fill", [x], [a])
    b.op("use", [a], [y])
    b.op("other", [x], [scratch])
    b.op("overwrite", [scratch], [a])
    b.op("last", [a], [y])
    schedule = optimal(b.graph(), 130)
    assert schedule.transfers == ()


# Seeds of which everything can be tried in well under a second; in most of them some op has to wait.
TRIED_IN_FULL = (5, 8, 42, 49, 54, 66, 80, 95, 115, 126, 140, 153, 194, 218, 285)
TRIED_IN_FULL_WITH_ADDRESSES = (48, 157, 221)


def search_of(problem: SmallProblem, kind: type[Search]) -> int | None:
    actions = ("auto",) * len(problem.graph.storages)
    instance = make_instance(problem.graph, problem.durations_ns, problem.hardware, problem.limit_bytes, actions)
    found = kind(instance).run(NO_LIMIT)
    return None if found is None else found.step_ns


def everything(problem: SmallProblem, unit_bytes: int = 0) -> int | None:
    p = problem
    return Exhaustive(p.graph, p.durations_ns, p.hardware, p.limit_bytes, unit_bytes).shortest_ns()


@pytest.mark.parametrize("seed", TRIED_IN_FULL)
def test_the_search_finds_what_trying_everything_finds(seed: int) -> None:
    problem = small_problem(seed, 4)
    assert search_of(problem, Search) == everything(problem)


@pytest.mark.parametrize("seed", TRIED_IN_FULL_WITH_ADDRESSES)
def test_the_search_with_addresses_finds_what_trying_every_address_finds(seed: int) -> None:
    problem = small_problem(seed, 4)
    assert search_of(problem, AddressedSearch) == everything(problem, UNIT_BYTES)


@pytest.mark.parametrize("seed", [31, 41, 42, 49, 66, 95, 115, 140, 153])
def test_highs_finds_the_same_optimum_from_a_mixed_integer_program(seed: int) -> None:
    p = small_problem(seed, 4)
    actions = ("auto",) * len(p.graph.storages)
    search = Search(make_instance(p.graph, p.durations_ns, p.hardware, p.limit_bytes, actions))
    found = search.run(NO_LIMIT)
    assert found is not None
    found = search.run(found.step_ns, found.moved_bytes) or found
    events = len({start.ns for start in found.starts})
    assert shortest_ns_by_highs(p.graph, p.durations_ns, p.hardware, p.limit_bytes, events) == found.step_ns


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_nothing_tried_in_full_is_shorter(seed: int) -> None:
    random = Random(seed)
    graph = random_graph(random, 3)
    while len(graph.storages) > 4:
        graph = random_graph(random, 3)
    smallest, peak = smallest_feasible_limit(graph).bytes, live_peak_bytes(graph)
    limit = smallest + max(0, peak - smallest) * random.choice([0, 20, 50, 80]) // 100
    hardware = random.choice([TINY, TINY_HALF])
    durations = tuple(random.randint(1, 20) for _ in graph.ops)
    problem = SmallProblem(seed, "random", graph, durations, hardware, limit)
    assert search_of(problem, Search) == everything(problem)


@pytest.mark.parametrize("seed", [*range(9), 10, 12, 13])
def test_no_other_strategy_that_meets_the_limit_is_faster(seed: int) -> None:
    problem = small_problem(seed, 4)
    best = compiled(problem, "optimal", time_limit_s=5.0).metrics
    for name, strategy in STRATEGIES.items():
        if not strategy.keeps_limit or name == "optimal":
            continue
        other = compiled(problem, name, **({"effort": "fast"} if name == "hyperoffload" else {}))
        if other.graph.hash != problem.graph.hash or any(t.partial for t in other.transfers):
            continue  # recomputation and parts of transfers: the optimum is over schedules without them
        moved = other.metrics.bytes_in + other.metrics.bytes_out
        assert (best.step_ns, best.bytes_in + best.bytes_out) <= (other.metrics.step_ns, moved), name


@pytest.mark.parametrize("seed", [7, 24, 47])
def test_an_optimal_schedule_keeps_its_limit_under_any_timing(seed: int) -> None:
    schedule = compiled(small_problem(seed, 6), "optimal")
    for draw in range(10):
        profile = simulate_random(schedule, np.random.default_rng(draw))
        assert int(profile.steps.peak_bytes[0]) <= schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes


@pytest.mark.parametrize("stored", read_optima()[::50], ids=lambda o: str(o.seed))
def test_stored_optima_are_found_again(stored: StoredOptimum) -> None:
    assert solve(small_problem(stored.seed), 60.0) == stored


def test_hyperoffload_equals_the_optimum_and_is_never_far_off() -> None:
    """A sample of the problems that `bench.optimum` compares in full."""
    gaps = [compare(stored, "normal").gap for stored in read_optima()[::10]]
    assert sum(gap <= 0 for gap in gaps) >= 0.95 * len(gaps)
    assert max(gaps) <= 0.05


def test_the_problems_are_all_of_the_first_seeds() -> None:
    assert [stored.seed for stored in read_optima()] == list(range(500))


def test_the_benchmark_counts_what_equals_the_optimum_and_lists_the_worst() -> None:
    problems = [small_problem(seed) for seed in (1, 2, 3, 4)]
    steps = [(1000, 1000), (1000, 1040), (1000, 1200), (1000, 990)]
    rows = [Compared(p, best, ours) for p, (best, ours) in zip(problems, steps, strict=True)]
    assert table(rows)[-1] == "| all | 4 | 50.0% | 75.0% | 6.00% | 20.00% |"
    assert [line.split(" |")[0] for line in worst(rows)[2:]] == ["| 3", "| 2"]


def test_addresses_are_part_of_the_optimum() -> None:
    """Live bytes alone would allow a shorter step than any assignment of addresses."""
    problem = small_problem(24)
    by_live_bytes, with_addresses = search_of(problem, Search), search_of(problem, AddressedSearch)
    assert by_live_bytes is not None
    assert with_addresses is not None
    assert by_live_bytes < with_addresses == compiled(problem, "optimal").metrics.step_ns


def test_blocks_are_packed_exactly_or_proved_not_to_fit() -> None:
    blocks = [Block(64, ((0, 2),)), Block(128, ((1, 3),)), Block(64, ((2, 4),)), Block(128, ((3, 5), (0, 1)))]
    offsets = pack_exactly(blocks, 192)
    assert offsets is not None
    for i, a in enumerate(blocks):
        for j, b in enumerate(blocks[:i]):
            alive = any(s < f and t < e for s, e in a.spans for t, f in b.spans)
            assert not alive or offsets[i] + a.bytes <= offsets[j] or offsets[j] + b.bytes <= offsets[i]
    # 1 of 3 stays in the middle: 2 units are free and do not lie together
    middle = [Block(64, ((0, 1),)), Block(64, ((0, 2),)), Block(64, ((0, 1),)), Block(128, ((1, 2),))]
    assert pack_exactly(middle, 192) is not None
    assert pack_exactly([*middle, Block(128, ((2, 3),)), Block(64, ((1, 3),))], 192) is None


def test_a_keep_rule_holds_and_an_offload_rule_puts_the_home_in_the_pool() -> None:
    graph = training(1)
    rules = (
        Rule.model_validate({"class": "weight", "action": "keep"}),
        Rule.model_validate({"class": "optimizer_state", "action": "offload"}),
    )
    schedule = optimal(graph, live_peak_bytes(graph), rules=rules)
    moved = {t.storage for t in schedule.transfers}
    for storage in graph.storages:
        assert storage.tensor_class != "weight" or storage.id not in moved
        assert storage.tensor_class != "optimizer_state" or schedule.homes[storage.id] == "pool"


def test_a_graph_that_is_too_large_is_refused_with_the_limit() -> None:
    with pytest.raises(StrategyError, match="at most 16 ops and 24 storages, this one has 30 ops and 31 storages"):
        optimal(chain(30), 1000)


def test_out_of_time_it_says_how_far_from_optimal_it_may_be() -> None:
    problem = small_problem(45)
    schedule = compiled(problem, "optimal", time_limit_s=0.0)
    assert any(note.startswith("not proved optimal: gap ") for note in schedule.notes)
    assert schedule.metrics.reserved_bytes <= problem.limit_bytes


def test_a_beam_finds_the_shortest_step_where_the_whole_search_takes_minutes() -> None:
    stored = next(one for one in read_optima() if one.seed == 262)
    problem = small_problem(stored.seed)
    actions = ["auto"] * len(problem.graph.storages)
    instance = make_instance(problem.graph, problem.durations_ns, problem.hardware, stored.limit_bytes, actions)
    search = AddressedSearch(instance)

    found = search.beam(stored.optimum_ns * 11 // 10, 60, float("inf"))

    assert found is not None
    assert found.step_ns == stored.optimum_ns
    assert search.beam(stored.optimum_ns, 60, float("inf")) is None
