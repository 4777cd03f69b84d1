"""Where a block can lie beside others: what sizes, and who was there together, say without a search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hyperoffload_core.exact.instance import bits
from hyperoffload_core.passes.addresses import alignment_bytes


def repeatedly(items: list[int]) -> Iterator[int]:
    """Each item, all of them again as long as some were taken out meanwhile."""
    before = -1
    while before != len(items):
        before = len(items)
        yield from list(items)


def may_lie_as_another(sizes: Sequence[int], beside: Sequence[int], block: int, remaining: int) -> bool:
    """Whether the block was beside none but blocks that one of the ``remaining`` of its size was beside, too."""
    mine = beside[block] & remaining
    others = remaining & ~beside[block] & ~(1 << block)
    return any(sizes[b] == sizes[block] and not mine & ~beside[b] for b in bits(others))


def always_fits(sizes: Sequence[int], block: int, beside: int, limit_bytes: int) -> bool:
    """Whether there is room for the block wherever those beside it lie."""
    size, alignment = sizes[block], alignment_bytes(sizes[block])
    places = (limit_bytes - size) // alignment + 1
    for other in bits(beside):
        span = sizes[other] + size
        aligned = alignment_bytes(sizes[other]) >= alignment
        places -= (span - alignment) // alignment if aligned else (span - 2) // alignment + 1
    return places > 0


def lowest_spot(sizes: Sequence[int], offsets: Sequence[int], block: int, beside: int) -> int:
    """The lowest aligned offset at which the block overlaps none of those ``beside`` it (mask), which have theirs."""
    size, alignment = sizes[block], alignment_bytes(sizes[block])
    at = 0
    for low, high in sorted((offsets[b], offsets[b] + sizes[b]) for b in bits(beside)):
        if low >= at + size:
            break
        if high > at:
            at = -(-high // alignment) * alignment
    return at
