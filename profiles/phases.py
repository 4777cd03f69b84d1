"""The phases of a step as stretches of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.ir import PHASES, Graph
from profiles.lanes import Lane
from profiles.series import busy_fraction

# A step is looked at in so many slices, and a band is at least so many of them long.
SLICES, SHORTEST = 200, 8


def phase_bands(graph: Graph, lane: Lane, end_ns: int) -> list[tuple[str, int, int]]:
    """(phase, start_ns, end_ns) of the stretches in which ops of one phase take most of the compute time.

    A refined order may mix phases op by op, so each of 200 slices of the step goes to its strongest one, and a stretch
    of less than 8 slices to the one before it.
    """
    phase_of = np.array([PHASES.index(op.phase) for op in graph.ops], dtype=np.int64)[lane.item]
    present = np.unique(phase_of)
    if not len(present):
        return []
    rows = [phase_of == phase for phase in present]
    busy = np.stack([busy_fraction(lane.start_ns[r], lane.end_ns[r], 0, end_ns, SLICES) for r in rows])
    strongest = busy.argmax(axis=0)
    for number in range(1, SLICES):
        if not busy[:, number].any():
            strongest[number] = strongest[number - 1]
    return [(PHASES[present[row]], end_ns * a // SLICES, end_ns * b // SLICES) for row, a, b in _bands(strongest)]


def _bands(strongest: NDArray[np.int64]) -> list[tuple[int, int, int]]:
    """Stretches of equal values as (value, first, end); one too short for a name goes to the band before it."""
    opens = np.flatnonzero(np.concatenate([[True], strongest[1:] != strongest[:-1]])).tolist()
    bands: list[tuple[int, int, int]] = []
    for first, end in zip(opens, [*opens[1:], len(strongest)], strict=True):
        value = int(strongest[first])
        if bands and (end - first < SHORTEST or bands[-1][0] == value):
            bands[-1] = (bands[-1][0], bands[-1][1], end)
        else:
            bands.append((value, first, end))
    return bands
