"""Questions about a graph's shape, answered on a networkx view of it."""

from __future__ import annotations

import itertools

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
