"""Which addresses are taken over a stretch of time, in a tree over time: for problems of very many blocks.

A node of the tree stands for a stretch of slices. It knows the addresses that are taken in *some* of it and those that
are taken in *all* of it by one block; both as intervals that have been merged where they touch. A block's life is a
few whole nodes, so what it must keep away from is: what is taken in some of these, and in all of the nodes above them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

_Intervals = tuple[list[int], list[int]]
"""Low and high ends, both ascending."""


class Taken:
    """Addresses taken by the blocks put in so far. ``slices`` is the number of slices of time."""

    def __init__(self, slices: int) -> None:
        self._leaves = 1 << max(0, slices - 1).bit_length()
        self._some: dict[int, _Intervals] = {}
        self._all: dict[int, _Intervals] = {}

    def put(self, spans: Sequence[tuple[int, int]], low: int, high: int) -> None:
        """Take addresses [low, high) during the spans of slices."""
        above: set[int] = set()
        for node in self._whole(spans):
            _add(self._all.setdefault(node, ([], [])), low, high)
            while node and node not in above:
                above.add(node)
                node >>= 1
        for node in above:
            _add(self._some.setdefault(node, ([], [])), low, high)

    def lowest(self, spans: Sequence[tuple[int, int]], size: int, alignment: int) -> int:
        """The lowest aligned address of ``size`` bytes that are free during all of the spans."""
        near: list[_Intervals] = []
        above: set[int] = set()
        for node in self._whole(spans):
            if node in self._some:
                near.append(self._some[node])
            while (node := node >> 1) and node not in above:
                above.add(node)
                if node in self._all:
                    near.append(self._all[node])
        low = at = 0
        agreed = 0  # how many in a row have nothing in [low, low + size)
        while agreed < len(near):
            free = _free_from(near[at], low, size, alignment)
            agreed = agreed + 1 if free == low else 1
            low = free
            at = at + 1 if at + 1 < len(near) else 0
        return low

    def _whole(self, spans: Sequence[tuple[int, int]]) -> list[int]:
        """The fewest nodes that make up the spans. The root is 1, the children of n are 2n and 2n + 1."""
        nodes = []
        for start, end in spans:
            left, right = start + self._leaves, end + self._leaves
            while left < right:
                if left & 1:
                    nodes.append(left)
                    left += 1
                if right & 1:
                    right -= 1
                    nodes.append(right)
                left >>= 1
                right >>= 1
        return nodes


def _free_from(intervals: _Intervals, low: int, size: int, alignment: int) -> int:
    """The first aligned address from ``low`` (aligned) on where ``size`` bytes touch none of the intervals."""
    lows, highs = intervals
    at = bisect_right(highs, low)
    count = len(lows)
    while at < count and lows[at] < low + size:
        low = -(-highs[at] // alignment) * alignment
        at += 1
        while at < count and highs[at] <= low:
            at += 1
    return low


def _add(intervals: _Intervals, low: int, high: int) -> None:
    lows, highs = intervals
    first, last = bisect_left(highs, low), bisect_right(lows, high)
    if first < last:
        low, high = min(low, lows[first]), max(high, highs[last - 1])
    lows[first:last] = [low]
    highs[first:last] = [high]
