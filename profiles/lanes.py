"""One step of a profile as lanes of a Gantt chart: compute, copy out, copy in, and where compute waits for a copy."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hyperoffload_core.metrics import covered_ns, union_ns
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule

Column = NDArray[np.int64]
LaneKind = Literal["op", "transfer"]

KINDS: dict[str, LaneKind] = {"compute": "op", "copy_in": "transfer", "copy_out": "transfer"}
TITLES = {"compute": "Compute", "copy_in": "Copy in", "copy_out": "Copy out"}


@dataclass(frozen=True)
class Lane:
    """Rectangles of one lane by start time: int64 columns; ``item`` is the op's or the transfer's id."""

    item: Column
    start_ns: Column
    end_ns: Column

    @cached_property
    def _busy_before(self) -> Column:
        """Busy time before each rectangle, and after the last."""
        return np.concatenate([[0], np.cumsum(self.end_ns - self.start_ns)]).astype(np.int64)

    def busy_until(self, time_ns: ArrayLike) -> Column:
        """Exact busy time from the start of the step to each time, of a lane that does not overlap itself."""
        time = np.asarray(time_ns, dtype=np.int64)
        if not len(self.item):
            return np.zeros(time.shape, dtype=np.int64)
        row = np.searchsorted(self.start_ns, time, side="right") - 1
        inside = np.minimum(time, self.end_ns[row]) - self.start_ns[row]
        return np.asarray(np.where(row < 0, 0, self._busy_before[row] + inside))

    def inside(self, start_ns: int, end_ns: int) -> Lane:
        """The rectangles that touch a window, of a lane that does not overlap itself (so its ends are sorted too)."""
        first = int(np.searchsorted(self.end_ns, start_ns, side="right"))
        last = int(np.searchsorted(self.start_ns, end_ns, side="left"))
        return Lane(self.item[first:last], self.start_ns[first:last], self.end_ns[first:last])


@dataclass(frozen=True)
class Row:
    """One drawn lane, which never overlaps itself. ``key`` is one of `KINDS`, with a number behind it from the second
    row of the same kind on (``compute 2``)."""

    key: str
    lane: Lane

    @property
    def of(self) -> str:
        """What it is a row of: ``compute``, ``copy_in`` or ``copy_out``."""
        return self.key.partition(" ")[0]

    @property
    def kind(self) -> LaneKind:
        return KINDS[self.of]

    @property
    def title(self) -> str:
        return f"{TITLES[self.of]} {self.key.partition(' ')[2]}".strip()


@dataclass(frozen=True)
class Lanes:
    """``waiting`` are the stretches in which the next op waits for a transfer; its ``item`` is that transfer."""

    compute: Lane
    copy_out: Lane
    copy_in: Lane
    waiting: Lane
    _unions: dict[str, Lane] = field(default_factory=dict, init=False, repr=False, compare=False)
    _exposures: dict[str, Lane] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """What is drawn from top to bottom: the three lanes, and a further row for whatever runs beside itself (ops of
        several streams or ranks)."""
        return tuple(
            Row(key if number == 0 else f"{key} {number + 1}", lane)
            for key in KINDS
            for number, lane in enumerate(apart(getattr(self, key)))
        )

    @cached_property
    def row(self) -> dict[str, Row]:
        """The rows by key."""
        return {row.key: row for row in self.rows}

    @property
    def computing(self) -> Lane:
        """Time with an op running, as disjoint rectangles (numbered)."""
        return self.union("compute")

    def union(self, of: str) -> Lane:
        """Time with anything in ``compute``, ``copy_in`` or ``copy_out`` running, as disjoint rectangles (numbered)."""
        if of not in self._unions:
            lane: Lane = getattr(self, of)
            self._unions[of] = _numbered(*union_ns(lane.start_ns, lane.end_ns))
        return self._unions[of]

    @cached_property
    def copying(self) -> Lane:
        """Time with a transfer running in either direction, as disjoint rectangles (numbered)."""
        start = np.concatenate([self.copy_out.start_ns, self.copy_in.start_ns])
        return _numbered(*union_ns(start, np.concatenate([self.copy_out.end_ns, self.copy_in.end_ns])))

    @cached_property
    def exposed(self) -> Lane:
        """Time with a transfer running and no op beside it, as disjoint rectangles (numbered)."""
        return without(self.copying, self.computing)

    def exposed_in(self, key: str) -> Lane:
        """The parts of one row with no compute beside them (numbered)."""
        if key not in self._exposures:
            self._exposures[key] = without(self.row[key].lane, self.computing)
        return self._exposures[key]


def part_words(schedule: Schedule) -> dict[int, str]:
    """``part 2 of 3`` for each transfer that moves a part of its storage, by transfer id."""
    return {
        part.id: f"part {number} of {len(move)}"
        for move in schedule.moves
        if move[0].partial
        for number, part in enumerate(move, 1)
    }


def lanes(profile: Profile, step: int | None = 0) -> Lanes:
    """The lanes of one step, or (None) of all steps of a profile on one time axis (`profiles.whole`)."""
    ops, moves = profile.ops, profile.transfers
    runs = _in_order(ops.start_ns, of_step(ops.step, step))
    out, back = (_in_order(moves.start_ns, of_step(moves.step, step) & (moves.direction == way)) for way in (0, 1))
    copy_out, copy_in = (Lane(moves.transfer[r], moves.start_ns[r], moves.end_ns[r]) for r in (out, back))
    compute = Lane(ops.op[runs], ops.start_ns[runs], ops.end_ns[runs])
    return Lanes(compute, copy_out, copy_in, _waiting(profile, runs, np.concatenate([out, back])))


def step_end_ns(profile: Profile, found: Lanes, step: int) -> int:
    """Where the time axis of a step ends: the step's end, or its last event where that is later."""
    drawn = (found.compute, found.copy_out, found.copy_in)
    return max(int(profile.steps.step_ns[step]), *(int(lane.end_ns.max(initial=0)) for lane in drawn), 1)


