"""The packing problem: blocks of bytes that exist for spans of time, and what any packing of them needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes that need one address for all their half-open spans of time, which do not overlap each other.

    ``offset`` is the address where the block must lie; None leaves it free.
    """

    bytes: int
    spans: tuple[tuple[int, int], ...]
    alignment: int = 1
    offset: int | None = None


@dataclass(frozen=True)
class Problem:
    """Blocks as columns. ``size``, ``alignment``, ``fixed`` (-1: free) per block.

    ``owner``, ``start``, ``end`` hold one row per span that is not empty, sorted by start; times are indices of
    *slices*, the stretches between two neighbouring moments at which a span begins or ends.
    """

    size: Ints
    alignment: Ints
    fixed: Ints
    owner: Ints
    start: Ints
    end: Ints
    times: Ints

    @property
    def blocks(self) -> int:
        return len(self.size)

    @property
    def slices(self) -> int:
        return max(0, len(self.times) - 1)

    @cached_property
    def loads(self) -> Ints:
        """Bytes alive in each slice."""
        change = np.zeros(self.slices + 1, np.int64)
        np.add.at(change, self.start, self.size[self.owner])
        np.add.at(change, self.end, -self.size[self.owner])
        return np.cumsum(change)[:-1]

    @cached_property
    def alive(self) -> Ints:
        """Blocks alive in each slice."""
        count = self.slices + 1
        return np.cumsum(np.bincount(self.start, minlength=count) - np.bincount(self.end, minlength=count))[:-1]

    @cached_property
    def liveness_bound(self) -> int:
        """No packing is lower: the most bytes alive at once, and the top of every block at a given offset."""
        pinned = self.size[self.fixed >= 0] + self.fixed[self.fixed >= 0]
        return max(int(self.loads.max(initial=0)), int(pinned.max(initial=0)), int(self.size.max(initial=0)))

    @cached_property
    def durations(self) -> Ints:
        """Time that each block exists, all spans together."""
        life = np.zeros(self.blocks, np.int64)
        np.add.at(life, self.owner, self.times[self.end] - self.times[self.start])
        return life

    @cached_property
    def grain(self) -> int:
        """What divides every address and height that is worth considering."""
        return gcd(*self.size.tolist(), *self.alignment.tolist(), *self.fixed[self.fixed >= 0].tolist()) or 1


def make_problem(blocks: Sequence[Block]) -> Problem:
    """The columns of a list of blocks. Blocks need positive bytes and alignment."""
    rows = [(s, e, i) for i, block in enumerate(blocks) for s, e in block.spans if e > s]
    spans = np.array(rows, np.int64).reshape(-1, 3)
    spans = spans[np.lexsort((spans[:, 1], spans[:, 0]))]
    times = np.unique(spans[:, :2])
    return Problem(
        size=np.array([b.bytes for b in blocks], np.int64),
        alignment=np.array([b.alignment for b in blocks], np.int64),
        fixed=np.array([-1 if b.offset is None else b.offset for b in blocks], np.int64),
        owner=spans[:, 2].copy(),
        start=np.searchsorted(times, spans[:, 0]),
        end=np.searchsorted(times, spans[:, 1]),
        times=times,
    )


def height_of(problem: Problem, offsets: Ints) -> int:
    """The highest address in use."""
    return int((offsets + problem.size).max(initial=0))


def part_of(problem: Problem, chosen: NDArray[np.bool_]) -> Problem:
    """The problem of the chosen blocks alone; times stay as they are."""
    number = np.cumsum(chosen) - 1
    rows = chosen[problem.owner]
    return Problem(
        size=problem.size[chosen],
        alignment=problem.alignment[chosen],
        fixed=problem.fixed[chosen],
        owner=number[problem.owner[rows]],
        start=problem.start[rows],
        end=problem.end[rows],
        times=problem.times,
    )
