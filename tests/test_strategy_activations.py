"""functorch and deepcompile on steps small enough to follow by hand."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule, Transfer
from hyperoffload_core.strategies import StrategyError, deepcompile, find_strategy, functorch, resolve_options
from hyperoffload_core.strategies.base import OptionValue, Request
from hyperoffload_core.strategies.saved import Saved, backward_begin, saved_activations
from tests.graphs import TINY, GraphBuilder, chain, training

# training(3): forward 0 1 2, loss 3, backward 4 (layer 2) 5 (layer 1) 6 (layer 0), updates 7 8 9.
# a0 is used forward by 0 and 1, backward by 5; a1 by 1 and 2, then 4; a2 by 2 and 3 only; x is an input.


def compiled(
    graph: Graph,
    strategy: str,
    options: dict[str, OptionValue] | None = None,
    limit: str = "100%",
    op_ns: int = 10,
) -> Schedule:
    graph = replace(
        graph, storages=tuple(replace(s, dtype=s.dtype.replace("uint8", "float32")) for s in graph.storages)
    )
    policy = Policy(memory_limit=limit, strategy=strategy, options=options or {})
    return compile_schedule(graph, Durations((op_ns,) * len(graph.ops), "made up"), TINY, policy)


def moves(schedule: Schedule, storage: str) -> tuple[Transfer, Transfer]:
    """The Store and the Prefetch of an activation."""
    found = [t for t in schedule.transfers if schedule.graph.storages[t.storage].name == storage]
    store, prefetch = sorted(found, key=lambda t: t.kind == "prefetch")
    assert (store.kind, prefetch.kind) == ("store", "prefetch")
    return store, prefetch


def moved(schedule: Schedule) -> set[str]:
    return {schedule.graph.storages[t.storage].name for t in schedule.transfers}


@pytest.mark.parametrize(
    ("strategy", "options", "limit", "says"),
    [
        ("deepcompile", {}, "50%", r"no floating-point .* at least 5\.00 MiB \(offload_act_min_size_mb\)"),
        ("deepcompile", {"offload_act_min_size_mb": 0}, "1000%", r"every activation fits above the floor"),
        ("hyper-parallel", {}, "50%", r"within their budget of 1\.00 GiB \(max_resident_activation_mb\)"),
    ],
)
def test_a_threshold_that_lets_nothing_move_is_named(
    strategy: str, options: dict[str, OptionValue], limit: str, says: str
) -> None:
    schedule = compiled(training(3), strategy, options, limit)
    assert not schedule.transfers
    (note,) = [n for n in schedule.notes if n.startswith("nothing moves")]
    assert re.search(says, note)


def test_a_step_that_saves_nothing_says_so() -> None:
    schedule = compiled(chain(3), "functorch")
    assert any(note.startswith("nothing moves: no activation") for note in schedule.notes)


@pytest.mark.parametrize(
    ("strategy", "option", "most"),
    [("mindspore-window", "buffer_percent", 100), ("deepcompile", "offload_act_margin", 1)],
)
def test_a_share_is_at_most_all(strategy: str, option: str, most: int) -> None:
    assert resolve_options(find_strategy(strategy), {option: most})[option] == most
    with pytest.raises(StrategyError, match=f"it is at most {most}"):
        resolve_options(find_strategy(strategy), {option: most + 1})


def test_saved_activations_are_those_used_before_and_in_the_backward_pass() -> None:
    graph = training(3)
    order = tuple(range(len(graph.ops)))
    begin = backward_begin(graph, order)
    found = saved_activations(graph, uses_in_order(graph, order), begin)
    assert begin == 4
    assert [(graph.storages[s.storage].name, s.last_forward, s.first_backward) for s in found] == [
        ("a0", 1, 5),
        ("a1", 2, 4),
    ]


class TestFunctorch:
    def test_compute_waits_behind_each_copy_out_and_reloads_begin_at_their_use(self) -> None:
        schedule = compiled(training(3), "functorch")
        assert moved(schedule) == {"a0", "a1"}
        for name, last_forward, first_backward in (("a0", 1, 5), ("a1", 2, 4)):
            store, prefetch = moves(schedule, name)
            assert store.after_ops == (last_forward,)
            assert store.id in schedule.op_times[last_forward + 1].waits
            assert prefetch.after_ops == (first_backward - 1,)

    def test_a_sunk_wait_is_at_the_end_of_the_forward_pass(self) -> None:
        schedule = compiled(
            training(3),
            "functorch",
            {"activation_offload_separate_stream": True, "activation_offload_sink_wait": True},
        )
        assert all(not schedule.op_times[op].waits for op in range(4))
        assert moves(schedule, "a1")[0].id in schedule.op_times[4].waits

    def test_without_a_separate_stream_nothing_sinks_and_nothing_is_ahead(self) -> None:
        alone = compiled(
            training(3), "functorch", {"activation_offload_sink_wait": True, "activation_reload_prefetch": True}
        )
        assert alone.transfers == compiled(training(3), "functorch").transfers

    def test_results_of_an_op_with_several_results_stay(self) -> None:
        b = GraphBuilder("pair")
        x, z = b.storage("x", 8, "input"), b.storage("z", 8, "output")
        one, two, y = (b.storage(name, 8) for name in ("one", "two", "y"))
        b.op("split", [x], [one, two])
        b.op("mul", [one, two], [y])
        b.op("loss", [y], [b.storage("l", 1, "output")])
        b.op("grad", [one, two, y], [z], "backward")
        assert moved(compiled(b.graph(), "functorch")) == {"y"}

    def test_only_matmul_like_ops_hide_a_reload(self) -> None:
        b = GraphBuilder("kinds")
        last = b.storage("x", 8, "input")
        for name in ("MatMul:0", "Mul:1", "FlashAttentionScoreGrad:2", "Conv2DBackpropInput:3", "Cast:4"):
            out = b.storage(name, 8)
            b.op(name, [last], [out])
            last = out
        assert functorch.compute_ns(b.graph(), range(5), [7] * 5) == [7, 0, 7, 7, 0]

    def test_the_reverse_scan_serves_the_head_of_the_queue_and_loses_what_is_too_much(self) -> None:
        first, second = Saved(0, 1, 1, 9), Saved(1, 1, 2, 8)
        # Back from the end: 9 queues first; 8 leaves it 1 and queues second; 7 takes 4 for that 1, so first is issued
        # ahead of 7; 6 leaves second 1; 5 issues it.
        assert functorch.reload_issues([first, second], [5, 5], [4] * 10, 4) == [6, 4]

    def test_what_the_scan_has_not_placed_is_issued_where_backward_begins(self) -> None:
        saved = [Saved(0, 1, 1, 9), Saved(1, 1, 2, 8)]
        assert functorch.reload_issues(saved, [5, 5], [0] * 10, 4) == [3, 3]
        assert functorch.reload_issues(saved, [5, 50], [4] * 10, 4) == [6, 3]

    def test_with_prefetch_a_reload_is_under_way_before_its_use(self) -> None:
        b = GraphBuilder("matmuls")
        x = [b.storage("x", 8, "input")]
        for i in range(4):
            x.append(b.storage(f"a{i}", 1 << 20))
            b.op(f"MatMul:{i}", [x[i]], [x[i + 1]])
        gradient = b.storage("g", 8, "gradient")
        b.op("loss", [x[4]], [gradient])
        for i in reversed(range(4)):
            below = b.storage(f"g{i}", 8, "output" if i == 0 else "gradient")
            b.op(f"MatMul:b{i}", [gradient, x[i]], [below], "backward")
            gradient = below
        ahead = {"activation_offload_separate_stream": True, "activation_reload_prefetch": True}

        def issued(gib_per_s: float) -> list[int]:
            plan = functorch.plan(
                Request(
                    graph=b.graph(),
                    durations_ns=(600_000,) * 9,
                    hardware=TINY,
                    limit_bytes=1 << 30,
                    actions=("auto",) * len(b.graph().storages),
                    options=resolve_options(functorch.STRATEGY, {**ahead, "activation_offload_cpu_gpu_bw": gib_per_s}),
                )
            )
            return [t.after for t in plan.transfers if t.kind == "prefetch"]

        # a0, a1 and a2 return for ops 7, 6 and 5, where backward begins. 1 MiB takes 20 us at 50 GiB/s, less than an
        # op, and 1.05 ms at 0.93 GiB/s, less than two.
        assert issued(50.0) == [5, 4, 4]
        assert issued(0.93) == [4, 4, 4]


class TestDeepCompile:
    everything = {"offload_act_min_size_mb": 0.0}  # noqa: RUF012 - not changed

    def test_nothing_moves_where_the_budget_holds_all(self) -> None:
        assert compiled(training(3), "deepcompile", self.everything, limit="200%").transfers == ()

    def test_where_nothing_fits_above_the_floor_all_leave_and_return_at_their_use(self) -> None:
        schedule = compiled(training(3), "deepcompile", self.everything, limit="60%")
        assert moved(schedule) == {"a0", "a1"}
        for name, last_forward, first_backward in (("a0", 1, 5), ("a1", 2, 4)):
            store, prefetch = moves(schedule, name)
            assert store.id in schedule.op_times[last_forward + 1].waits
            assert prefetch.after_ops == (first_backward - 1,)

    def test_the_largest_that_fit_stay(self) -> None:
        b = GraphBuilder("sizes")
        ids = [b.storage(f"s{size}", size) for size in (3, 5, 4)]
        b.op("all", [], ids)
        candidates = [Saved(s, 0, 0, 9) for s in ids]
        assert [s.storage for s in deepcompile.stay_out(b.graph(), candidates, 8)] == [2]
        assert deepcompile.stay_out(b.graph(), candidates, 0) == candidates
        assert deepcompile.stay_out(b.graph(), candidates, 12) == []

    @pytest.mark.parametrize(
        ("budget", "issues"),
        [
            (40, [6, 5]),  # one op of 10 ns ahead of 7 for 10 bytes, two ahead of 9 for 20
            (39, [8, 5]),  # 10 live, 10 that came back before and 20
            (19, [8, 6]),  # 10 live and 10
        ],
    )
    def test_a_reload_goes_ahead_until_time_covers_it_or_memory_ends(self, budget: int, issues: list[int]) -> None:
        late, early = Saved(0, 0, 1, 9), Saved(1, 0, 2, 7)
        found = deepcompile.reload_issues([late, early], [20, 10], 10**9, [10] * 10, [10] * 10, budget, 3)
        assert found == issues

    def test_a_reload_never_begins_before_the_backward_pass(self) -> None:
        assert deepcompile.reload_issues([Saved(0, 0, 1, 6)], [10**6], 10**9, [1] * 8, [0] * 8, 10**9, 4) == [3]

    def test_small_activations_and_whole_numbers_stay(self) -> None:
        graph = training(3)
        assert compiled(graph, "deepcompile", limit="60%").transfers == ()
        ints = replace(graph, storages=tuple(replace(s, dtype="int32") for s in graph.storages))
        assert compiled(ints, "deepcompile", self.everything, limit="60%").transfers == ()

    def test_the_budget_can_be_given(self) -> None:
        graph = training(3, 1_000_000)
        options: dict[str, OptionValue] = {**self.everything, "offload_act_budget_gb": 1.0}
        assert compiled(graph, "deepcompile", options, limit="60%").transfers == ()
        tight: dict[str, OptionValue] = {**self.everything, "offload_act_budget_gb": 0.001}
        assert moved(compiled(graph, "deepcompile", tight, limit="200%")) == {"a0", "a1"}
