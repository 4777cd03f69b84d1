"""Exact addresses for a few blocks: offsets within a capacity, or the proof that there are none."""

from __future__ import annotations

from collections.abc import Sequence

from hyperoffload_core.ir import Graph
from hyperoffload_core.packing.problem import Block
from hyperoffload_core.passes.addresses import alignment_bytes, blocks_of_plan, pack_plan
from hyperoffload_core.passes.plan import Plan


class TooManyTries(Exception):  # noqa: N818 - not a fault
    """Neither offsets nor a proof were found."""


def pack_exactly(blocks: Sequence[Block], capacity_bytes: int, most_tries: int = 20_000) -> list[int] | None:
    """Aligned offsets, or None if no assignment fits. Raises `TooManyTries`.

    Any packing can be pushed down in the order of its offsets, each block onto the highest top among earlier blocks
    alive with it; so it is enough to try every order in which offsets never fall.
    """
    alive = [[_overlap(a, b) for b in blocks] for a in blocks]
    alignment = [alignment_bytes(b.bytes) for b in blocks]
    by_size = sorted(range(len(blocks)), key=lambda i: -blocks[i].bytes)
    neighbours = [[j for j in range(len(blocks)) if j != i and alive[i][j]] for i in range(len(blocks))]
    points = sorted({s for b in blocks for s, e in b.spans if e > s})
    columns = [[i for i, b in enumerate(blocks) if any(s <= point < e for s, e in b.spans)] for point in points]
    columns_of = [[c for c, column in enumerate(columns) if i in column] for i in range(len(blocks))]
    offsets = [-1] * len(blocks)
    floor = [0] * len(blocks)
    to_place = [sum(blocks[i].bytes for i in column) for column in columns]
    tries = 0

    def place(left: int, last_offset: int, last_block: int) -> bool:
        nonlocal tries
        if not left:
            return True
        tries += 1
        if tries > most_tries:
            raise TooManyTries
        choices = []
        for i in by_size:
            if offsets[i] >= 0:
                continue
            low = max(floor[i], last_offset)
            low = -(-low // alignment[i]) * alignment[i]
            if low + blocks[i].bytes > capacity_bytes:
                return False
            at = -(-floor[i] // alignment[i]) * alignment[i]
            if at > last_offset or (at == last_offset and i > last_block):
                choices.append((at, i))
        for c, column in enumerate(columns):
            if to_place[c]:
                lowest = min(max(floor[i], last_offset) for i in column if offsets[i] < 0)
                if lowest + to_place[c] > capacity_bytes:
                    return False
        for at, i in sorted(choices, key=lambda choice: choice[0]):
            offsets[i] = at
            top = at + blocks[i].bytes
            raised = [(j, floor[j]) for j in neighbours[i] if offsets[j] < 0 and floor[j] < top]
            for j, _ in raised:
                floor[j] = top
            for c in columns_of[i]:
                to_place[c] -= blocks[i].bytes
            if place(left - 1, at, i):
                return True
            for c in columns_of[i]:
                to_place[c] += blocks[i].bytes
            for j, before in raised:
                floor[j] = before
            offsets[i] = -1
        return False

    if any(b.bytes > capacity_bytes for b in blocks):
        return None
    return list(offsets) if place(len(blocks), 0, -1) else None


def packed_within(graph: Graph, plan: Plan, capacity_bytes: int) -> Plan | None:
    """The plan with addresses, workspaces included; None if none were found (`pack_exactly` may give up)."""
    packed, height = pack_plan(graph, plan, capacity_bytes)
    if height <= capacity_bytes:
        return packed
    parts = blocks_of_plan(graph, plan)
    try:
        found = pack_exactly(parts.blocks, capacity_bytes)
    except TooManyTries:
        return None
    return None if found is None else parts.assigned(plan, found)


def _overlap(a: Block, b: Block) -> bool:
    return any(s < f and t < e for s, e in a.spans for t, f in b.spans)
