"""First fit: blocks in a fixed sequence, each at the lowest aligned address that is free for its whole life."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hyperoffload_core.packing.overlaps import Overlaps
from hyperoffload_core.packing.problem import Ints, Problem
from hyperoffload_core.packing.taken import Taken

_MANY = 9_000
"""Of more blocks it takes longer to look at all that exist at once than to keep a tree of taken addresses."""

NO_TOP = 1 << 62


def sequences(problem: Problem) -> list[Ints]:
    """Sequences worth trying, the most promising first.

    In all of them blocks at given offsets come first, then those that exist all the time (they never leave a hole),
    and blocks of small alignment last, which can lie anywhere. In the first two, blocks come by the largest load that
    they see: what exists at the peak is stacked without a hole, and the rest finds room beside it.
    """
    life, size, peak = problem.durations, problem.size, _peaks_seen(problem)
    whole = life >= (int(problem.times[-1] - problem.times[0]) if problem.slices else 0)
    odd = problem.alignment < problem.alignment.max(initial=1)
    area = life.astype(np.float64) * size
    first = np.full(problem.blocks, np.iinfo(np.int64).max)
    np.minimum.at(first, problem.owner, problem.start)
    ahead = (odd, ~(whole & ~odd), problem.fixed < 0)
    keys = (
        (-size, -life, -peak),
        (-life, -size, -peak),
        (-size, -life),
        (-life, -size),
        (-area,),
        (-size, -life, first),
    )
    return [np.lexsort((*key, *ahead)) for key in keys]


def overlaps_of(problem: Problem) -> Overlaps | None:
    """What laying all blocks needs; None of very many."""
    return Overlaps(problem) if problem.blocks <= _MANY else None


def first_fit(problem: Problem, overlaps: Overlaps | None, sequence: Ints) -> Ints:
    """Offsets of all blocks. Blocks at given offsets lie there, whatever else does.

    Without ``overlaps`` in a way for very many blocks, whose time grows little faster than their number.
    """
    offsets = first_fit_below(problem, overlaps, sequence, NO_TOP)
    assert offsets is not None
    return offsets


def first_fit_below(problem: Problem, overlaps: Overlaps | None, sequence: Ints, below_bytes: int) -> Ints | None:
    """The same offsets; None as soon as one of the blocks that have none yet does not end below ``below_bytes``."""
    if overlaps is None:
        return _in_tree(problem, sequence, below_bytes)
    return _one_by_one(problem, overlaps, sequence, below_bytes)


def _one_by_one(problem: Problem, overlaps: Overlaps, sequence: Ints, below: int) -> Ints | None:
    offsets = problem.fixed.copy()
    sizes, alignments = problem.size.tolist(), problem.alignment.tolist()
    for block in sequence[problem.fixed[sequence] < 0].tolist():
        near = overlaps.of(block)
        low = offsets[near]
        placed = low >= 0
        low = low[placed]
        offset = _lowest_gap(low, low + problem.size[near[placed]], sizes[block], alignments[block])
        if offset + sizes[block] >= below:
            return None
        offsets[block] = offset
    return offsets


def _in_tree(problem: Problem, sequence: Ints, below: int) -> Ints | None:
    spans: list[list[tuple[int, int]]] = [[] for _ in range(problem.blocks)]
    for owner, start, end in zip(problem.owner.tolist(), problem.start.tolist(), problem.end.tolist(), strict=True):
        spans[owner].append((start, end))
    offsets, sizes, alignments = problem.fixed.tolist(), problem.size.tolist(), problem.alignment.tolist()
    taken = Taken(problem.slices)
    given = problem.fixed[sequence] >= 0
    for block in np.concatenate((sequence[given], sequence[~given])).tolist():
        if offsets[block] < 0:
            offsets[block] = taken.lowest(spans[block], sizes[block], alignments[block])
            if offsets[block] + sizes[block] >= below:
                return None
        taken.put(spans[block], offsets[block], offsets[block] + sizes[block])
    return np.array(offsets, np.int64)


def promoted(problem: Problem, sequence: Ints, offsets: Ints, goal_bytes: int) -> Ints:
    """The sequence with the blocks that stick out above the goal moved ahead by a tenth of its length."""
    place = np.empty(problem.blocks, np.int64)
    place[sequence] = np.arange(problem.blocks)
    place[offsets + problem.size > goal_bytes] -= max(2, problem.blocks // 10)
    return np.argsort(place, kind="stable")


def promotions(
    problem: Problem, overlaps: Overlaps | None, sequence: Ints, goal_bytes: int, times: int
) -> Iterator[Ints]:
    """Offsets by first fit, in the sequence and then in others, ``times`` in all: each has what stuck out before moved
    ahead."""
    for _ in range(times):
        offsets = first_fit(problem, overlaps, sequence)
        yield offsets
        sequence = promoted(problem, sequence, offsets, goal_bytes)


def _lowest_gap(low: Ints, high: Ints, size: int, alignment: int) -> int:
    """Lowest aligned address of a hole of ``size`` bytes between the intervals [low, high)."""
    if not len(low):
        return 0
    by_low = low.argsort()
    low = low[by_low]
    if low[0] >= size:
        return 0
    tops = np.maximum.accumulate(high[by_low])
    if alignment > 1:
        tops = -(-tops // alignment) * alignment
    fits = tops[:-1] + size <= low[1:]
    index = int(fits.argmax()) if len(fits) else 0
    return int(tops[index]) if len(fits) and fits[index] else int(tops[-1])


def _peaks_seen(problem: Problem) -> Ints:
    """For each block the most bytes alive while it exists."""
    result = np.zeros(problem.blocks, np.int64)
    np.maximum.at(result, problem.owner, range_maxima(problem.loads, problem.start, problem.end))
    return result


def range_maxima(values: Ints, start: Ints, end: Ints) -> Ints:
    """The maximum of each range [start, end), from maxima of all ranges whose lengths are powers of two."""
    result = np.zeros(len(start), np.int64)
    length = end - start
    level, width = values, 1
    while len(level) and width <= length.max(initial=0):
        rows = (length >= width) & (length < 2 * width)
        result[rows] = np.maximum(level[start[rows]], level[end[rows] - width])
        level = np.maximum(level[: len(level) - width], level[width:]) if len(level) > width else level[:0]
        width *= 2
    return result


def fits(problem: Problem, overlaps: Overlaps, offsets: Sequence[int] | Ints) -> bool:
    """Whether no two blocks that exist at once share a byte, and all are aligned and where they must be."""
    at = np.asarray(offsets)
    if (at < 0).any() or (at % problem.alignment).any() or (at != problem.fixed)[problem.fixed >= 0].any():
        return False
    for block in range(problem.blocks):
        near = overlaps.of(block)
        near = near[near != block]
        low, high = at[block], at[block] + problem.size[block]
        if ((at[near] < high) & (at[near] + problem.size[near] > low)).any():
            return False
    return True
