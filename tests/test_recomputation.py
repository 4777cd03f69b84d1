"""Ops run again: what may, where, and what comes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.graphfile import graph_document, graph_from_document
from hyperoffload_core.ir import Graph, check_graph
from hyperoffload_core.passes.recomputation import (
    Recomputation,
    RecomputationError,
    recompute,
    recompute_candidates,
    recompute_together,
)
from hyperoffload_core.schedule import from_document, to_document
from hyperoffload_core.verifier import verify
from tests.byte_machine import run_bytes
from tests.graphs import GraphBuilder, graphs, training
from tests.naive_schedule import random_durations
from tests.recomputations import random_recomputed_schedule


def names(graph: Graph, op: int) -> tuple[list[str], list[str]]:
    """What the op reads and writes, by name."""
    storages = graph.storages
    return [storages[s].name for s in graph.ops[op].reads], [storages[s].name for s in graph.ops[op].writes]


def test_an_op_runs_again_just_ahead_of_its_reader_into_a_storage_of_its_own() -> None:
    graph = training(2)  # forward:0, forward:1, loss, backward:1 (reads a0), backward:0, adam:0, adam:1
    again = recompute(graph, [Recomputation((0,), 3, (3,))])
    assert [op.name for op in again.ops[:5]] == [
        "forward:0",
        "forward:1",
        "loss",
        "forward:0 (recomputed)",
        "backward:1",
    ]
    assert names(again, 3) == (["x", "w0"], ["a0 (recomputed)"])
    assert names(again, 4)[0] == ["da", "a0 (recomputed)", "w1"]
    assert names(again, 1)[0] == ["a0", "w1"]
    assert (again.ops[3].recompute_of, again.ops[3].phase) == (0, "backward")
    assert again.storages[-1].recompute_of == [s.name for s in graph.storages].index("a0")
    assert again.origins == (0, 1, 2, 0, 3, 4, 5, 6)
    adam = next(op for op in again.ops if op.name == "adam:0")
    assert 3 in adam.after, "the weight is updated only when the second run has read it"
    assert again.original == graph and again.original.hash == graph.hash
    assert graph.original is graph


def test_what_was_dropped_on_the_way_runs_again_as_well() -> None:
    b = GraphBuilder("segment")
    x, a, c, d, out = b.storage("x", 4, "input"), *(b.storage(n, 8) for n in "acd"), b.storage("out", 4, "output")
    b.op("one", [x], [a])
    b.op("two", [a], [c])
    b.op("three", [c], [d])
    b.op("back:2", [d, c], [out], "backward")
    b.op("back:1", [out, a], [out], "backward")
    again = recompute(b.graph(), [Recomputation((0, 1), 3, (3, 4))])
    assert names(again, 4) == (["a (recomputed)"], ["c (recomputed)"])
    assert names(again, 5)[0] == ["d", "c (recomputed)"]
    assert names(again, 6)[0] == ["out", "a (recomputed)"]


def test_an_op_of_several_results_serves_only_what_is_read() -> None:
    b = GraphBuilder("results")
    x, left = b.storage("x", 8, "input"), b.storage("left", 8)
    right, out = b.storage("right", 8, "output"), b.storage("out", 8, "output")
    b.op("split", [x], [left, right])
    b.op("between", [x], [out])
    b.op("use", [left, out], [out], "backward")
    again = recompute(b.graph(), [Recomputation((0,), 2, (2,))])
    assert names(again, 2) == (["x"], ["left (recomputed)", "right (recomputed)"])
    assert names(again, 3)[0] == ["left (recomputed)", "out"]
    assert [s.tensor_class for s in again.storages[-2:]] == ["activation", "activation"]


def test_a_second_recomputation_reads_the_copy_of_the_first() -> None:
    graph = training(3)  # ... loss 3, backward:2 at 4 (a1), backward:1 at 5 (a0), backward:0 at 6
    again = recompute(graph, [Recomputation((0,), 4, (5,)), Recomputation((1,), 4, (4,)), Recomputation((0,), 5, (5,))])
    assert names(again, 5) == (["a0 (recomputed)", "w1"], ["a1 (recomputed)"])
    assert names(again, 7) == (["x", "w0"], ["a0 (recomputed 2)"])
    assert names(again, 8)[0] == ["da2", "a0 (recomputed 2)", "w1"]


def updated_weight() -> Graph:
    b = GraphBuilder("updated")
    w, a, out = b.storage("w", 8, "weight", True), b.storage("a", 8), b.storage("out", 8, "output")
    b.op("forward", [w], [a])
    b.op("update", [w], [w], "optimizer")
    b.op("backward", [a], [out], "backward")
    b.op("touch", [a], [a], "backward")
    b.op("after", [a], [out], "backward")
    return b.graph()


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (Recomputation((0,), 2, (2,)), "op 'forward' cannot run again ahead of .* 'w' was written meanwhile"),
        (Recomputation((1,), 2, (2,)), "op 'update' cannot run again .* a second run would not give the same"),
        (Recomputation((0,), 1, (3,)), "op 'touch' writes in place what is recomputed ahead of op 'update'"),
        (Recomputation((0,), 1, (4,)), "op 'after' reads nothing of what is recomputed ahead of op 'update'"),
        (Recomputation((2,), 1, (4,)), "op 'backward' cannot run again ahead of op 'update': has not run by then"),
        (Recomputation((0,), 4, (2,)), "op 'backward' runs before what is recomputed ahead of 'after'"),
        (Recomputation((0, 0), 1, (2,)), "the ops to run again ahead of op 'update' are not in captured order"),
    ],
)  # fmt: skip
def test_what_would_change_a_result_is_refused(item: Recomputation, message: str) -> None:
    with pytest.raises(RecomputationError, match=message):
        recompute(updated_weight(), [item])


def test_random_ops_and_recomputed_graphs_are_refused() -> None:
    graph = training(2)
    dropout = replace(graph, ops=(replace(graph.ops[0], stateful=True), *graph.ops[1:]))
    assert dropout.hash != graph.hash
    with pytest.raises(RecomputationError, match="op 'forward:0' cannot run again"):
        recompute(dropout, [Recomputation((0,), 3, (3,))])
    assert not [c for c in recompute_candidates(dropout, [1] * 7) if 0 in c.recomputation.ops]
    again = recompute(graph, [Recomputation((0,), 3, (3,))])
    with pytest.raises(RecomputationError, match="names ops that are themselves recomputed"):
        recompute(again, [Recomputation((3,), 4, (4,))])


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False), st.integers(0, 1 << 32))
def test_every_byte_survives_any_legal_recomputation_under_any_schedule_and_timing(random: Random, seed: int) -> None:
    """Whatever `recompute` accepts is a sound graph, leads back to the original, and gives schedules that the verifier
    accepts and simulated memory runs without a wrong byte."""
    graph, schedule = random_recomputed_schedule(random)
    again = schedule.graph
    check_graph(again)
    assert again.original == graph and again.original.hash == graph.hash
    document = json.loads(json.dumps(graph_document(again)))
    assert graph_from_document(document) == again
    verify(schedule, graph)
    assert from_document(json.loads(json.dumps(to_document(schedule)))) == schedule
    for _ in range(2):
        run_bytes(schedule, *random_durations(Random(seed), schedule))


@settings(max_examples=60, deadline=None)
@given(graphs(most_ops=18))
def test_a_candidate_frees_its_gap_at_the_cost_it_names(graph: Graph) -> None:
    durations = [7 + op.id for op in graph.ops]
    for c in recompute_candidates(graph, durations):
        item = c.recomputation
        again = recompute(graph, [item])
        left, right = (a.op for a in graph.accesses[c.storage][c.gap : c.gap + 2])
        assert item.before == right
        assert c.cost_ns == sum(durations[o] for o in again.origins) - sum(durations)
        assert again.origins[again.accesses[c.storage][-1].op] == left
        before, after = live_bytes(graph, range(len(graph.ops))), live_bytes(again, range(len(again.ops)))
        kept_longer = {s for o in item.ops for s in graph.ops[o].reads if graph.storages[s].tensor_class == "input"}
        allowed = sum(graph.storages[s].bytes for s in kept_longer)
        assert all(after[o] <= before[o] - c.bytes + allowed for o in range(left + 1, right))
        begun = {
            s for s in graph.ops[right].writes if graph.accesses[s][0].op == right and not graph.exists_at_start(s)
        }
        there = before[right] - graph.ops[right].workspace_bytes - sum(graph.storages[s].bytes for s in begun)
        again_peak = max(after[right : right + len(item.ops)])
        assert again_peak <= there + c.extra_bytes


@settings(max_examples=100, deadline=None)
@given(graphs(most_ops=20), st.randoms(use_true_random=False))
def test_candidates_taken_together_free_all_their_gaps(graph: Graph, random: Random) -> None:
    chosen = [c for c in recompute_candidates(graph, [1] * len(graph.ops)) if random.random() < 0.7]
    items = recompute_together(graph, chosen)
    again = recompute(graph, items)
    check_graph(again)
    assert [i.before for i in items] == sorted({i.before for i in items})
    freed = [
        c
        for c in chosen
        if any(c.recomputation.before == i.before and graph.accesses[c.storage][0].op in i.ops for i in items)
    ]
    kept_longer = {
        s for i in items for o in i.ops for s in graph.ops[o].reads if graph.storages[s].tensor_class == "input"
    }
    # What a second run writes besides: its readers read the copy, yet the original may be needed later all the same.
    asked = {(c.storage, c.recomputation.before) for c in freed}
    besides = [s for i in items for o in i.ops for s in graph.ops[o].writes if (s, i.before) not in asked]
    allowed = sum(graph.storages[s].bytes for s in [*kept_longer, *besides])
    if len(freed) < len(chosen):
        return  # what one of them could not be freed for may be read longer
    before, after = live_bytes(graph, range(len(graph.ops))), live_bytes(again, range(len(again.ops)))
    for position, op in enumerate(again.ops):
        if op.recompute_of is None:
            here = again.origins[position]
            gone = [c for c in freed if graph.accesses[c.storage][c.gap].op < here < c.recomputation.before]
            assert after[position] <= before[here] - sum(c.bytes for c in gone) + allowed


def test_what_two_readers_of_one_place_need_runs_once_there() -> None:
    b = GraphBuilder("shared")
    x, a, c, d, y, out = b.storage("x", 4, "input"), *(b.storage(n, 8) for n in "acdy"), b.storage("out", 4, "output")
    b.op("one", [x], [a])
    b.op("two", [a], [c])
    b.op("three", [a], [d])
    b.op("other", [x], [y])
    b.op("back", [a, c, d, y], [out], "backward")
    graph = b.graph()
    items = recompute_together(graph, recompute_candidates(graph, [1] * 5))
    assert items == [Recomputation((0, 1, 2), 4, (4,))]


def test_candidates_of_a_training_step_are_its_activations_between_forward_and_backward() -> None:
    graph = training(3)
    found = {graph.storages[c.storage].name: c for c in recompute_candidates(graph, [10] * len(graph.ops))}
    # a1 from a0, which backward:1 still reads after backward:2; a0 from x, which backward:0 reads; the gradients of the
    # weights wait for the optimizer, and by then what they were made of is gone and has to run again as well
    assert {n: len(c.recomputation.ops) for n, c in found.items() if n.startswith("a")} == {"a0": 1, "a1": 1}
    assert found["a0"].cost_ns == 10 and found["a0"].recomputation.readers == (5,)
