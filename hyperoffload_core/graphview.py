"""Questions about a graph's shape, answered on a networkx view of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import networkx as nx

from hyperoffload_core.ir import Graph


def to_networkx(graph: Graph) -> nx.DiGraph:
    """Ops as nodes (op ids, with ``name``, ``primitive``, ``phase`` and ``scope``), dependencies as edges.

    An edge runs from the op that comes first; ``storages`` holds the ids the two ops share, empty for a dependency that
    is pure control.
    """
    view = nx.DiGraph(name=graph.name)
    touched = [{*op.reads, *op.writes} for op in graph.ops]
    for op in graph.ops:
        view.add_node(op.id, name=op.name, primitive=op.primitive, phase=op.phase, scope=op.scope)
    for op in graph.ops:
        written = set(op.writes)
        for before in op.after:
            # Only a storage one of the two writes can be why they are ordered.
            shared = touched[before] & touched[op.id] & (written | set(graph.ops[before].writes))
            view.add_edge(before, op.id, storages=tuple(sorted(shared)))
    return view


def critical_path(graph: Graph, durations_ns: Sequence[int]) -> tuple[int, ...]:
    """The chain of dependent ops that takes longest: no schedule, on however many streams, is shorter than its sum.

    Of equally long chains it is the one through the lowest op ids. Empty for a graph without ops.
    """
    finish: list[int] = []
    before: list[int] = []
    for op in graph.ops:
        best = max(op.after, key=lambda n: (finish[n], -n), default=-1)
        before.append(best)
        finish.append(durations_ns[op.id] + (finish[best] if best >= 0 else 0))
    if not finish:
        return ()
    path = [max(range(len(finish)), key=lambda n: (finish[n], -n))]
    while before[path[-1]] >= 0:
        path.append(before[path[-1]])
    return tuple(reversed(path))


def ancestors(graph: Graph, op: int) -> frozenset[int]:
    """Every op that must have run before ``op``."""
    found: set[int] = set()
    stack = list(graph.ops[op].after)
    while stack:
        n = stack.pop()
        if n not in found:
            found.add(n)
            stack.extend(graph.ops[n].after)
    return frozenset(found)


def topological_orders(graph: Graph, limit: int) -> Iterator[tuple[int, ...]]:
    """Up to ``limit`` different orders in which the ops may run (a graph of n ops can have n! of them)."""
    orders = nx.all_topological_sorts(to_networkx(graph))
    return (tuple(order) for order in itertools.islice(orders, limit))


def neighbourhood(graph: Graph, *, op: int | None = None, storage: int | None = None, hops: int = 1) -> nx.DiGraph:
    """The part of the networkx view within ``hops`` dependencies of an op, or of the ops that access a storage."""
    if (op is None) == (storage is None):
        raise ValueError("name an op or a storage, not both")
    centre = [op] if op is not None else [a.op for a in graph.accesses[storage or 0]]
    view = to_networkx(graph)
    near = set(centre)
    edge = set(centre)
    for _ in range(hops):
        edge = {m for n in edge for m in itertools.chain(view.predecessors(n), view.successors(n))} - near
        near |= edge
    return view.subgraph(near).copy()
