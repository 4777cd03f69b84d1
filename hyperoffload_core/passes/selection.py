"""The reuse gaps that may be left, and what leaving each frees and costs.

Slots: 0 is the start of the step, slot p + 1 the op at position p, the last slot the end of the step. A gap frees the
slots between the end of its Store and the start of its Prefetch, both estimated from op times and link rates.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, reuse_gaps
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.passes.placement import LEAD_DIVISOR, Problem
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
        """Whether the remote copy made (or kept) for the gap of row ``taken`` is still valid at the gap of ``other``."""
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


def find_candidates(
    problem: Problem, uses: Sequence[Uses], actions: Sequence[Action], estimate: Estimate, *, exact: bool
) -> Candidates:
    """Gaps of all storages that are not kept. With ``exact`` a gap counts only for the slots that its transfers leave
    free; otherwise for all slots strictly inside (some op may then have to wait)."""
    count = len(problem.order)
    hardware = problem.hardware
    rows: list[tuple[int, ...]] = []
    starts, ends = estimate.op_start_ns.tolist(), estimate.op_end_ns.tolist()
    for use in uses:
        if actions[use.storage] == "keep" or not use.positions:
            continue
        size = problem.storage_bytes[use.storage]
        out_ns = transfer_ns(size, hardware.link_out)
        in_ns = transfer_ns(size, hardware.link_in)

        def freed_from(left: int, write: int, out_ns: int = out_ns) -> int:
            if not exact:
                return left + 2
            done = (ends[write] if write >= 0 else 0) + out_ns
            done = max(done, ends[left] if left >= 0 else 0)
            return bisect_left(starts, done) + 1

        def free_until(right: int, lead_ns: int = int(in_ns * (1 + 1 / LEAD_DIVISOR))) -> int:
            if not exact:
                return right
            deadline = starts[right] if right < count else ends[-1]
            return bisect_right(ends, deadline - lead_ns)

        writes = [p for p, w in zip(use.positions, use.writes, strict=True) if w]
        first, last = use.positions[0], use.positions[-1]
        last_write = writes[-1] if writes else -1
        if use.exists_at_start and (use.lives_to_end or not writes):
            low = count + 2
            if use.lives_to_end:
                low = freed_from(last, last_write) if writes else last + 2
            high = free_until(first)
            if high >= 0 or low < count + 2:
                stored = out_ns if writes else 0
                rows.append((use.storage, WRAP, size, low, high, 1, first + 1, last_write, in_ns, stored, low))
        for gap in reuse_gaps(use, count):
            if gap.right - gap.left < 2 and gap.right < count and gap.left >= 0:
                continue
            if gap.index == -1 and not use.lives_to_end:
                continue
            write = max((w for w in writes if w <= gap.left), default=-1)
            low, high, clean_low = freed_from(gap.left, write), free_until(gap.right), gap.left + 2
            if clean_low <= high:
                rows.append(
                    (use.storage, gap.index, size, low, high, 0, gap.right + 1, write, in_ns, out_ns, clean_low)
                )
    columns = np.array(rows, np.int64).reshape(len(rows), 11).T
    return Candidates(
        storage=columns[0],
        index=columns[1],
        bytes=columns[2],
        low=columns[3],
        high=columns[4],
        wrap=columns[5].astype(np.bool_),
        need=columns[6],
        last_write=columns[7],
        in_ns=columns[8].astype(np.float64),
        out_ns=columns[9].astype(np.float64),
        clean_low=columns[10],
    )


def gap_sets(choices: Collection[Choice], uses: Sequence[Uses]) -> tuple[list[set[int]], set[int]]:
    """Choices as `insertion.insert_cache_operators` takes them: gaps per storage, and storages at home in the pool."""
    left: list[set[int]] = [set() for _ in uses]
    pool_home = {storage for storage, index in choices if index == WRAP}
    for storage, index in choices:
        if index != WRAP:
            left[storage].add(index)
    for use in uses:
        # A persistent storage that nothing accesses needs no place on the device.
        if not use.positions and use.exists_at_start:
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
    occupied = np.cumsum(np.array(change[: count + 2], np.int64))
    occupied[1 : count + 1] += np.array(problem.workspace_bytes, np.int64)
    return occupied
