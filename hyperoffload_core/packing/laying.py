"""Offsets for the blocks of a schedule, in a fraction of a second and the same on every machine.

What decides is the core, the blocks that exist while memory is nearly full: it has few blocks, so it is laid in several
ways, by first fit and by an exact search, before the others, most of all, find their places around it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hyperoffload_core.packing.core import Core, core_of, laid_around, search_core
from hyperoffload_core.packing.firstfit import (
    NO_TOP,
    first_fit,
    first_fit_below,
    overlaps_of,
    promoted,
    promotions,
    sequences,
)
from hyperoffload_core.packing.overlaps import Overlaps
from hyperoffload_core.packing.problem import Ints, Problem, height_of

_NEARLY_FULL = 0.9
"""Memory is nearly full above this share of the peak."""
_SEARCHED = (0.97, 0.95, _NEARLY_FULL)
"""Shares above which the core is searched, one after the other: the smallest core first, as it takes the least time."""
_LEAST_NODES, _NODES_PER_BLOCK = 800, 2
"""What a search of a core may take."""
_SEARCH_WORK, _NODE_WORK = 100_000_000, 10_000
"""What all of them together may take: a node looks at every block of the core in every slice, and does as much again
as of so many of these, however small the core is."""
_STOPPED = 4
"""Behind a search without an answer only one part in so many of what is left is spent: more blocks are harder."""
_PROMOTIONS = 12
"""So often the blocks of a core that stick out are moved ahead and all of it is laid again."""
_HURRY = 8
"""In a hurry searches take one part in so many of what they may, and promotions one in half as many."""
_BLOCKS_LAID = 50_000
"""No more attempts by first fit than these blocks make."""
_MOST_PROMOTED, _NEARLY_FITS = 2_000, 1.06
"""Of no more blocks, and where the lowest is within this factor of enough, all that stick out are moved ahead, too."""
_PROMOTIONS_OF_ALL = 4
"""So many times for each order."""
_CORE_ORDERS, _ORDERS, _ORDERS_PROMOTED = (1, 0, 3, 4), (1, 3, 0), (3, 5)
"""The sequences (of `firstfit.sequences`) in which a core, all blocks and blocks that are moved ahead are laid."""


def lay(problem: Problem, enough_bytes: int, *, hurried: bool = False) -> Ints:
    """Offsets of the lowest of some attempts, fewer if ``hurried``, which end as soon as one is no higher than
    ``enough_bytes``."""
    laying = _Laying(problem, enough_bytes, hurried)
    best, best_height = np.zeros(0, np.int64), -1
    for offsets in laying.attempts():
        height = height_of(problem, offsets)
        if best_height < 0 or height < best_height:
            best, best_height = offsets, height
            laying.below = height
        if best_height <= enough_bytes:
            break
    return best


class _Laying:
    """``below``: what an attempt has to stay below to be worth finishing."""

    def __init__(self, problem: Problem, enough_bytes: int, hurried: bool) -> None:
        self.problem, self.enough, self.hurried = problem, enough_bytes, hurried
        self.below = NO_TOP
        self.left = _BLOCKS_LAID
        self.orders = sequences(problem)
        self.overlaps = overlaps_of(problem)

    def attempts(self) -> Iterator[Ints]:
        core = core_of(self.problem, _NEARLY_FULL)
        goal = self.enough - core.base_bytes
        overlaps = Overlaps(core.problem)
        found = self._core_by_first_fit(core, overlaps, goal)
        if found[0] <= goal:
            yield from self._around(core, found[1])
        work = _SEARCH_WORK // _HURRY if self.hurried else _SEARCH_WORK
        for share in _SEARCHED:
            searched = core if share == _NEARLY_FULL else core_of(self.problem, share)
            blocks, node_work = searched.problem.blocks, _NODE_WORK + searched.problem.blocks * searched.problem.slices
            nodes = min(max(_LEAST_NODES, _NODES_PER_BLOCK * blocks), work // node_work)
            if nodes < blocks:
                break
            answer, offsets, spent = search_core(searched, self.enough, nodes)
            work -= spent * node_work
            if offsets is not None:
                yield from self._around(searched, offsets)
            if answer == "impossible":
                break
            if answer == "stopped":
                work //= _STOPPED
        if found[0] > goal:
            yield from self._around(core, self._core_promoted(core, overlaps, goal, found)[1])
        for order in _ORDERS:
            yield from self._first_fit(self.problem, order)
        few = self.problem.blocks <= _MOST_PROMOTED and not self.hurried
        if few and self.below <= self.enough * _NEARLY_FITS:
            for order in _ORDERS_PROMOTED:
                yield from promotions(self.problem, self.overlaps, self.orders[order], self.enough, _PROMOTIONS_OF_ALL)

    def _around(self, core: Core, offsets: Ints) -> Iterator[Ints]:
        """All blocks, those of the core at these offsets above what exists throughout."""
        laid = laid_around(self.problem, core, offsets)
        for order in _ORDERS[:2]:
            yield from self._first_fit(laid, order)

    def _first_fit(self, problem: Problem, order: int) -> Iterator[Ints]:
        if self.left < problem.blocks and self.below < NO_TOP:
            return
        self.left -= problem.blocks
        offsets = first_fit_below(problem, self.overlaps, self.orders[order], self.below)
        if offsets is not None:
            yield offsets

    def _core_by_first_fit(self, core: Core, overlaps: Overlaps, goal: int) -> tuple[int, Ints, Ints]:
        """The lowest (height, offsets, sequence) of the core, the first within the goal."""
        problem, orders = core.problem, sequences(core.problem)
        best = NO_TOP, np.zeros(0, np.int64), orders[0]
        for order in _CORE_ORDERS:
            self.left -= problem.blocks
            offsets = first_fit_below(problem, overlaps, orders[order], best[0])
            if offsets is not None:
                best = height_of(problem, offsets), offsets, orders[order]
            if best[0] <= goal or self.left < 0:
                break
        return best

    def _core_promoted(
        self, core: Core, overlaps: Overlaps, goal: int, found: tuple[int, Ints, Ints]
    ) -> tuple[int, Ints, Ints]:
        """A lower one than ``found``, if moving what sticks out ahead makes one."""
        problem, best = core.problem, found
        _, offsets, sequence = found
        for _ in range(2 * _PROMOTIONS // _HURRY if self.hurried else _PROMOTIONS):
            if self.left < problem.blocks or best[0] <= goal:
                break
            self.left -= problem.blocks
            sequence = promoted(problem, sequence, offsets, goal)
            offsets = first_fit(problem, overlaps, sequence)
            if (height := height_of(problem, offsets)) < best[0]:
                best = height, offsets, sequence
        return best
