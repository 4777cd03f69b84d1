"""Which reuse gaps to leave the device in, so that memory stays under a limit for as few moved bytes as possible.

Slots: 0 is the start of the step, slot p + 1 the op at position p, the last slot the end of the step. A gap frees the
slots between the end of its Store and the start of its Prefetch, both estimated from op times and link rates.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, reuse_gaps
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.passes.placement import LEAD_DIVISOR, Problem
from hyperoffload_core.policy import Action

WRAP = -2
"""Index of the gap around the step boundary: from the last access to the first of the next step (home: pool)."""

Choice = tuple[int, int]
"""(storage, gap index or `WRAP`)."""


@dataclass(frozen=True)
class Estimate:
    """What the effect of a gap is estimated with: op times in ns by position, and how much longer than alone a transfer
    takes because its link is shared (``congestion``, at least 1)."""

    op_start_ns: NDArray[np.int64]
    op_end_ns: NDArray[np.int64]
    congestion: float = 1.0


@dataclass(frozen=True)
class Candidates:
    """Columns, one row per gap that may be left. ``low``..``high`` (inclusive) are the slots it frees; a wrap frees the
    slots up to ``high`` and from ``low`` on. ``cost_ns`` is link time."""

    storage: NDArray[np.int64]
    index: NDArray[np.int64]
    bytes: NDArray[np.int64]
    low: NDArray[np.int64]
    high: NDArray[np.int64]
    wrap: NDArray[np.bool_]
    cost_ns: NDArray[np.float64]
    clean_low: NDArray[np.int64]
    clean_cost_ns: NDArray[np.float64]
    last_write: NDArray[np.int64]


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
    rows: list[tuple[int, int, int, int, int, bool, float, int, float, int]] = []
    starts, ends = estimate.op_start_ns, estimate.op_end_ns
    for use in uses:
        if actions[use.storage] == "keep" or not use.positions:
            continue
        size = problem.storage_bytes[use.storage]
        out_ns = transfer_ns(size, hardware.link_out)
        in_ns = transfer_ns(size, hardware.link_in)
        slow_out = int(out_ns * estimate.congestion)
        slow_in = int(in_ns * estimate.congestion * (1 + 1 / LEAD_DIVISOR))

        def freed_from(left: int, write: int, slow_out: int = slow_out) -> int:
            if not exact:
                return left + 2
            done = (int(ends[write]) if write >= 0 else 0) + slow_out
            done = max(done, int(ends[left]) if left >= 0 else 0)
            return int(np.searchsorted(starts, done)) + 1

        def free_until(right: int, slow_in: int = slow_in) -> int:
            if not exact:
                return right
            deadline = int(starts[right]) if right < count else int(ends[-1])
            return int(np.searchsorted(ends, deadline - slow_in, side="right"))

        writes = [p for p, w in zip(use.positions, use.writes, strict=True) if w]
        first, last = use.positions[0], use.positions[-1]
        last_write = writes[-1] if writes else -1
        if use.exists_at_start and (use.lives_to_end or not writes):
            cost = float(in_ns + (out_ns if writes else 0))
            low = count + 2
            if use.lives_to_end:
                low = freed_from(last, last_write) if writes else last + 2
            high = free_until(first)
            if high >= 0 or low < count + 2:
                rows.append((use.storage, WRAP, size, low, high, True, cost, low, cost, last_write))
        for gap in reuse_gaps(use, count):
            if gap.right - gap.left < 2 and gap.right < count and gap.left >= 0:
                continue
            if gap.index == -1 and not use.lives_to_end:
                continue
            write = max((w for w in writes if w <= gap.left), default=-1)
            low, high = freed_from(gap.left, write), free_until(gap.right)
            clean_low = gap.left + 2
            if clean_low <= high:
                both = float(out_ns + in_ns)
                rows.append((use.storage, gap.index, size, low, high, False, both, clean_low, float(in_ns), write))
    integers = np.array([[r[k] for k in (0, 1, 2, 3, 4, 7, 9)] for r in rows], np.int64).reshape(len(rows), 7)
    costs = np.array([[r[6], r[8]] for r in rows], np.float64).reshape(len(rows), 2)
    return Candidates(
        storage=integers[:, 0],
        index=integers[:, 1],
        bytes=integers[:, 2],
        low=integers[:, 3],
        high=integers[:, 4],
        wrap=np.array([r[5] for r in rows], np.bool_),
        cost_ns=costs[:, 0],
        clean_low=integers[:, 5],
        clean_cost_ns=costs[:, 1],
        last_write=integers[:, 6],
    )


def choose_gaps(
    problem: Problem,
    uses: Sequence[Uses],
    actions: Sequence[Action],
    candidates: Candidates,
    limit_bytes: int,
    forbidden: Collection[Choice] = (),
) -> set[Choice] | None:
    """Greedy: at the slot most over the limit take the gap that covers most of what is over it per link time; then put
    back what turned out not to be needed. None if the candidates do not suffice."""
    c = candidates
    occupied = _resident_slots(problem, uses)
    available = np.ones(len(c.storage), bool)
    low, cost = c.low.copy(), c.cost_ns.copy()
    rows_of: dict[int, list[int]] = {}
    for row, storage in enumerate(c.storage.tolist()):
        rows_of.setdefault(storage, []).append(row)
        if (storage, int(c.index[row])) in forbidden:
            available[row] = False
    taken: list[int] = []

    def take(row: int) -> None:
        taken.append(row)
        available[row] = False
        _apply(occupied, c, low, row, -1)
        storage, index = int(c.storage[row]), int(c.index[row])
        for other in rows_of[storage]:
            if other == row:
                continue
            if _exclude_each_other(index, int(c.index[other]), len(uses[storage].positions) - 1):
                available[other] = False
            elif available[other] and _now_clean(c, row, other):
                low[other], cost[other] = c.clean_low[other], c.clean_cost_ns[other]

    for storage, action in enumerate(actions):
        if action == "offload":
            for row in sorted(rows_of.get(storage, ()), key=lambda r: not c.wrap[r]):
                if available[row] and (c.wrap[row] or low[row] <= c.high[row]):
                    take(row)
    forced = len(taken)
    while True:
        over = occupied - limit_bytes
        worst = int(np.argmax(over))
        if over[worst] <= 0:
            break
        inside = np.where(c.wrap, (worst <= c.high) | (worst >= low), (low <= worst) & (worst <= c.high))
        rows = np.flatnonzero(inside & available)
        if not len(rows):
            return None
        take(int(rows[np.argmax(_scores(c, low, cost, over, rows))]))
    kept_out = _put_back(occupied, c, low, taken, forced, limit_bytes)
    return {(int(c.storage[row]), int(c.index[row])) for row in kept_out}


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


def _resident_slots(problem: Problem, uses: Sequence[Uses]) -> NDArray[np.int64]:
    count = len(problem.order)
    change = np.zeros(count + 3, np.int64)
    for use in uses:
        if not use.positions:
            continue
        size = problem.storage_bytes[use.storage]
        change[0 if use.exists_at_start else use.positions[0] + 1] += size
        change[count + 2 if use.lives_to_end else use.positions[-1] + 2] -= size
    occupied = np.cumsum(change[: count + 2])
    occupied[1 : count + 1] += np.array(problem.workspace_bytes, np.int64)
    return occupied


def _apply(occupied: NDArray[np.int64], c: Candidates, low: NDArray[np.int64], row: int, sign: int) -> None:
    size = sign * int(c.bytes[row])
    if c.wrap[row]:
        occupied[: c.high[row] + 1] += size
        occupied[low[row] :] += size
    elif low[row] <= c.high[row]:
        occupied[low[row] : c.high[row] + 1] += size


def _exclude_each_other(one: int, other: int, last: int) -> bool:
    """A wrap already leaves the gaps at the start and at the end of the step."""
    return WRAP in (one, other) and bool({-1, last} & {one, other})


def _now_clean(c: Candidates, taken: int, other: int) -> bool:
    """Whether the remote copy made (or kept) for gap ``taken`` is still valid at gap ``other``."""
    if c.wrap[other]:
        return False
    if c.wrap[taken]:
        return int(c.last_write[other]) < 0
    return int(c.index[taken]) < int(c.index[other]) and int(c.last_write[taken]) == int(c.last_write[other])


def _scores(
    c: Candidates, low: NDArray[np.int64], cost: NDArray[np.float64], over: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Bytes x slots over the limit that a gap relieves, per link time; larger storages win ties."""
    excess = np.maximum(over, 0)
    slots = np.concatenate(([0], np.cumsum(excess > 0)))
    total = np.concatenate(([0], np.cumsum(excess)))
    lows, highs = low[rows], np.minimum(c.high[rows], len(over) - 1)
    wrap = c.wrap[rows]

    def between(prefix: NDArray[np.int64]) -> NDArray[np.int64]:
        inner = prefix[np.maximum(highs + 1, 0)] - prefix[np.minimum(lows, len(over))]
        outer = prefix[np.maximum(highs + 1, 0)] + prefix[-1] - prefix[np.minimum(lows, len(over))]
        return np.where(wrap, outer, inner)

    relieved = np.minimum(c.bytes[rows] * between(slots).astype(np.float64), between(total).astype(np.float64))
    return relieved / cost[rows] * (1 + 1e-9 * c.bytes[rows] / max(1, int(c.bytes.max())))


def _put_back(
    occupied: NDArray[np.int64],
    c: Candidates,
    low: NDArray[np.int64],
    taken: list[int],
    forced: int,
    limit_bytes: int,
) -> list[int]:
    """Undo choices, costliest first, that the limit does not need."""
    kept = taken[:forced]
    for row in sorted(taken[forced:], key=lambda r: -float(c.cost_ns[r])):
        size = int(c.bytes[row])
        if c.wrap[row]:
            fits = (occupied[: c.high[row] + 1] + size <= limit_bytes).all()
            fits = fits and (occupied[low[row] :] + size <= limit_bytes).all()
        else:
            fits = (occupied[low[row] : c.high[row] + 1] + size <= limit_bytes).all()
        if fits:
            _apply(occupied, c, low, row, 1)
        else:
            kept.append(row)
    return kept
