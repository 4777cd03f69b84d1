"""Strategies that keep optimizer states, gradients and weights in the pool, on steps small enough to follow by hand."""

from __future__ import annotations

import pytest

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.ir import Graph, Op
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.strategies import STRATEGIES, superoffload, updates
from hyperoffload_core.strategies.base import OptionValue, Request
from hyperoffload_core.strategies.deep_optimizer_states import interleaved
from hyperoffload_core.strategies.layers import layer_of, layer_visits
from tests.graphs import TINY, GraphBuilder, training

# training(3): forward 0 1 2, loss 3, backward 4 (layer 2) 5 (layer 1) 6 (layer 0), updates 7 8 9 (layers 0 1 2).
# The gradient dw0 is made by op 6 and used by op 7, dw1 by 5 and 8, dw2 by 4 and 9.


def compiled(
    graph: Graph, strategy: str, op_ns: int | tuple[int, ...] = 1000, limit: str = "100%", **options: OptionValue
) -> Schedule:
    times = (op_ns,) * len(graph.ops) if isinstance(op_ns, int) else op_ns
    policy = Policy(memory_limit=limit, strategy=strategy, options=options)
    return compile_schedule(graph, Durations(times, "made up"), TINY, policy)


def issues(schedule: Schedule, storage: str) -> list[tuple[str, int]]:
    """Transfers of a storage in sequence: kind, and the op behind which the plan issues it (-1: at the start).

    Asked of the plan: in the schedule a transfer may have to wait longer, for its address to become free.
    """
    graph = schedule.graph
    plan = STRATEGIES[schedule.strategy].plan(
        Request(
            graph=graph,
            durations_ns=schedule.durations_ns,
            hardware=schedule.hardware,
            limit_bytes=schedule.memory_limit_bytes,
            actions=("auto",) * len(graph.storages),
            options=schedule.policy["options"],
        )
    )
    found = [t for t in plan.transfers if graph.storages[t.storage].name == storage]
    return [(t.kind, plan.order[t.after] if t.after >= 0 else -1) for t in sorted(found, key=lambda t: t.after)]


def moved(schedule: Schedule) -> set[str]:
    return {schedule.graph.storages[t.storage].name for t in schedule.transfers}


def waits_for(schedule: Schedule, op: int) -> set[tuple[str, str]]:
    by_id = {t.id: t for t in schedule.transfers}
    waits = next(t.waits for t in schedule.op_times if t.op == op)
    return {(by_id[w].kind, schedule.graph.storages[by_id[w].storage].name) for w in waits}


