"""Addresses for what is kept, chosen for the whole step, such that every op has room beside it.

What never leaves the device never changes its address. Where it comes into being op by op, the first hole may leave
later ops nothing but holes that are too small, although the bytes would do. So all kept storages, each for its whole
life, and the working set of every op, each for as long as that op runs, are packed together: whatever else happens in
between, an op can put out all that is not kept and have its working set at these addresses.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from hyperoffload_core.analysis.lifetimes import uses_in_order
from hyperoffload_core.ir import Graph, storages_of
from hyperoffload_core.packing.problem import Block, make_problem
from hyperoffload_core.packing.search import Search
from hyperoffload_core.passes.addresses import alignment_bytes, assign_addresses

WORKSPACE = -1
"""Stands for the workspace of an op among the storages of its working set."""
_MOST_SEARCHED, _NODES = 1_000, 20_000
"""So many blocks are searched for so long where first fit finds no packing."""


@dataclass(frozen=True)
class KeptPlaces:
    """``kept[storage]`` is an address for the storage's whole life; ``of_op[position][storage]`` one for what else the
    op at that position (the op count: the end of the step) needs while it runs."""

    kept: dict[int, int]
    of_op: tuple[dict[int, int], ...]


def kept_places(graph: Graph, order: Sequence[int], kept: Collection[int], limit_bytes: int) -> KeptPlaces | None:
    """None where no such addresses are found within the limit."""
    count, uses = len(order), uses_in_order(graph, order)
    blocks: list[Block] = []
    owners: list[tuple[int, int]] = []  # (position, or -1 for what is kept; storage)

    def add(position: int, storage: int, size: int, begin: int, end: int) -> None:
        blocks.append(Block(size, ((begin, end),), alignment_bytes(size)))
        owners.append((position, storage))

    for storage in sorted(kept):
        use, size = uses[storage], graph.storages[storage].bytes
        if use.positions or (use.exists_at_start and use.lives_to_end):
            begin = -1 if use.exists_at_start else use.positions[0]
            add(-1, storage, size, begin, count + 1 if use.lives_to_end else use.positions[-1] + 1)
    for position, op in enumerate(order):
        for storage in storages_of(graph.ops[op]):
            if storage not in kept:
                add(position, storage, graph.storages[storage].bytes, position, position + 1)
        if graph.ops[op].workspace_bytes:
            add(position, WORKSPACE, graph.ops[op].workspace_bytes, position, position + 1)
    for s in graph.storages:
        if s.tensor_class == "output" and s.id not in kept and uses[s.id].positions:
            add(count, s.id, s.bytes, count, count + 1)
    offsets = _within(blocks, limit_bytes)
    if offsets is None:
        return None
    places = KeptPlaces({}, tuple({} for _ in range(count + 1)))
    for (position, storage), offset in zip(owners, offsets, strict=True):
        (places.kept if position < 0 else places.of_op[position])[storage] = offset
    return places


def _within(blocks: Sequence[Block], limit_bytes: int) -> list[int] | None:
    offsets, height = assign_addresses(blocks, limit_bytes)
    if height <= limit_bytes:
        return offsets
    problem = make_problem(blocks)
    if len(blocks) > _MOST_SEARCHED or problem.liveness_bound > limit_bytes:
        return None
    found = Search(problem, limit_bytes).run(_NODES, lambda: False)[1]
    return None if found is None else [int(offset) for offset in found]
