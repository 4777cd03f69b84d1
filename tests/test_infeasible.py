"""A limit that cannot be met is explained: the op, its working set, and what would make it fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.main import run
from hyperoffload_core.analysis.bounds import smallest_feasible_limit
from hyperoffload_core.analysis.infeasible import BATCH_CLASSES, explain_infeasible
from hyperoffload_core.compile import InfeasibleError, compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.graphfile import GraphFile, write_graph
from hyperoffload_core.ir import Graph, Storage
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.schedule import read_schedule
from tests.graphs import TINY, GraphBuilder, chain, graphs


def shaped(graph: Graph, shapes: dict[str, tuple[int, ...]]) -> Graph:
    """The graph with other shapes, one byte an element."""

    def one(s: Storage) -> Storage:
        return replace(s, shape=shapes.get(s.name, s.shape))

    return replace(graph, storages=tuple(one(s) for s in graph.storages))


def matmul() -> Graph:
    """x (4 x 30) times w (30 x 10) gives y (4 x 10): 120 + 300 + 40 bytes."""
    b = GraphBuilder("matmul")
    x, w, y = b.storage("x", 120, "input"), b.storage("w", 300, "weight", True), b.storage("y", 40, "output")
    b.op("matmul", [x, w], [y])
    return shaped(b.graph(), {"x": (4, 30), "w": (30, 10), "y": (4, 10)})


def test_the_working_set_is_listed_largest_first() -> None:
    why = explain_infeasible(matmul(), 400)
    assert why.op == 0
    assert [(why.working_set[i][0], why.working_set[i][1]) for i in range(3)] == [(1, 300), (0, 120), (2, 40)]
    assert why.missing_bytes == 60
    assert "(the largest: 'w' with 300 B, 'x' with 120 B, 'y' with 40 B)" in why.sentence


def test_the_largest_storage_is_split_along_the_dimension_that_needs_the_fewest_pieces() -> None:
    """Along 30 x and w are halved (40 + 210 bytes), along 10 w and y (120 + 170): both fit 300, the first is less."""
    split = explain_infeasible(matmul(), 300).split
    assert split is not None
    assert (split.storage, split.dimension, split.extent, split.factor, split.bytes) == (1, 0, 30, 2, 250)
    split = explain_infeasible(matmul(), 100).split
    assert split is not None
    assert (split.dimension, split.factor, split.bytes) == (0, 10, 82)


def test_a_split_is_not_offered_where_no_factor_fits() -> None:
    assert explain_infeasible(matmul(), 40).split is None


def test_a_smaller_batch_is_offered_with_what_does_not_scale() -> None:
    """w (300) and the output y (40) stay as they are; of x's 120 bytes 60 fit."""
    batch = explain_infeasible(matmul(), 400).batch
    assert batch is not None
    assert (batch.fraction, batch.fixed_bytes, batch.storages) == (0.5, 340, (0,))


def test_no_batch_is_small_enough_where_the_weights_alone_are_too_much() -> None:
    why = explain_infeasible(matmul(), 330)
    assert why.batch is None
    assert "of the batch" not in why.advice


def test_what_cannot_move_is_kept_and_named_and_no_rule_is_blamed() -> None:
    b = GraphBuilder("fixed")
    x, held, y = b.storage("x", 10, "input"), b.storage("held", 100, "weight", True), b.storage("y", 10, "output")
    b.op("first", [x], [y])
    b.op("last", [held, y], [y])
    graph, durations, fixed = b.graph(), Durations((10, 10), "made up"), {held: "a constant"}
    policy = Policy(memory_limit="112B", rules=(Rule(name="held", action="offload"),))
    with pytest.raises(
        InfeasibleError, match=r"is 120 B .*; op by op, where all storages can move, it is 110 B$"
    ) as error:
        compile_schedule(graph, durations, TINY, policy, fixed=fixed)
    assert error.value.why.keep_less is None and "keep less" not in error.value.advice
    enough = policy.model_copy(update={"memory_limit": "120B"})
    schedule = compile_schedule(graph, durations, TINY, enough, fixed=fixed)
    assert held not in {t.storage for t in schedule.transfers}
    assert "planned with 1 storages (100 B) that cannot move: a constant" in schedule.notes


def test_keeping_less_is_offered_where_keep_rules_alone_are_to_blame() -> None:
    b = GraphBuilder("kept")
    x, held, y = b.storage("x", 10, "input"), b.storage("held", 100, "weight", True), b.storage("y", 10, "output")
    b.op("first", [x], [y])
    b.op("last", [held, y], [y])
    graph = b.graph()
    policy = Policy(memory_limit="112B", rules=(Rule(name="held", action="keep"),))
    with pytest.raises(InfeasibleError) as error:
        compile_schedule(graph, Durations((10, 10), "made up"), TINY, policy)
    assert error.value.why.keep_less is not None
    assert error.value.why.keep_less.smallest_bytes == 110
    assert "keep less" in error.value.advice
    assert explain_infeasible(graph, 109, [held]).keep_less is None


@pytest.mark.parametrize("effort", ["fast", "normal", "best"])
def test_effort_is_an_option_of_the_command_line(effort: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(GraphFile(matmul(), {}), Path("graph.json"))
    assert run(["compile", "graph.json", "--limit", "460B", "--effort", effort, "--output", "s.json"]) == 0
    assert read_schedule(Path("s.json")).policy["options"]["effort"] == effort


def test_the_command_line_says_what_would_fit_in_a_second_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_graph(GraphFile(matmul(), {}), Path("graph.json"))
    assert run(["compile", "graph.json", "--limit", "400B", "--hardware", "h200"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert "the memory limit 400 B cannot be met" in lines[-2]
    assert lines[-1].startswith("what would fit: 50% of the batch at most")


@given(graphs(), st.floats(0.01, 0.99))
@settings(max_examples=150, deadline=None)
def test_what_is_offered_really_fits(graph: Graph, share: float) -> None:
    smallest = smallest_feasible_limit(graph).bytes
    limit = max(1, int(smallest * share))
    if limit >= smallest:
        return
    why = explain_infeasible(graph, limit)
    if why.split is not None:
        assert why.split.bytes <= limit
        assert why.split.extent % why.split.factor == 0
    if why.batch is not None:
        # sizes are whole bytes: what scales may be a byte too large for each storage
        smaller = tuple(
            replace(s, bytes=max(1, int(s.bytes * why.batch.fraction))) if s.tensor_class in BATCH_CLASSES else s
            for s in graph.storages
        )
        needed = smallest_feasible_limit(replace(graph, storages=smaller)).bytes
        assert needed <= limit + len(graph.storages)
    assert "\n" not in why.sentence + why.advice


def test_the_largest_working_set_decides_for_a_chain() -> None:
    graph = chain(3, 100)
    why = explain_infeasible(graph, 150)
    assert why.op is not None
    assert sum(size for _, size in why.working_set) == 200
