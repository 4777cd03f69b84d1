"""The graph, its hash and the questions asked of its networkx view."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hyperoffload_core.graphview import neighbourhood, to_networkx
from hyperoffload_core.ir import Graph, GraphError, Op, Storage, check_graph, dependencies, kept_with_graph


def made_graph(accesses: list[tuple[list[int], list[int]]], storages: int) -> Graph:
    """Every storage is a persistent weight of 4 bytes, so that any order of reading and writing is a valid graph."""
    after = dependencies(accesses)
    return Graph(
        name="made",
        ops=tuple(
            Op(n, f"op{n}", "Mul", "Default", "forward", tuple(reads), tuple(writes), after[n])
            for n, (reads, writes) in enumerate(accesses)
        ),
        storages=tuple(Storage(n, f"s{n}", 4, "weight", persistent=True) for n in range(storages)),
    )


# 0 writes a; 1 and 2 read a, write b and c; 3 reads b and c; 4 overwrites a in place.
DIAMOND = made_graph([([], [0]), ([0], [1]), ([0], [2]), ([1, 2], [3]), ([0], [0])], storages=4)

ACCESSES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 4), max_size=3, unique=True),
        st.lists(st.integers(0, 4), min_size=1, max_size=2, unique=True),
    ),
    min_size=1,
    max_size=8,
)


def test_an_op_that_overwrites_waits_for_every_reader() -> None:
    assert DIAMOND.ops[4].after == (0, 1, 2)


def test_readers_do_not_wait_for_each_other() -> None:
    assert DIAMOND.ops[1].after == DIAMOND.ops[2].after == (0,)


def test_edges_name_the_storages_that_cause_them() -> None:
    view = to_networkx(DIAMOND)
    assert view.edges[0, 1]["storages"] == (0,)
    assert view.edges[1, 4]["storages"] == (0,)
    assert view.edges[1, 3]["storages"] == (1,)


def test_a_control_dependency_has_no_storages() -> None:
    control = replace(DIAMOND.ops[3], after=(0, 1, 2))
    view = to_networkx(replace(DIAMOND, ops=(*DIAMOND.ops[:3], control, *DIAMOND.ops[4:])))
    assert view.edges[0, 3]["storages"] == ()


def test_neighbourhood_of_an_op_and_of_a_storage() -> None:
    assert set(neighbourhood(DIAMOND, op=3, hops=1)) == {1, 2, 3}
    assert set(neighbourhood(DIAMOND, storage=3, hops=0)) == {3}
    assert set(neighbourhood(DIAMOND, storage=1, hops=0)) == {1, 3}
    assert set(neighbourhood(DIAMOND, storage=1, hops=1)) == {0, 1, 2, 3, 4}
    with pytest.raises(ValueError, match="an op or a storage"):
        neighbourhood(DIAMOND)


@settings(max_examples=60, deadline=None)
@given(ACCESSES)
def test_dependencies_keep_what_every_reader_sees(accesses: list[tuple[list[int], list[int]]]) -> None:
    graph = made_graph(accesses, storages=5)
    check_graph(graph)
    orders = islice(nx.all_topological_sorts(to_networkx(graph)), 50)
    seen = {values_seen(accesses, tuple(order)) for order in orders}
    assert len(seen) == 1


def test_the_hash_ignores_names_of_graphs_and_notes() -> None:
    assert replace(DIAMOND, name="other", notes=("note",)).hash == DIAMOND.hash
    assert made_graph([([], [0])], storages=1).hash != DIAMOND.hash


def test_a_graph_that_misses_a_dependency_is_refused_by_name() -> None:
    broken = replace(DIAMOND, ops=(*DIAMOND.ops[:3], replace(DIAMOND.ops[3], after=(1,)), DIAMOND.ops[4]))
    with pytest.raises(GraphError, match="'op3' lacks the dependency on op 'op2'"):
        check_graph(broken)


def values_seen(accesses: list[tuple[list[int], list[int]]], order: tuple[int, ...]) -> tuple[object, ...]:
    """Which op last wrote each storage an op reads, and each storage at the end, when ops run in ``order``."""
    writer: dict[int, int] = {}
    seen: dict[int, tuple[int, ...]] = {}
    for op in order:
        reads, writes = accesses[op]
        seen[op] = tuple(writer.get(s, -1) for s in reads)
        writer.update(dict.fromkeys(writes, op))
    return (*sorted(seen.items()), *sorted(writer.items()))


def test_what_is_kept_with_a_graph_is_worked_out_once_and_is_that_graph_s_own() -> None:
    asked: list[Graph] = []

    @kept_with_graph
    def ops_of(graph: Graph) -> int:
        asked.append(graph)
        return len(graph.ops)

    one, other = made_graph([([], [0])], storages=1), made_graph([([], [0]), ([0], [])], storages=1)
    assert [ops_of(one), ops_of(other), ops_of(one)] == [1, 2, 1]
    assert len(asked) == 2