def of_step(column: Column, step: int | None) -> NDArray[np.bool_]:
    """The rows of a step, of all steps for None."""
    return np.ones(len(column), dtype=bool) if step is None else column == step


def apart(lane: Lane) -> list[Lane]:
    """The lane itself, or the fewest lanes that its rectangles fit into without overlaps."""
    if not len(lane.item) or bool(np.all(lane.start_ns[1:] >= lane.end_ns[:-1])):
        return [lane]
    row_of = np.zeros(len(lane.item), dtype=np.int64)
    free: list[tuple[int, int]] = []
    rows = 0
    for place, (start, end) in enumerate(zip(lane.start_ns.tolist(), lane.end_ns.tolist(), strict=True)):
        if free and free[0][0] <= start:
            row = heapq.heappop(free)[1]
        else:
            row, rows = rows, rows + 1
        row_of[place] = row
        heapq.heappush(free, (end, row))
    return [Lane(lane.item[row_of == r], lane.start_ns[row_of == r], lane.end_ns[row_of == r]) for r in range(rows)]


def without(lane: Lane, holes: Lane) -> Lane:
    """The union of the lane without the union of ``holes``, as disjoint rectangles in time order (numbered)."""
    span, hole = union_ns(lane.start_ns, lane.end_ns), union_ns(holes.start_ns, holes.end_ns)
    # Between two neighbouring edges nothing changes, so its first moment tells whether it is in one and not the other.
    edges = np.unique(np.concatenate([*span, *hole]))
    if len(edges) < 2:
        return _numbered(*span)
    left, right = edges[:-1], edges[1:]
    kept = (covered_ns(left, right, span) > 0) & (covered_ns(left, right, hole) == 0)
    return _numbered(*union_ns(left[kept], right[kept]))


def _numbered(start_ns: Column, end_ns: Column) -> Lane:
    return Lane(np.arange(len(start_ns)), start_ns, end_ns)


def _in_order(start_ns: Column, rows: NDArray[np.bool_]) -> Column:
    found = np.flatnonzero(rows)
    return found[np.argsort(start_ns[found], kind="stable")]


def _waiting(profile: Profile, runs: Column, copies: Column) -> Lane:
    """``runs`` and ``copies`` are rows of op and of transfer events, ``runs`` by start time."""
    schedule, ops, moves = profile.schedule, profile.ops, profile.transfers
    if not len(copies):
        return Lane(*np.zeros((3, 0), dtype=np.int64))
    steps = 1 + max(int(moves.step[copies].max()), int(ops.step[runs].max(initial=0)))
    ids = 1 + int(moves.transfer[copies].max())
    end_of = np.full((steps, ids), -1, dtype=np.int64)
    end_of[moves.step[copies], moves.transfer[copies]] = moves.end_ns[copies]
    # Each op's last transfer to end, of those it waits for; the first of several that end at once.
    op, transfer = np.array([(t.op, w) for t in schedule.op_times for w in t.waits], dtype=np.int64).reshape(-1, 2).T
    op, transfer = op[transfer < ids], transfer[transfer < ids]
    last = np.full((steps, len(schedule.graph.ops)), -1, dtype=np.int64)
    for step in range(steps):
        order = np.lexsort((-np.arange(len(op)), end_of[step, transfer], op))
        last[step, op[order]] = transfer[order]
    waited = last[ops.step[runs], ops.op[runs]]
    until = np.where(waited < 0, -1, np.minimum(end_of[ops.step[runs], waited], ops.start_ns[runs]))
    free = np.concatenate([[0], np.maximum.accumulate(ops.end_ns[runs])])
    rows = until > free[:-1]
    item, start, end = waited[rows], free[:-1][rows], until[rows]
    # What still moves when the last op of a step has ended holds up the end of the step.
    done = np.zeros(steps, dtype=np.int64)
    np.maximum.at(done, ops.step[runs], ops.end_ns[runs])
    by_end = copies[np.lexsort((-np.arange(len(copies)), moves.end_ns[copies], moves.step[copies]))]
    tail = by_end[np.append(moves.step[by_end][1:] != moves.step[by_end][:-1], True)]
    tail = tail[moves.end_ns[tail] > done[moves.step[tail]]]
    item, start = np.append(item, moves.transfer[tail]), np.append(start, done[moves.step[tail]])
    end = np.append(end, moves.end_ns[tail])
    order = np.argsort(start, kind="stable")
    return Lane(item[order], start[order], end[order])
