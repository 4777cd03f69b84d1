"""What has to come back in every step because a storage moves as a whole (proof in docs/scheduling.md).

A storage that leaves has to be back for its own ops, and while one of them runs the others that leave have to make the
room alone. So what leaves is more than what is over the limit, by the storage itself.
"""

from __future__ import annotations

from hyperoffload_core.ir import Graph, kept_with_graph, storages_of


@kept_with_graph
def returning_storages(graph: Graph) -> tuple[int, ...]:
    """Storages that hold a value at every moment, which the step reads: one that leaves has to come back.

    None that an op overwrites without reading it: between its last reader and that op nothing has to be kept.
    """
    return tuple(
        s.id
        for s in graph.storages
        if graph.exists_at_start(s.id) and graph.lives_to_end(s.id)
        if graph.accesses[s.id] and all(access.reads for access in graph.accesses[s.id])
    )


def least_bytes_back(graph: Graph, limit_bytes: int) -> int:
    """Bytes of `returning_storages` that are copied in per step at least, in every schedule that meets the limit."""
    returning = returning_storages(graph)
    always = sum(graph.storages[s].bytes for s in returning)
    over = [always - limit_bytes + besides for besides in bytes_besides(graph)]
    if max(over, default=0) <= 0:
        return 0
    # If this one leaves, so much comes back: itself, and what makes the room while one of its ops runs.
    with_it = sorted(
        (graph.storages[s].bytes + max(0, *(over[a.op] for a in graph.accesses[s])), graph.storages[s].bytes)
        for s in returning
    )
    available = 0
    for needed, size in with_it:
        available += size
        if available >= needed:
            return max(needed, *over)
    return max(over)


@kept_with_graph
def bytes_besides(graph: Graph) -> tuple[int, ...]:
    """Bytes that are on the device beside `returning_storages` while each op runs: its workspace and its other
    storages."""
    returning = set(returning_storages(graph))
    return tuple(
        op.workspace_bytes + sum(graph.storages[s].bytes for s in storages_of(op) if s not in returning)
        for op in graph.ops
    )
