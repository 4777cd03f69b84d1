"""The lanes of a step along the axis of its ops (`profiles.by_op`) instead of time.

An op is a bar of one width around its place. Time between ops is the gap between their bars, wider where other runs
have ops that this one has not; what runs beside ops lies where it lies among them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from profiles.by_op import OpCourse
from profiles.lanes import Lane, Lanes, Row

Column = NDArray[np.int64]

PLACE = 1_000_000
"""Units of the lanes' columns between two neighbouring places of the axis."""
# Half of an op's bar, as part of the distance between two places.
_HALF = 0.4
# How far what runs before the first op, or after the last, reaches beyond it.
_BESIDE = 1.0


@dataclass(frozen=True)
class OpLanes:
    """Rows by key, as those of `Lanes`; ``start_ns`` and ``end_ns`` of their lanes are places times `PLACE`."""

    row: dict[str, Row]
    waiting: Lane
    exposed: dict[str, Lane]

    def exposed_in(self, key: str) -> Lane:
        """The parts of one row with no compute beside them."""
        return self.exposed[key]


def lanes_by_op(lanes: Lanes, course: OpCourse, end_ns: int) -> OpLanes:
    """``course`` is that of the same step; ``end_ns`` where its time axis ends."""
    times, places = _axis(lanes, course, end_ns)

    def along(lane: Lane) -> Lane:
        start = np.interp(2 * lane.start_ns + 1, times, places) * PLACE
        end = np.interp(2 * lane.end_ns, times, places) * PLACE
        return Lane(lane.item, start.round().astype(np.int64), np.maximum(start, end).round().astype(np.int64))

    return OpLanes(
        row={row.key: Row(row.key, along(row.lane)) for row in lanes.rows},
        waiting=along(lanes.waiting),
        exposed={row.key: along(lanes.exposed_in(row.key)) for row in lanes.rows if row.kind == "transfer"},
    )


def _axis(lanes: Lanes, course: OpCourse, end_ns: int) -> tuple[Column, NDArray[np.float64]]:
    """Times and the places they are at. Times count double, a start one more: of an op that begins as another ends the
    start is later, so that each has its own edge."""
    start, end, place = lanes.compute.start_ns, lanes.compute.end_ns, course.place.astype(np.float64)
    if not len(place):
        return np.array([0, 2 * end_ns + 2]), np.array([0.0, _BESIDE])
    times = np.stack([2 * start + 1, 2 * end], axis=1).ravel()
    places = np.stack([place - _HALF, place + _HALF], axis=1).ravel()
    times = np.concatenate([[0], times, [max(2 * end_ns, int(times.max()) + 1)]])
    places = np.concatenate([[places[0] - _BESIDE], places, [places[-1] + _BESIDE]])
    return np.maximum.accumulate(times), places
