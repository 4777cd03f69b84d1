"""The lowest packing that can be found in the time there is: first fit in several sequences, then exact search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hyperoffload_core.packing.firstfit import overlaps_of, promotions, sequences
from hyperoffload_core.packing.problem import Block, Ints, Problem, height_of, make_problem
from hyperoffload_core.packing.search import Search

_MOST_SEARCHED = 3_000
_MOST_TABLE = 4_000_000
_FIRST_NODES = 20_000


@dataclass(frozen=True)
class Packing:
    """Offsets per block and the height they reach. No packing is lower than ``bound_bytes``.

    ``bound_bytes`` is the liveness bound, or more where the search has proved more.
    """

    offsets: tuple[int, ...]
    height: int
    bound_bytes: int


def _never() -> bool:
    return False


def _silent(_height: int, _bound: int) -> None:
    pass


def pack(
    blocks: Sequence[Block],
    capacity_bytes: int | None = None,
    stop: Callable[[], bool] = _never,
    progress: Callable[[int, int], None] = _silent,
) -> Packing:
    """A packing within the capacity as soon as there is one; without a capacity, or where it is out of reach, the
    lowest that was found when ``stop`` said so or nothing lower can exist.

    ``progress`` hears of each better height and of the bound. Blocks at given offsets must not share bytes; there is
    always a packing then. The same blocks have the same result unless ``stop`` cuts it short.
    """
    problem = make_problem(blocks)
    offsets, height = _by_first_fit(problem, capacity_bytes, stop, progress)
    bound = problem.liveness_bound
    if not _searchable(problem):
        return Packing(tuple(offsets.tolist()), height, bound)
    nodes, tried = _FIRST_NODES, bound - 1
    searches: dict[int, Search] = {}
    while height > max(bound, capacity_bytes or 0) and not stop():
        goal = max(bound, capacity_bytes or 0)
        if capacity_bytes is None and tried >= goal:
            # Nothing that low in the nodes spent on it so far: halfway to what there is.
            goal = tried + max(1, (height - tried) // 2)
            if goal >= height:
                nodes, tried = nodes * 2, bound - 1
                continue
        search = searches.setdefault(goal, Search(problem, goal))
        answer, found = search.run(nodes if capacity_bytes is None else _FIRST_NODES, stop)
        if found is not None:
            offsets, height = found, height_of(problem, found)
        elif answer == "impossible":
            bound = search.capacity + problem.grain
            tried = max(tried, goal)
            if capacity_bytes is not None:
                capacity_bytes = None
                nodes, tried = _FIRST_NODES, bound - 1
        else:
            tried = goal
        progress(height, bound)
    return Packing(tuple(offsets.tolist()), height, bound)


def _by_first_fit(
    problem: Problem, capacity_bytes: int | None, stop: Callable[[], bool], progress: Callable[[int, int], None]
) -> tuple[Ints, int]:
    overlaps, goal = overlaps_of(problem), max(problem.liveness_bound, capacity_bytes or 0)
    best, best_height = np.zeros(0, np.int64), -1
    for sequence in sequences(problem):
        for offsets in promotions(problem, overlaps, sequence, goal, 3):
            height = height_of(problem, offsets)
            if best_height < 0 or height < best_height:
                best, best_height = offsets, height
                progress(height, problem.liveness_bound)
            if best_height <= goal or stop():
                return best, best_height
    return best, best_height


def _searchable(problem: Problem) -> bool:
    if problem.blocks > _MOST_SEARCHED:
        return False
    return problem.slices * int(problem.alive.max(initial=0)) <= _MOST_TABLE