class TestUpdates:
    def test_an_update_knows_its_weight_states_and_gradient(self) -> None:
        graph = training(2, 8)
        names = [s.name for s in graph.storages]
        found = updates.parameter_updates(graph)
        assert [(u.op, names[u.weights[0]], names[u.states[0]], names[u.gradients[0]], u.elements) for u in found] == [
            (5, "w0", "m0", "dw0", 8),
            (6, "w1", "m1", "dw1", 8),
        ]

    def test_what_all_updates_read_belongs_to_none_and_a_counter_is_no_update(self) -> None:
        b = GraphBuilder("adam")
        weight, moment = b.storage("w", 8, "weight", True), b.storage("m", 8, "optimizer_state", True)
        rate, step = b.storage("rate", 1, "optimizer_state", True), b.storage("step", 1, "optimizer_state", True)
        gradient = b.storage("g", 8, "gradient")
        b.op("grad", [weight], [gradient], "backward")
        b.op("count", [step], [step], "optimizer")
        b.op("adam", [weight, moment, rate, gradient, step], [weight, moment], "optimizer")
        (update,) = updates.parameter_updates(b.graph())
        assert (update.op, update.weights, update.states) == (2, (weight,), (moment,))
        assert update.gradients == (gradient,)

    def test_groups_fill_up_in_sequence(self) -> None:
        found = updates.parameter_updates(training(5, 8))
        sizes = [[u.op - found[0].op for u in g] for g in updates.grouped(found, lambda u: u.elements, 16)]
        assert sizes == [[0, 1], [2, 3], [4]]
        assert [len(g) for g in updates.grouped(found, lambda u: u.elements, 1)] == [1] * 5

    def test_the_first_parameters_stay_when_a_share_leaves(self) -> None:
        found = updates.parameter_updates(training(4, 8))
        assert updates.offloaded_share(found, 1.0) == found
        assert updates.offloaded_share(found, 0.5) == found[2:]
        assert updates.offloaded_share(found, 0.0) == ()

    def test_updates_run_together_behind_the_last_gradient_of_their_group(self) -> None:
        graph = training(3)
        by_gradient = updates.parameter_updates(graph)[::-1]
        alone = updates.order_with_updates_behind(graph, [(u,) for u in by_gradient])
        assert alone == (0, 1, 2, 3, 4, 9, 5, 8, 6, 7)
        pairs = updates.order_with_updates_behind(graph, [by_gradient[:2], by_gradient[2:]])
        assert pairs == (0, 1, 2, 3, 4, 5, 8, 9, 6, 7)

    def test_an_update_that_needs_the_norm_of_all_gradients_runs_behind_it(self) -> None:
        b = GraphBuilder("clipped")
        weights = [b.storage(f"w{i}", 8, "weight", True) for i in range(2)]
        gradients = [b.storage(f"g{i}", 8, "gradient") for i in range(2)]
        norm = b.storage("norm", 1)
        for i in range(2):
            b.op(f"grad:{i}", [weights[i]], [gradients[i]], "backward")
        b.op("norm", gradients, [norm], "optimizer")
        for i in range(2):
            b.op(f"sgd:{i}", [weights[i], gradients[i], norm], [weights[i]], "optimizer")
        found = updates.parameter_updates(b.graph())
        assert updates.order_with_updates_behind(b.graph(), [(u,) for u in found]) == (0, 1, 2, 3, 4)


class TestZeroOffload:
    def test_states_live_in_the_pool_and_come_one_update_at_a_time(self) -> None:
        schedule = compiled(training(3), "zero-offload")
        assert moved(schedule) == {"m0", "m1", "m2", "dw1", "dw2"}  # dw0 has no time to leave
        assert [issues(schedule, f"m{i}") for i in range(3)] == [
            [("prefetch", 6), ("store", 7)],
            [("prefetch", 7), ("store", 8)],
            [("prefetch", 8), ("store", 9)],
        ]
        assert ("store", "m0") in waits_for(schedule, 8)
        assert {s.name for s, home in zip(schedule.graph.storages, schedule.homes, strict=True) if home == "pool"} == {
            "m0",
            "m1",
            "m2",
        }

    def test_gradients_leave_when_their_bucket_is_full(self) -> None:
        whole = compiled(training(3), "zero-offload")
        assert issues(whole, "dw2") == [("store", 6), ("prefetch", 8)]
        assert issues(whole, "dw1") == [("store", 6), ("prefetch", 7)]
        each = compiled(training(3), "zero-offload", reduce_bucket_size=8)
        assert issues(each, "dw2") == [("store", 4), ("prefetch", 8)]
        assert issues(each, "dw1") == [("store", 5), ("prefetch", 7)]

    def test_more_buffers_bring_the_next_update_ahead(self) -> None:
        schedule = compiled(training(3), "zero-offload", buffer_count=8)
        assert [issues(schedule, f"m{i}")[0] for i in range(3)] == [("prefetch", 6), ("prefetch", 6), ("prefetch", 7)]
        assert not any(kind == "store" for op in (7, 8, 9) for kind, _ in waits_for(schedule, op))

    def test_a_share_of_the_states_stays(self) -> None:
        assert moved(compiled(training(4), "zero-offload", ratio=0.5)) == {"m2", "m3", "dw2", "dw3"}


