"""Exact addresses for a few blocks: offsets within a capacity, or the proof that there are none."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hyperoffload_core.exact.instance import bits
from hyperoffload_core.ir import Graph
from hyperoffload_core.packing.problem import Block
from hyperoffload_core.passes.addresses import alignment_bytes, blocks_of_plan, pack_plan
from hyperoffload_core.passes.plan import Plan

_MOST_OFFSETS = 4096
"""With more the bit masks of offsets are slow."""


class TooManyTries(Exception):  # noqa: N818 - not a fault
    """Neither offsets nor a proof were found."""


def pack_exactly(blocks: Sequence[Block], capacity_bytes: int, most_tries: int = 20_000) -> list[int] | None:
    """Aligned offsets, or None if no assignment fits. Raises `TooManyTries`."""
    points = sorted({s for b in blocks for s, e in b.spans if e > s})
    together = {
        sum(1 << i for i, b in enumerate(blocks) if any(s <= point < e for s, e in b.spans)) for point in points
    }
    beside = [sum(1 << j for j, b in enumerate(blocks) if j != i and _overlap(a, b)) for i, a in enumerate(blocks)]
    return pack_beside([b.bytes for b in blocks], beside, together, capacity_bytes, most_tries)


def pack_beside(
    sizes: Sequence[int], beside: Sequence[int], together: Collection[int], capacity_bytes: int, most_tries: int
) -> list[int] | None:
    """Aligned offsets, or None if no assignment fits. Raises `TooManyTries`.

    ``beside[b]`` is the mask of the blocks that block b must not overlap, ``together`` are masks of blocks of which no
    two may overlap.
    """
    if any(size > capacity_bytes for size in sizes):
        return None
    stacked = stacked_offsets(frozenset(sizes), capacity_bytes)
    cliques = {*together, *_cliques(sizes, beside)}
    columns = [bits(mask) for mask in cliques]
    if any(sum(sizes[b] for b in column) > capacity_bytes for column in columns):
        return None
    neighbours = [bits(mask) for mask in beside]
    tries = _Tries(most_tries)
    if stacked is None:
        return _placed_upwards(sizes, neighbours, columns, capacity_bytes, tries)
    return _placed_by_choices(sizes, neighbours, columns, capacity_bytes, stacked, tries)


def _cliques(sizes: Sequence[int], beside: Sequence[int]) -> Iterator[int]:
    """Around each block, blocks of which each is beside all others, large ones first."""
    for block, mask in enumerate(beside):
        clique, common = 1 << block, mask
        while common:
            other = max(bits(common), key=lambda b: (sizes[b], (beside[b] & common).bit_count()))
            clique |= 1 << other
            common &= beside[other]
        yield clique


@dataclass
class _Tries:
    left: int

    def count(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise TooManyTries


def _placed_by_choices(
    sizes: Sequence[int],
    neighbours: Sequence[Sequence[int]],
    columns: Sequence[Sequence[int]],
    capacity_bytes: int,
    stacked: Sequence[int],
    tries: _Tries,
) -> list[int] | None:
    """Blocks at ``stacked`` offsets, the one with the fewest left first."""
    domains = []
    for b, size in enumerate(sizes):
        alignment = alignment_bytes(size)
        allowed = sum(1 << k for k, o in enumerate(stacked) if o % alignment == 0 and o + size <= capacity_bytes)
        for column in columns:
            if b in column:
                allowed &= _beside_others([sizes[o] for o in column if o != b], stacked, capacity_bytes - size)
        domains.append(allowed)
    offsets = [-1] * len(sizes)
    beside = [sum(1 << b for b in others) for others in neighbours]
    alike = [
        {o for o in others if sizes[o] == sizes[b] and beside[o] & ~(1 << b) == beside[b] & ~(1 << o)}
        for b, others in enumerate(neighbours)
    ]

    def place(domains: list[int], left: int) -> bool:
        if not left:
            return True
        tries.count()
        block = min(bits(left), key=lambda b: (domains[b].bit_count(), -sizes[b]))
        size, rest = sizes[block], left & ~(1 << block)
        for k in bits(domains[block]):
            at, then = stacked[k], domains.copy()
            for other in neighbours[block]:
                if rest >> other & 1:
                    low = bisect_right(stacked, at - sizes[other])
                    high = bisect_left(stacked, at + size)
                    then[other] &= ~((1 << high) - (1 << low)) if high > low else -1
                    if other in alike[block]:  # whatever they hold can be exchanged: the first lies lower
                        then[other] &= -1 << high if other > block else (1 << low) - 1
                    if not then[other]:
                        break
            else:
                offsets[block] = at
                if place(then, rest):
                    return True
        return False

    return offsets if place(domains, (1 << len(sizes)) - 1) else None


@lru_cache(maxsize=1024)
def stacked_offsets(sizes: frozenset[int], capacity_bytes: int) -> tuple[int, ...] | None:
    """Every offset that a block can have on a stack of blocks of these sizes, ascending; None if they are very many.

    They are enough: any packing can be pushed down until each block lies on 0 or on another.
    """
    found, new = {0}, [0]
    steps = [(size, alignment_bytes(size)) for size in sizes]
    alignments = {alignment for _, alignment in steps}
    while new:
        at = new.pop()
        tops = {-(-at // alignment) * alignment + size for size, alignment in steps}
        tops |= {-(-top // alignment) * alignment for top in tops for alignment in alignments}
        for top in tops - found:
            if top < capacity_bytes:
                found.add(top)
                new.append(top)
        if len(found) > _MOST_OFFSETS:
            return None
    return tuple(sorted(found))


def _beside_others(others: Sequence[int], stacked: Sequence[int], room_bytes: int) -> int:
    """Offsets (bits of ``stacked``) of a block that leave room below and above it for others that all lie beside it;
    ``room_bytes`` is the capacity without the block itself."""
    below = {0}
    for size in others:
        below |= {total + size for total in below}
    spare = room_bytes - sum(others)
    allowed = 0
    for total in below:
        low, high = bisect_left(stacked, total), bisect_right(stacked, total + spare)
        if high > low:
            allowed |= (1 << high) - (1 << low)
    return allowed


def _placed_upwards(
    sizes: Sequence[int],
    neighbours: Sequence[Sequence[int]],
    columns: Sequence[Sequence[int]],
    capacity_bytes: int,
    tries: _Tries,
) -> list[int] | None:
    """Blocks in every order in which offsets never fall, each onto the highest top among earlier blocks beside it:
    that reaches every packing that is pushed down."""
    count = len(sizes)
    alignment = [alignment_bytes(size) for size in sizes]
    by_size = sorted(range(count), key=lambda i: -sizes[i])
    columns_of = [[c for c, column in enumerate(columns) if i in column] for i in range(count)]
    offsets = [-1] * count
    floor = [0] * count
    to_place = [sum(sizes[i] for i in column) for column in columns]

    def place(left: int, last_offset: int, last_block: int) -> bool:
        if not left:
            return True
        tries.count()
        choices = []
        for i in by_size:
            if offsets[i] >= 0:
                continue
            low = max(floor[i], last_offset)
            low = -(-low // alignment[i]) * alignment[i]
            if low + sizes[i] > capacity_bytes:
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
            top = at + sizes[i]
            raised = [(j, floor[j]) for j in neighbours[i] if offsets[j] < 0 and floor[j] < top]
            for j, _ in raised:
                floor[j] = top
            for c in columns_of[i]:
                to_place[c] -= sizes[i]
            if place(left - 1, at, i):
                return True
            for c in columns_of[i]:
                to_place[c] += sizes[i]
            for j, before in raised:
                floor[j] = before
            offsets[i] = -1
        return False

    return list(offsets) if place(count, 0, -1) else None


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
