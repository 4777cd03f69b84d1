"""Execution-order refinement: other legal orders of the ops in which less is alive at once."""

from __future__ import annotations

from collections.abc import Sequence

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
    followers: list[list[int]] = [[] for _ in graph.ops]
    for op in graph.ops:
        for before in op.after:
            followers[before].append(op.id)

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
        for follower in followers[op_id]:
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


def producing_late_order(graph: Graph, order: Sequence[int]) -> tuple[int, ...]:
    """``order``, except that an op which allocates more than it frees runs as late as it can.

    The mirror image of `releasing_early_order`: seen from the end of the step, such an op frees memory, so it is taken
    as soon as all its followers are. The typical gain: a transposed or cast copy made right before the op that uses it
    instead of beside the original.
    """
    always = [graph.exists_at_start(s.id) and graph.lives_to_end(s.id) for s in graph.storages]
    needed = [graph.lives_to_end(s.id) for s in graph.storages]
    creator = [
        a[0].op if a and not graph.exists_at_start(s.id) else -1
        for s, a in zip(graph.storages, graph.accesses, strict=True)
    ]
    missing = [0] * len(graph.ops)
    for op in graph.ops:
        for before in op.after:
            missing[before] += 1

    def growth(op_id: int) -> int:
        op = graph.ops[op_id]
        added = sum(graph.storages[s].bytes for s in op.reads if not needed[s] and not always[s])
        removed = sum(graph.storages[s].bytes for s in op.writes if needed[s] and creator[s] == op_id)
        return added - removed

    backwards: list[int] = []
    done = [False] * len(graph.ops)
    ready: list[int] = []
    rank = {op_id: position for position, op_id in enumerate(order)}

    def run(op_id: int) -> None:
        done[op_id] = True
        backwards.append(op_id)
        op = graph.ops[op_id]
        for storage in storages_of(op):
            needed[storage] = creator[storage] != op_id
        for before in op.after:
            missing[before] -= 1
            if missing[before] == 0:
                ready.append(before)

    for position in range(len(order) - 1, -1, -1):
        if done[order[position]]:
            continue
        run(order[position])
        released = True
        while released:
            released = False
            for candidate in sorted(ready, key=lambda o: -rank[o]):
                if not done[candidate] and growth(candidate) < 0:
                    run(candidate)
                    released = True
            ready = [r for r in ready if not done[r]]
    return tuple(reversed(backwards))
