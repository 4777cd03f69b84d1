"""Which blocks exist at the same time as a block, in memory that grows with the blocks and not with the pairs."""

from __future__ import annotations

import numpy as np

from hyperoffload_core.packing.problem import Ints, Problem

_PAIRS_KEPT = 6_000_000


class Overlaps:
    """Neighbours of every block. Spans are sorted by start, so those that begin inside a span are one range of rows;
    those that began before it are found from the nearest of the moments at which all living spans are written down.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._spans: list[list[tuple[int, int]]] = [[] for _ in range(problem.blocks)]
        for owner, start, end in zip(problem.owner.tolist(), problem.start.tolist(), problem.end.tolist(), strict=True):
            self._spans[owner].append((start, end))
        starts = np.arange(problem.slices + 1)
        self._row_at = np.searchsorted(problem.start, starts, side="left").tolist()
        alive = problem.alive
        self._stride = max(32, int(alive.mean())) if len(alive) else 32
        self._living: list[Ints] = []
        living = np.zeros(0, np.int64)
        for row in range(0, len(problem.start), self._stride):
            living = living[problem.end[living] > problem.start[row]]
            self._living.append(living)
            living = np.concatenate((living, np.arange(row, min(row + self._stride, len(problem.start)))))
        pairs = problem.blocks * int(alive.max(initial=0))
        self._kept: dict[int, Ints] | None = {} if pairs < _PAIRS_KEPT else None

    def of(self, block: int) -> Ints:
        """Blocks that exist while ``block`` does; it is one of them, and some may be named twice."""
        if self._kept is not None and block in self._kept:
            return self._kept[block]
        found = [self._during(start, end) for start, end in self._spans[block]]
        result = found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0, np.int64)
        if self._kept is not None:
            self._kept[block] = result
        return result

    def _during(self, start: int, end: int) -> Ints:
        problem = self._problem
        first, last = self._row_at[start], self._row_at[end]
        mark = min(first // self._stride, len(self._living) - 1)
        before = self._living[mark]
        before = before[problem.end[before] > start]
        between = slice(mark * self._stride, last)
        recent = problem.owner[between][problem.end[between] > start]
        return np.concatenate((problem.owner[before], recent))