class TestZeroInfinity:
    small = {"param_persistence_threshold": 0, "sub_group_size": 8}  # noqa: RUF012 - not changed

    def test_weights_come_for_each_visit_and_for_the_update(self) -> None:
        schedule = compiled(training(3), "zero-infinity", prefetch_depth=1, **self.small)
        # Ops without a scope are layers of their own: visits 0 1 2, 4 5 6. Forward of layer 0, its backward (issued
        # when op 5 begins), its update; only that writes.
        assert issues(schedule, "w0") == [("prefetch", -1), ("prefetch", 4), ("prefetch", 6), ("store", 7)]
        assert issues(schedule, "w1") == [("prefetch", -1), ("prefetch", 3), ("prefetch", 7), ("store", 8)]
        assert {"m0", "dw1", "dw2"} <= moved(schedule)

    def test_depth_is_how_many_visits_ahead_a_weight_is_issued(self) -> None:
        at = {
            d: issues(compiled(training(3), "zero-infinity", prefetch_depth=d, **self.small), "w0")[1] for d in (0, 2)
        }
        assert at == {0: ("prefetch", 5), 2: ("prefetch", 3)}

    def test_small_weights_persist(self) -> None:
        assert not {"w0", "w1", "w2"} & moved(compiled(training(3), "zero-infinity", sub_group_size=8))

    @pytest.mark.parametrize("read", [False, True])
    @pytest.mark.parametrize("write", [False, True])
    def test_pipelines_decide_when_a_tile_is_read_and_whether_writes_are_waited_for(
        self, read: bool, write: bool
    ) -> None:
        schedule = compiled(training(3), "zero-infinity", pipeline_read=read, pipeline_write=write, **self.small)
        assert issues(schedule, "m2")[0] == ("prefetch", 7 if read else 8)
        assert (("store", "m1") in waits_for(schedule, 9)) == (not write)

    def test_a_tile_is_read_whole(self) -> None:
        schedule = compiled(training(3), "zero-infinity", param_persistence_threshold=0, sub_group_size=16)
        assert {("prefetch", "m0"), ("prefetch", "m1")} <= waits_for(schedule, 7)
        assert issues(schedule, "m1") == [("prefetch", 6), ("store", 8)]

    def test_a_block_is_a_layer_forward_and_backward(self) -> None:
        def op(scope: str) -> Op:
            return Op(3, "op", "MatMul", scope, "forward", (), (), ())

        block = "Default/network-Net/blocks-CellList/0-Block"
        assert layer_of(op(f"{block}/attention-Attention/query-Dense")) == block
        assert layer_of(op(f"Gradients/{block}/norm-RMSNorm")) == block
        assert layer_of(op("Default/network-Net/head-Dense")) == "Default/network-Net/head-Dense"
        assert layer_of(op("")) == "op 3"

    def test_visits_count_only_ops_that_use_weights(self) -> None:
        graph = training(2)
        assert [(v.first, v.last) for v in layer_visits(graph, range(len(graph.ops)))] == [
            (0, 0),
            (1, 1),
            (3, 3),
            (4, 4),
        ]


