"""The core of a large problem: the blocks alive while memory is nearly full, which an exact search can lay first.

The rest then finds room around it by first fit, since elsewhere in time there is some to spare.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.packing.problem import Ints, Problem, part_of
from hyperoffload_core.packing.search import Answer, Search


@dataclass(frozen=True)
class Core:
    """``throughout`` exist in every slice that is nearly full: they lie at the bottom, ``base_bytes`` together.
    ``partly`` exist in some of them; ``problem`` is theirs alone, in all their time.
    """

    throughout: NDArray[np.bool_]
    partly: NDArray[np.bool_]
    base_bytes: int
    problem: Problem


def core_of(problem: Problem, share: float) -> Core:
    """The core where more than ``share`` of the most that is ever alive exists. Blocks that are
    no multiple of the largest alignment are left out: behind them the others would find no aligned place.
    """
    full = problem.loads > share * problem.loads.max(initial=0)
    before = np.concatenate(([0], np.cumsum(full)))
    start, end = before[problem.start], before[problem.end]
    largest = problem.alignment.max(initial=1)
    smooth = (problem.alignment == largest) & (problem.size % largest == 0)
    rows = (end > start) & smooth[problem.owner]
    there = np.zeros(problem.blocks, np.int64)
    np.add.at(there, problem.owner[rows], (end - start)[rows])
    throughout = there == before[-1]
    partly = (there > 0) & ~throughout
    return Core(throughout, partly, int(problem.size[throughout].sum()), _crowded(part_of(problem, partly)))


def search_core(core: Core, capacity_bytes: int, most_nodes: int) -> tuple[Answer, Ints | None, int]:
    """An answer within so many nodes; if found, offsets of the blocks that exist in some of it, above the others and
    within the capacity; and the nodes it took."""
    if not core.problem.blocks:
        return "found", np.zeros(0, np.int64), 0
    search = Search(core.problem, capacity_bytes - core.base_bytes)
    return *search.run(most_nodes, lambda: False), search.nodes


def laid_around(problem: Problem, core: Core, offsets: Ints) -> Problem:
    """The problem with the blocks of its core at given offsets: those that exist throughout at the bottom, the others
    at ``offsets`` above them."""
    fixed = problem.fixed.copy()
    fixed[core.throughout] = np.cumsum(problem.size[core.throughout]) - problem.size[core.throughout]
    fixed[core.partly] = offsets + core.base_bytes
    return replace(problem, fixed=fixed)


def _crowded(problem: Problem) -> Problem:
    """The problem in those slices only that no neighbouring slice contains: which blocks overlap does not change."""
    slices = problem.slices
    begins, ends = np.zeros(slices + 1, bool), np.zeros(slices + 1, bool)
    begins[problem.start], ends[problem.end] = True, True
    kept, fresh = np.zeros(slices, bool), True
    for at in range(slices):
        fresh |= bool(begins[at])
        if fresh and ends[at + 1]:
            kept[at], fresh = True, False
    before = np.concatenate(([0], np.cumsum(kept)))
    start, end = before[problem.start], before[problem.end]
    rows = np.lexsort((end, start))
    rows = rows[end[rows] > start[rows]]
    return replace(
        problem, owner=problem.owner[rows], start=start[rows], end=end[rows], times=np.arange(int(before[-1]) + 1)
    )
