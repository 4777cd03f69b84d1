"""One step of a profile as lanes of a Gantt chart: compute, copy out, copy in, and where compute waits for a copy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule

Column = NDArray[np.int64]


@dataclass(frozen=True)
class Lane:
    """Rectangles of one lane by start time: int64 columns; ``item`` is the op's or the transfer's id."""

    item: Column
    start_ns: Column
    end_ns: Column


@dataclass(frozen=True)
class Lanes:
    """``waiting`` are the stretches in which the next op waits for a transfer; its ``item`` is that transfer."""

    compute: Lane
    copy_out: Lane
    copy_in: Lane
    waiting: Lane


def part_words(schedule: Schedule) -> dict[int, str]:
    """``part 2 of 3`` for each transfer that moves a part of its storage, by transfer id."""
    return {
        part.id: f"part {number} of {len(move)}"
        for move in schedule.moves
        if move[0].partial
        for number, part in enumerate(move, 1)
    }


def lanes(profile: Profile, step: int = 0) -> Lanes:
    """The lanes of one step."""
    ops, moves = profile.ops, profile.transfers
    compute = _lane(ops.op, ops.start_ns, ops.end_ns, ops.step == step)
    copy_out, copy_in = (
        _lane(moves.transfer, moves.start_ns, moves.end_ns, (moves.step == step) & (moves.direction == direction))
        for direction in (0, 1)
    )
    return Lanes(compute, copy_out, copy_in, _waiting(profile, compute, copy_out, copy_in))


def _lane(item: Column, start_ns: Column, end_ns: Column, rows: NDArray[np.bool_]) -> Lane:
    order = np.argsort(start_ns[rows], kind="stable")
    return Lane(item[rows][order], start_ns[rows][order], end_ns[rows][order])


def _waiting(profile: Profile, compute: Lane, *copies: Lane) -> Lane:
    ends = {i: e for lane in copies for i, e in zip(lane.item.tolist(), lane.end_ns.tolist(), strict=True)}
    waits = {t.op: t.waits for t in profile.schedule.op_times}
    rows, free = [], 0
    for op, start, end in zip(compute.item.tolist(), compute.start_ns.tolist(), compute.end_ns.tolist(), strict=True):
        last = max((t for t in waits.get(op, ()) if t in ends), key=ends.__getitem__, default=None)
        if last is not None and min(ends[last], start) > free:
            rows.append((last, free, min(ends[last], start)))
        free = end
    # What still moves when the last op has ended holds up the end of the step.
    last = max(ends, key=ends.__getitem__, default=None)
    if last is not None and ends[last] > free:
        rows.append((last, free, ends[last]))
    columns = np.array(rows, dtype=np.int64).reshape(len(rows), 3).T
    return Lane(*columns)