class TestSuperOffload:
    mb = 1_000_000  # 1 ms on the tiny link

    def test_buckets_are_updated_during_backward_and_only_states_move(self) -> None:
        schedule = compiled(training(3, self.mb), "superoffload", bucket_size_mb=1, retain_buckets=0)
        assert schedule.order == (0, 1, 2, 3, 4, 9, 5, 8, 6, 7)
        assert moved(schedule) == {"m0", "m1", "m2"}
        assert issues(schedule, "m2") == [("prefetch", 3), ("store", 9)]
        assert issues(schedule, "m0") == [("prefetch", 9), ("store", 7)]

    def test_without_speculation_updates_wait_for_backward_and_gradients_leave(self) -> None:
        schedule = compiled(
            training(3, self.mb), "superoffload", bucket_size_mb=1, retain_buckets=0, speculative_step=False
        )
        assert schedule.order == tuple(range(10))
        assert moved(schedule) == {"m0", "m1", "m2", "dw1", "dw2"}

    def test_as_few_last_buckets_stay_as_hide_every_copy(self) -> None:
        slow = 10_000_000  # ns per op: a copy takes a tenth of it
        schedule = compiled(training(3, self.mb), "superoffload", slow, bucket_size_mb=1)
        assert moved(schedule) == {"m1", "m2"}  # the last update's copy out is behind the last op
        assert schedule.metrics.blocking_ns == 0
        assert "1 of 3 buckets keep their optimizer states" in schedule.notes

    def test_retained_buckets_never_exceed_the_limit_that_fewer_would_keep(self) -> None:
        graph, slow = training(3, self.mb), 10_000_000
        none_kept = compiled(graph, "superoffload", slow, bucket_size_mb=1, retain_buckets=0)
        limit = f"{none_kept.metrics.reserved_bytes}B"
        schedule = compiled(graph, "superoffload", slow, limit, bucket_size_mb=1)
        assert schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes
        assert moved(schedule) == {"m0", "m1", "m2"}

    def test_weights_flow_where_stationary_ones_do_not_fit_and_compute_covers_them(self) -> None:
        graph = training(4, self.mb)
        for op_ns, flows in ((10_000_000, True), (1000, False)):
            schedule = compiled(graph, "superoffload", op_ns, "40%", bucket_size_mb=1)
            assert ("w0" in moved(schedule)) == flows
        roomy = compiled(graph, "superoffload", 10_000_000, "100%", bucket_size_mb=1)
        assert "w0" not in moved(roomy)

    @pytest.mark.parametrize(("weights", "flows"), [("flow", True), ("stationary", False)])
    def test_where_the_weights_live_can_be_said(self, weights: str, flows: bool) -> None:
        schedule = compiled(training(3, self.mb), "superoffload", bucket_size_mb=1, weights=weights)
        assert ("w0" in moved(schedule)) == flows

    def test_the_fewest_buckets_are_found_by_halving(self) -> None:
        assert [superoffload._first(0, 9, lambda n, k=k: n >= k) for k in range(11)] == [*range(10), 9]


class TestDeepOptimizerStates:
    def test_every_second_subgroup_is_moved_ahead_and_the_others_are_waited_for(self) -> None:
        at = [(7, 7), (8, 8), (9, 9), (10, 10)]
        found = interleaved(at, 2, 6)
        assert [t.fetch_after for t in found] == [6, 6, 8, 8]
        assert [t.wait_before for t in found] == [8, None, 10, None]

    def test_a_stride_of_three_gives_the_copy_two_subgroups_of_time(self) -> None:
        found = interleaved([(p, p) for p in range(7, 13)], 3, 6)
        assert [t.fetch_after for t in found] == [6, 7, 6, 9, 10, 9]

    def test_subgroups_of_the_device_are_copied_beside_the_others(self) -> None:
        room = compiled(training(4), "deep-optimizer-states", limit="100%", sub_group_size=8)
        # training(4): backward ends with op 8, updates are 9 to 12.
        assert [issues(room, f"m{i}")[0] for i in range(4)] == [
            ("prefetch", 8),
            ("prefetch", 8),
            ("prefetch", 10),
            ("prefetch", 10),
        ]
        assert ("store", "m0") in waits_for(room, 10)
        assert ("store", "m1") not in waits_for(room, 11)

    def test_without_room_for_two_subgroups_each_is_moved_in_turn(self) -> None:
        tight = compiled(training(4), "deep-optimizer-states", limit="20%", sub_group_size=8)
        assert [issues(tight, f"m{i}")[0][1] for i in range(4)] == [8, 9, 10, 11]

    def test_gradients_leave_during_backward_or_not(self) -> None:
        away = compiled(training(3), "deep-optimizer-states", sub_group_size=8)
        assert issues(away, "dw2") == [("store", 4), ("prefetch", 8)]
        stay = compiled(training(3), "deep-optimizer-states", sub_group_size=8, backward_offload=False)
        assert moved(stay) == {"m0", "m1", "m2"}


def test_a_gradient_is_ready_behind_its_last_use_before_the_update() -> None:
    graph = training(3)
    uses = uses_in_order(graph, range(len(graph.ops)))
    found = updates.parameter_updates(graph)
    assert [updates.ready_at(u, uses, range(len(graph.ops))) for u in found] == [6, 5, 4]
