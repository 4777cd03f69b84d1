"""Address assignment: an offset for every stay, so that stays alive at once never share a byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.ir import Graph
from hyperoffload_core.passes.plan import Plan

_LARGEST_ALIGNMENT = 64
_REPAIRS = 3


@dataclass(frozen=True)
class Block:
    """Stays that must have one address (same storage, first and last stay of a step), as half-open spans."""

    bytes: int
    spans: tuple[tuple[int, int], ...]


def alignment_bytes(size: int) -> int:
    """Alignment of a block: the largest power of two that divides its size, at most 64 (a cache line).

    Tied to the size so that blocks sorted by alignment lie without padding between them.
    """
    return min(_LARGEST_ALIGNMENT, size & -size)


def assign_addresses(blocks: Sequence[Block], capacity_bytes: int | None = None) -> tuple[list[int], int]:
    """Offsets of the blocks and the height they reach.

    Greedy: blocks in a fixed sequence, each at the lowest aligned offset free for its whole life. Several sequences are
    tried; then, given a capacity, the blocks that stick out of the best result are put first and it is tried again.
    Stops as soon as the height is within ``capacity_bytes``; the lowest result is kept.
    """
    if not blocks:
        return [], 0
    capacity = 0 if capacity_bytes is None else capacity_bytes
    tried: list[tuple[int, list[int], list[int]]] = []
    for key in _sequences(blocks):
        sequence = sorted(range(len(blocks)), key=key.__getitem__)
        offsets, height = _first_fit(blocks, sequence)
        tried.append((height, offsets, sequence))
        if height <= capacity:
            return offsets, height
    height, offsets, sequence = min(tried, key=lambda t: t[0])
    best = offsets, height
    for _ in range(_REPAIRS if capacity_bytes is not None else 0):
        sticking_out = {i for i, b in enumerate(blocks) if offsets[i] + b.bytes > capacity}
        sequence = [i for i in sequence if i in sticking_out] + [i for i in sequence if i not in sticking_out]
        offsets, height = _first_fit(blocks, sequence)
        if height < best[1]:
            best = offsets, height
        if height <= capacity:
            break
    return best


def _sequences(blocks: Sequence[Block]) -> list[list[tuple[float, ...]]]:
    """Sort keys of the sequences to try: whole-step blocks first in each, since they never leave a hole."""
    end = max(span[1] for block in blocks for span in block.spans)
    life = [sum(e - s for s, e in block.spans) for block in blocks]
    start = [block.spans[0][0] for block in blocks]
    whole = [
        0 if life[i] >= end and alignment_bytes(b.bytes) == _LARGEST_ALIGNMENT else 1 for i, b in enumerate(blocks)
    ]
    sizes = [b.bytes for b in blocks]
    small = [1 if alignment_bytes(size) < _LARGEST_ALIGNMENT else 0 for size in sizes]
    indices = range(len(blocks))
    return [
        [(whole[i], small[i], -sizes[i], -life[i], start[i]) for i in indices],
        [(whole[i], small[i], -life[i], -sizes[i], start[i]) for i in indices],
        [(whole[i], small[i], -float(sizes[i]) * life[i], start[i]) for i in indices],
        [(whole[i], small[i], start[i], -life[i], -sizes[i]) for i in indices],
    ]


def _first_fit(blocks: Sequence[Block], sequence: Sequence[int]) -> tuple[list[int], int]:
    spans = [(s, e, i) for i in sequence for s, e in blocks[i].spans if e > s]
    placed_start = np.empty(len(spans), np.int64)
    placed_end = np.empty(len(spans), np.int64)
    placed_low = np.empty(len(spans), np.int64)
    placed_high = np.empty(len(spans), np.int64)
    count, height = 0, 0
    offsets = [0] * len(blocks)
    for index in sequence:
        block = blocks[index]
        alive = np.zeros(count, bool)
        for start, end in block.spans:
            alive |= (placed_start[:count] < end) & (placed_end[:count] > start)
        offset = _lowest_gap(placed_low[:count][alive], placed_high[:count][alive], block.bytes)
        offsets[index] = offset
        height = max(height, offset + block.bytes)
        for start, end in block.spans:
            if end > start:
                placed_start[count], placed_end[count] = start, end
                placed_low[count], placed_high[count] = offset, offset + block.bytes
                count += 1
    return offsets, height


def _lowest_gap(low: NDArray[np.int64], high: NDArray[np.int64], size: int) -> int:
    """Lowest aligned offset of a hole of ``size`` bytes between the intervals [low, high)."""
    if not len(low):
        return 0
    alignment = alignment_bytes(size)
    by_low = np.argsort(low, kind="stable")
    tops = np.maximum.accumulate(high[by_low])
    tops = np.concatenate(([0], -(-tops // alignment) * alignment))
    fits = tops[:-1] + size <= low[by_low]
    return int(tops[np.argmax(fits)] if fits.any() else tops[-1])


def pack_plan(graph: Graph, plan: Plan, capacity_bytes: int) -> tuple[Plan, int]:
    """The plan with an address for every stay and workspace, and the height they reach.

    A persistent storage at home on the device ends the step where it began, so that the next step finds it there.
    """
    if plan.offsets is not None:
        tops = [o + graph.storages[s.storage].bytes for s, o in zip(plan.stays, plan.offsets, strict=True)]
        tops += [o + graph.ops[plan.order[p]].workspace_bytes for p, o in plan.workspace_offsets]
        return plan, max(tops, default=0)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, stay in enumerate(plan.stays):
        home = plan.homes[stay.storage] == "device" and graph.storages[stay.storage].persistent
        at_boundary = home and (stay.begin == -1 or stay.to_end)
        groups.setdefault((stay.storage, -1 if at_boundary else index), []).append(index)
    members = list(groups.values())
    blocks = [
        Block(graph.storages[plan.stays[m[0]].storage].bytes, tuple(plan.spans_ns[i] for i in m)) for m in members
    ]
    spaces = [
        (position, graph.ops[op].workspace_bytes)
        for position, op in enumerate(plan.order)
        if graph.ops[op].workspace_bytes
    ]
    blocks += [Block(size, (plan.op_spans_ns[position],)) for position, size in spaces]
    found, height = assign_addresses(blocks, capacity_bytes)
    offsets = [0] * len(plan.stays)
    for block_index, indices in enumerate(members):
        for index in indices:
            offsets[index] = found[block_index]
    workspaces = tuple((position, found[len(members) + k]) for k, (position, _) in enumerate(spaces))
    return replace(plan, offsets=tuple(offsets), workspace_offsets=workspaces), height
