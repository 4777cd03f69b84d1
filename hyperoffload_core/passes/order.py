"""Execution-order refinement: other legal orders of the ops in which less is alive at once."""

from __future__ import annotations

from hyperoffload_core.ir import Graph, storages_of


def captured_order(graph: Graph) -> tuple[int, ...]:
    return tuple(range(len(graph.ops)))


def releasing_early_order(graph: Graph) -> tuple[int, ...]:
    """The captured order, except that an op which frees more than it allocates runs as soon as it can.

    The typical gain: an optimizer update right after its gradient, so that gradients do not pile up until the end of
    the backward pass. An op counts as freeing a storage when it is the storage's last pending access.
    """
    pending = [len(a) for a in graph.accesses]
    existing = [graph.exists_at_start(s.id) for s in graph.storages]
    stays = [graph.lives_to_end(s.id) for s in graph.storages]
    missing = [len(op.after) for op in graph.ops]

    def growth(op_id: int) -> int:
        op = graph.ops[op_id]
        allocated = sum(graph.storages[s].bytes for s in op.writes if not existing[s])
        freed = sum(graph.storages[s].bytes for s in storages_of(op) if pending[s] == 1 and not stays[s])
        return allocated - freed

    order: list[int] = []
    done = [False] * len(graph.ops)
    ready: list[int] = []

    def run(op_id: int) -> None:
        done[op_id] = True
        order.append(op_id)
        op = graph.ops[op_id]
        for storage in storages_of(op):
            pending[storage] -= 1
        for storage in op.writes:
            existing[storage] = True
        for follower in graph.followers[op_id]:
            missing[follower] -= 1
            if missing[follower] == 0:
                ready.append(follower)

    for op_id in range(len(graph.ops)):
        if done[op_id]:
            continue
        run(op_id)
        released = True
        while released:
            released = False
            for candidate in sorted(ready):
                if not done[candidate] and candidate != op_id + 1 and growth(candidate) < 0:
                    run(candidate)
                    released = True
            ready = [r for r in ready if not done[r]]
    return tuple(order)
