"""Which reuse gaps to leave, by a linear program: cover what is over the limit with the shortest step.

A column says which part of a gap is left, another which part of a value is stored for it; a row per chosen slot of the
step asks that enough is away there. Slots at which the answer leaves too much are added, and it is solved again. The
times of the slots are columns as well: transfers that can only run ahead of a slot, behind it, or between two, have to
fit there on their link. In whole numbers the answer is a choice; in parts, which takes a fraction of the time, it is
rounded (`choice.Choosing.round_off`), and storages that are alike are one there (`passes.alike`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses
from hyperoffload_core.analysis.linear import LinearProgram
from hyperoffload_core.passes.alike import alike
from hyperoffload_core.passes.play import Problem
from hyperoffload_core.passes.selection import Candidates, Floats, Integers, resident_slots

Flags = NDArray[np.bool_]

_SPANS = 10
"""Spans of equal time whose fullest slot gets a row from the start."""
_LARGEST = 8
"""So do both ends of so many of the largest storages that could have a home in the pool, and of the largest gaps."""
_ROUNDS = 6
"""How often slots are added."""
_ADDED = 8
"""Slots added at once at the most."""
_APART = 80
"""Slots added at once are at least one in so many of all slots apart."""
_COVERED = 1e-4
"""A slot may be over the limit by this part of it: rounding fills that in."""
_FEW = 2000
"""So few gaps are a column each: groups of those that are alike are solved sooner, but leave more to rounding."""
_SMALLEST_GROUP = 5000
"""Groups of less than one in so many of the bytes over the limit are left out."""
_LEAST_PART = 1e-3
"""A gap left by less is not left."""
_GAP = 0.01
"""An answer in whole numbers may be above the shortest step by this part of it."""
_TIE = 1e-3
"""Weight of the time all transfers take, so that of equally fast solutions the one that moves least is found."""


@dataclass(frozen=True)
class _Moves:
    """Transfers of one direction: ``time_ns`` each takes whole, to run behind chosen slot ``release`` - 1 (0: from the
    start) and ahead of chosen slot ``deadline`` (their number: until the end of the step)."""

    time_ns: Floats
    release: Integers
    deadline: Integers


def _binding_slots(problem: Problem, uses: Sequence[Uses], candidates: Candidates) -> list[int]:
    """Slots worth a row: the fullest of each of some spans of equal time, where the largest gaps begin and end, and the
    ends of the step."""
    resident, count = resident_slots(problem, uses), len(problem.order)
    ends_ns = np.cumsum(np.asarray(problem.durations_ns, np.int64))
    slots = {0, count + 1}
    for span in np.array_split(
        np.arange(count), np.searchsorted(ends_ns, np.linspace(0, ends_ns[-1], _SPANS + 1)[1:-1])
    ):
        if len(span):
            slots.add(int(span[np.argmax(resident[span + 1])]) + 1)
    for kind in (candidates.wrap, ~candidates.wrap):
        rows = np.flatnonzero(kind)
        for row in rows[np.argsort(-candidates.bytes[rows], kind="stable")[:_LARGEST]].tolist():
            positions = uses[int(candidates.storage[row])].positions
            slots |= {positions[0] + 1, positions[-1] + 1}
    return sorted(slots)


def cover(
    problem: Problem,
    uses: Sequence[Uses],
    candidates: Candidates,
    limit_bytes: int,
    allowed: Flags,
    whole_with: Flags | None = None,
    seconds: float = 1.0,
) -> Floats | None:
    """The part of each candidate to leave, in [0, 1], shape (rows,); None where all of them do not suffice.

    Only rows in ``allowed`` are used. Given rows ``whole_with``, 0 or 1 for these and the rows of the answer in parts;
    None as well where none was found in ``seconds``.
    """
    c, resident = candidates, resident_slots(problem, uses)
    slots = _binding_slots(problem, uses, c)
    parts: Floats | None = None
    for _ in range(_ROUNDS):
        parts = _parts(problem, uses, c, resident, limit_bytes, slots, allowed)
        if parts is None:
            return None
        over = resident - _away(c, parts, len(resident)) - limit_bytes
        if over.max() <= _COVERED * limit_bytes:
            break
        slots = sorted({*slots, *_worst(over, _COVERED * limit_bytes)})
    if whole_with is None or parts is None:
        return parts
    rows = allowed & ((parts > _LEAST_PART) | whole_with)
    return _parts(problem, uses, c, resident, limit_bytes, slots, rows, seconds)


def _away(c: Candidates, parts: Floats, count: int) -> Floats:
    """Bytes away at each slot when these parts of the gaps are left."""
    change = np.zeros(count + 1)
    away = parts * c.bytes
    low, high = np.minimum(c.low, count), np.minimum(c.high, count - 1)
    inner = ~c.wrap & (low <= high)
    np.add.at(change, low[inner], away[inner])
    np.add.at(change, high[inner] + 1, -away[inner])
    change[0] += away[c.wrap].sum()
    np.add.at(change, high[c.wrap] + 1, -away[c.wrap])
    np.add.at(change, low[c.wrap], away[c.wrap])
    result: Floats = np.cumsum(change[:count])
    return result


def _worst(over: Floats, least: float) -> list[int]:
    """The slots that are most over the limit, some apart from each other."""
    left, found = over.copy(), list[int]()
    apart = max(1, len(over) // _APART)
    while len(found) < _ADDED and (slot := int(left.argmax())) >= 0 and left[slot] > least:
        found.append(slot)
        left[max(0, slot - apart) : slot + apart + 1] = 0
    return found


def _parts(
    problem: Problem,
    uses: Sequence[Uses],
    c: Candidates,
    resident: Integers,
    limit_bytes: int,
    slots: Sequence[int],
    allowed: Flags,
    whole_seconds: float | None = None,
) -> Floats | None:
    chosen = np.asarray(slots, np.int64)
    over = np.maximum(0, resident[chosen] - limit_bytes)
    covers = _covers(c, chosen)
    rows = np.flatnonzero(allowed & covers[:, over > 0].any(axis=1))
    result = np.zeros(len(c.storage))
    if not over.any():
        return result
    if not len(rows):
        return None
    if whole_seconds is not None or len(rows) <= _FEW:
        parts = _solve(problem, uses, c, rows, chosen, over, covers[rows], whole_seconds)
        if parts is None:
            return None
        result[rows] = parts
        return result
    groups = alike(c, uses, rows, chosen, chosen[over > 0])
    gaps = groups.gaps
    large = np.flatnonzero(gaps.bytes * _SMALLEST_GROUP >= over.max())
    parts = _solve(problem, uses, gaps, large, chosen, over, _covers(gaps, chosen)[large], None)
    if parts is None:
        return None
    of_groups = np.zeros(len(gaps.bytes))
    of_groups[large] = parts
    result[rows] = groups.spread(of_groups)
    return result


def _covers(c: Candidates, chosen: Integers) -> Flags:
    """Which of the chosen slots each gap frees."""
    at, low, high = chosen[None, :], c.low[:, None], c.high[:, None]
    result: Flags = np.where(c.wrap[:, None], (at <= high) | (at >= low), (at >= low) & (at <= high))
    return result


def _solve(
    problem: Problem,
    uses: Sequence[Uses],
    c: Candidates,
    rows: Integers,
    chosen: Integers,
    over: Integers,
    covers: Flags,
    whole_seconds: float | None,
) -> Floats | None:
    n, k = len(rows), len(chosen)
    binding = covers & (over > 0)[None, :]
    stored_of, stored_rows, stores = _stores(c, rows, chosen, binding)
    prefetches = _prefetches(c, rows, chosen, binding)
    m = n + len(stored_rows)
    durations = np.asarray(problem.durations_ns, np.float64)
    total = float(durations.sum())
    scale = max(1.0, total)
    work = np.concatenate(([0.0, 0.0], np.cumsum(durations)))[chosen]
    program = LinearProgram()
    for _ in range(m):
        program.column()
    for _ in range(k + 1):
        program.column(upper=np.inf)

    def add(parts: Floats | None, times: dict[int, float], limit: float) -> None:
        program.at_most([(m + slot, value) for slot, value in times.items()], limit, parts)

    unit = float(over.max())
    size = c.bytes[rows].astype(np.float64)
    for slot in range(k):
        if over[slot] > 0:
            add(-(size * covers[:, slot]) / unit, {}, -over[slot] / unit)
        add(None, {slot: -1.0}, -work[slot] / scale)
        if slot:
            add(None, {slot - 1: 1.0, slot: -1.0}, -(work[slot] - work[slot - 1]) / scale)
    add(None, {k - 1: 1.0, k: -1.0}, -(total - work[-1]) / scale)
    for first in range(k + 1):
        for last in range(first, k + 1):
            if first > 0 and last < k and last > first:
                continue
            # From chosen slot `first` - 1 (0: the start) to chosen slot `last` (k: the end).
            times = {last: -1.0} | ({first - 1: 1.0} if first else {})
            copied_in = np.where((prefetches.release >= first) & (prefetches.deadline <= last), prefetches.time_ns, 0.0)
            copied_out = np.where((stores.release >= first) & (stores.deadline <= last), stores.time_ns, 0.0)
            into = np.concatenate([copied_in, np.zeros(m - n)]) / scale
            out = np.concatenate([np.zeros(n), copied_out]) / scale
            for link in [into + out] if problem.hardware.duplex == "half" else [into, out]:
                if link.any():
                    add(link, times, 0.0)
    _link(program, uses, c, rows, stored_of)
    # A home in the pool does what leaving the gaps at both ends of the step does, with one transfer less to place.
    ends = ~c.wrap[rows] & ((c.index[rows] == -1) | (c.high[rows] > len(problem.order)))
    cost = np.concatenate([prefetches.time_ns * (1 + ends), stores.time_ns, np.zeros(k + 1)]) * (_TIE / scale)
    cost[-1] = 1.0
    in_parts = whole_seconds is None
    answer = program.minimise(cost) if in_parts else program.minimise_whole(cost, n, whole_seconds or 0.0, _GAP)
    return None if answer is None else answer[1][:n]


def _prefetches(c: Candidates, rows: Integers, chosen: Integers, binding: Flags) -> _Moves:
    """One Prefetch per gap, behind the last slot it is to cover and ahead of the use it brings the storage back for."""
    need = c.need[rows]
    ahead = binding & (chosen[None, :] < need[:, None])
    release = np.where(ahead.any(axis=1), len(chosen) - np.argmax(ahead[:, ::-1], axis=1), 0)
    return _Moves(c.in_ns[rows], release, np.searchsorted(chosen, need, side="left"))


def _stores(c: Candidates, rows: Integers, chosen: Integers, binding: Flags) -> tuple[Integers, list[int], _Moves]:
    """One Store per value (storage and last write) that some gap needs a remote copy of.

    Returns for each row the number of its Store (-1: it needs none), for each Store its first row, and the Stores.
    """
    number: dict[tuple[int, int, bool], int] = {}
    first_row: list[int] = []
    deadline: list[int] = []
    stored_of = np.full(len(rows), -1, np.int64)
    written = np.maximum(c.last_write[rows] + 1, 0)
    behind = binding & (chosen[None, :] > written[:, None])
    needed_by = np.where(behind.any(axis=1), np.argmax(behind, axis=1), len(chosen)).tolist()
    wraps = c.wrap[rows].tolist()
    writes = c.last_write[rows].tolist()
    for place, storage in enumerate(c.storage[rows].tolist()):
        if wraps[place] and writes[place] < 0:
            continue  # nobody writes it: the copy in the pool stays valid
        key = (storage, writes[place], wraps[place])
        if key not in number:
            number[key] = len(first_row)
            first_row.append(place)
            deadline.append(needed_by[place])
        stored_of[place] = number[key]
        deadline[number[key]] = min(deadline[number[key]], needed_by[place])
    release = np.searchsorted(chosen, written[first_row], side="right").astype(np.int64)
    return stored_of, first_row, _Moves(c.out_ns[rows][first_row], release, np.array(deadline, np.int64))


def _link(program: LinearProgram, uses: Sequence[Uses], c: Candidates, rows: Integers, stored_of: Integers) -> None:
    """A gap is left only as far as its value is stored, or is in the pool from the start of the step; and a home in the
    pool leaves the gaps at both ends of the step by itself."""
    n = len(rows)
    wrap_of = {s: place for place, (s, w) in enumerate(zip(c.storage[rows], c.wrap[rows], strict=True)) if w}
    for place, store in enumerate(stored_of.tolist()):
        storage, index = int(c.storage[rows[place]]), int(c.index[rows[place]])
        pooled = wrap_of.get(storage, place)
        if store >= 0:
            # The part that leaves at the start of the step is not the part whose home is the pool.
            from_start = pooled != place and index >= 0 and c.last_write[rows[place]] < 0
            program.at_most([(place, 1.0), (n + store, -1.0), *([(pooled, -1.0)] if from_start else [])], 0.0)
        if pooled != place and index in (-1, len(uses[storage].positions) - 1):
            program.at_most([(place, 1.0), (pooled, 1.0)], 1.0)
