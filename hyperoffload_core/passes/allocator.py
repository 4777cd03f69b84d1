"""A run-time allocator's view of the arena: which bytes are free."""

from __future__ import annotations

from bisect import bisect_right, insort

from hyperoffload_core.passes.addresses import alignment_bytes


class Allocator:
    """Free holes of [0, capacity) as sorted (low, high)."""

    def __init__(self, capacity_bytes: int) -> None:
        self.holes: list[tuple[int, int]] = [(0, capacity_bytes)]

    def take(self, size: int) -> int | None:
        """The aligned low end of the tightest hole that holds ``size`` bytes; None if there is none."""
        alignment = alignment_bytes(size)
        best: tuple[int, int] | None = None
        for low, high in self.holes:
            offset = -(-low // alignment) * alignment
            if offset + size <= high and (best is None or high - low < best[0]):
                best = (high - low, offset)
        if best is None or not self.take_at(best[1], size):
            return None
        return best[1]

    def take_at(self, offset: int, size: int) -> bool:
        """Take exactly these bytes; false where they are not all free."""
        at = bisect_right(self.holes, offset, key=lambda hole: hole[0]) - 1
        if at < 0 or self.holes[at][1] < offset + size:
            return False
        low, high = self.holes.pop(at)
        if low < offset:
            insort(self.holes, (low, offset))
        if offset + size < high:
            insort(self.holes, (offset + size, high))
        return True

    def give_back(self, offset: int, size: int) -> None:
        low, high = offset, offset + size
        at = bisect_right(self.holes, low, key=lambda hole: hole[0])
        if at < len(self.holes) and self.holes[at][0] == high:
            high = self.holes.pop(at)[1]
        if at > 0 and self.holes[at - 1][1] == low:
            low = self.holes.pop(at - 1)[0]
        insort(self.holes, (low, high))
