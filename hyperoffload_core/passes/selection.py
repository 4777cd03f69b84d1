"""The reuse gaps that may be left, and what leaving each frees and costs.

Slots: 0 is the start of the step, slot p + 1 the op at position p, the last slot the end of the step. A gap frees the
slots between the end of its Store and the start of its Prefetch, both estimated from op times and link rates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, reuse_gaps
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.passes.placement import LEAD_DIVISOR
from hyperoffload_core.passes.play import Problem
from hyperoffload_core.policy import Action

WRAP = -2
"""Index of the gap around the step boundary: from the last access to the first of the next step (home: pool)."""

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

Choice = tuple[int, int]
"""(storage, gap index or `WRAP`)."""


@dataclass(frozen=True)
class Estimate:
    """What the effect of a gap is estimated with: op times in ns by position."""

    op_start_ns: Integers
    op_end_ns: Integers


@dataclass(frozen=True)
class Candidates:
    """Columns, one row per gap that may be left. ``low``..``high`` (inclusive) are the slots it frees; a wrap frees the
    slots up to ``high`` and from ``low`` on. ``need`` is the slot of the use the storage comes back for, ``last_write``
    the position of the write its remote copy has to follow (-1: none in the step).

    ``in_ns`` and ``out_ns`` are link times of its Prefetch and Store (0: never stored). Where an earlier gap has made a
    valid remote copy, the gap needs no Store and frees the slots from ``clean_low`` on.
    """

    storage: Integers
    index: Integers
    bytes: Integers
    low: Integers
    high: Integers
    wrap: NDArray[np.bool_]
    need: Integers
    last_write: Integers
    in_ns: Floats
    out_ns: Floats
    clean_low: Integers

    @cached_property
    def rows_of(self) -> dict[int, list[int]]:
        """Rows by storage."""
        result: dict[int, list[int]] = {}
        for row, storage in enumerate(self.storage.tolist()):
            result.setdefault(storage, []).append(row)
        return result

    @cached_property
    def index_of_row(self) -> list[int]:
        """``index`` as a list, which is quicker to look up one by one; so is the next."""
        return self.index.tolist()

    @cached_property
    def last_write_of_row(self) -> list[int]:
        return self.last_write.tolist()

    @cached_property
    def first_of_ties(self) -> Floats:
        """Factors so near to one that they only make the larger of two equals come first."""
        result: Floats = 1 + 1e-9 * self.bytes / max(1, int(self.bytes.max(initial=0)))
        return result

    def cleans(self, taken: int, other: int) -> bool:
        """Whether the remote copy made (or kept) for the gap in row ``taken`` is still valid at that in ``other``."""
        index, written = self.index_of_row, self.last_write_of_row
        if index[other] == WRAP:
            return False
        if index[taken] == WRAP:
            return written[other] < 0
        return index[taken] < index[other] and written[taken] == written[other]


def plain_estimate(problem: Problem) -> Estimate:
    """Op times as if nothing stalls."""
    ends = np.cumsum(np.array(problem.durations_ns, np.int64))
    return Estimate(ends - np.array(problem.durations_ns, np.int64), ends)


@dataclass(frozen=True)
class Gaps:
    """Columns, one row per gap of one order that may be left, whatever the times are: between the positions ``left``
    and ``right`` (of a wrap: the last and the first use). ``ends``: nothing needs the storage behind ``left``, as the
    wrap of one that does not live to the end of the step. Other columns as of `Candidates`.
    """

    storage: Integers
    index: Integers
    bytes: Integers
    left: Integers
    right: Integers
    last_write: Integers
    ends: NDArray[np.bool_]
    in_ns: Integers
    out_ns: Integers


def every_gap(uses: Sequence[Uses], op_count: int) -> Integers:
    """Gaps of all storages in one order that may be left, whatever hardware and rules are: rows of storage, index,
    left, right, last write and whether it ends (`Gaps`)."""
    rows: list[tuple[int, ...]] = []
    for use in uses:
        positions = use.positions
        if not positions:
            continue
        writes = [p for p, w in zip(positions, use.writes, strict=True) if w]
        if use.exists_at_start and (use.lives_to_end or not writes):
            last_write = writes[-1] if writes else -1
            rows.append((use.storage, WRAP, positions[-1], positions[0], last_write, int(not use.lives_to_end)))
        written = 0
        for gap in reuse_gaps(use, op_count):
            while written < len(writes) and writes[written] <= gap.left:
                written += 1
            if gap.right - gap.left < 2 and gap.right < op_count and gap.left >= 0:
                continue
            if gap.index == -1 and not use.lives_to_end:
                continue
            rows.append((use.storage, gap.index, gap.left, gap.right, writes[written - 1] if written else -1, 0))
    return np.array(rows, np.int64).reshape(-1, 6)


def find_gaps(problem: Problem, uses: Sequence[Uses], actions: Sequence[Action], every: Integers | None = None) -> Gaps:
    """Gaps of all storages that are not kept. ``every``: the `every_gap` of the uses, for who has them already."""
    rows = every_gap(uses, len(problem.order)) if every is None else every
    free = np.array([action != "keep" for action in actions], np.bool_)
    storage, index, left, right, last_write, ends = rows[free[rows[:, 0]]].T
    size = np.array(problem.storage_bytes, np.int64)[storage]
    sizes, of_size = np.unique(size, return_inverse=True)
    in_ns, out_ns = (
        np.array([transfer_ns(b, link) for b in sizes.tolist()], np.int64)[of_size]
        for link in (problem.hardware.link_in, problem.hardware.link_out)
    )
    return Gaps(storage, index, size, left, right, last_write, ends.astype(np.bool_), in_ns, out_ns)


def find_candidates(problem: Problem, gaps: Gaps, estimate: Estimate, *, exact: bool) -> Candidates:
    """What leaving each gap frees and costs. With ``exact`` a gap counts only for the slots that its transfers leave
    free; otherwise for all slots strictly inside (some op may then have to wait)."""
    count, wrap = len(problem.order), gaps.index == WRAP
    never_stored = wrap & (gaps.last_write < 0)
    clean_low, low, high = gaps.left + 2, gaps.left + 2, gaps.right
    if exact:
        starts, ends = estimate.op_start_ns, estimate.op_end_ns
        ended = np.concatenate((ends, [0]))  # the start of the step is position -1
        done = np.maximum(ended[gaps.last_write] + gaps.out_ns, ended[gaps.left])
        low = np.where(never_stored, low, np.searchsorted(starts, done, "left") + 1)
        needed = np.concatenate((starts, ends[-1:]))[gaps.right]
        lead_ns = (gaps.in_ns * (1 + 1 / LEAD_DIVISOR)).astype(np.int64)
        high = np.searchsorted(ends, needed - lead_ns, "right")
    low = np.where(gaps.ends, count + 2, low)
    clean_low = np.where(wrap, low, clean_low)
    rows = np.flatnonzero(wrap | (clean_low <= high))
    return Candidates(
        storage=gaps.storage[rows],
        index=gaps.index[rows],
        bytes=gaps.bytes[rows],
        low=low[rows],
        high=high[rows],
        wrap=wrap[rows],
        need=gaps.right[rows] + 1,
        last_write=gaps.last_write[rows],
        in_ns=gaps.in_ns[rows].astype(np.float64),
        out_ns=np.where(never_stored, 0, gaps.out_ns)[rows].astype(np.float64),
        clean_low=clean_low[rows],
    )


def gap_sets(
    choices: Collection[Choice], uses: Sequence[Uses], idle: Collection[int] = ()
) -> tuple[list[set[int]], set[int]]:
    """Choices as `insertion.insert_cache_operators` takes them: gaps per storage, and storages at home in the pool.

    A persistent storage that nothing accesses needs no place on the device; the ``idle`` ones have one.
    """
    left: list[set[int]] = [set() for _ in uses]
    pool_home = {storage for storage, index in choices if index == WRAP}
    for storage, index in choices:
        if index != WRAP:
            left[storage].add(index)
    for use in uses:
        if not use.positions and use.exists_at_start and use.storage not in idle:
            pool_home.add(use.storage)
    return left, pool_home


def resident_slots(problem: Problem, uses: Sequence[Uses]) -> Integers:
    """Bytes on the device at each slot when nothing leaves, workspaces included; shape (ops + 2,)."""
    count = len(problem.order)
    sizes, change = problem.storage_bytes, [0] * (count + 3)
    for use in uses:
        if not use.positions:
            continue
        size = sizes[use.storage]
        change[0 if use.exists_at_start else use.positions[0] + 1] += size
        change[count + 2 if use.lives_to_end else use.positions[-1] + 2] -= size
    change[0] += sum(sizes[storage] for storage in problem.idle)
    occupied = np.cumsum(np.array(change[: count + 2], np.int64))
    occupied[1 : count + 1] += np.array(problem.workspace_bytes, np.int64)
    return occupied
