"""The bands that name the phases above the Gantt lanes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard.views.lanes import MS
from app.dashboard.views.step import StepView
from hyperoffload_core.ir import PHASES
from profiles.series import busy_fraction

SHADES = {"forward": 0.12, "backward": 0.28, "optimizer": 0.18, "prefill": 0.12, "decode": 0.28}
SLICES = 200
SHORTEST = 8


def phases(view: StepView) -> list[tuple[str, int, int]]:
    """(phase, start_ns, end_ns) of the stretches in which ops of one phase take most of the compute time.

    A refined order may mix phases op by op, so each of 200 slices of the step goes to its strongest one, and a stretch
    of less than 8 slices to the one before it.
    """
    ops, lane = view.profile.schedule.graph.ops, view.lanes.compute
    phase_of = np.array([PHASES.index(op.phase) for op in ops], dtype=np.int64)[lane.item]
    present = np.unique(phase_of)
    if not len(present):
        return []
    rows = [phase_of == phase for phase in present]
    busy = np.stack([busy_fraction(lane.start_ns[r], lane.end_ns[r], 0, view.end_ns, SLICES) for r in rows])
    strongest = busy.argmax(axis=0)
    for number in range(1, SLICES):
        if not busy[:, number].any():
            strongest[number] = strongest[number - 1]
    return [
        (PHASES[present[row]], view.end_ns * a // SLICES, view.end_ns * b // SLICES) for row, a, b in _bands(strongest)
    ]


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


def phase_shapes(view: StepView, low: float, high: float) -> list[dict[str, Any]]:
    """Bands between two heights on the lanes' axis."""
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "y2",
            "x0": start / MS,
            "x1": end / MS,
            "y0": low,
            "y1": high,
            "line": {"width": 0},
            "fillcolor": f"rgba(128,142,166,{SHADES[phase]})",
            "layer": "below",
        }
        for phase, start, end in phases(view)
    ]


def phase_notes(view: StepView, middle: float) -> list[dict[str, Any]]:
    return [
        {
            "x": (start + end) / 2 / MS,
            "y": middle,
            "yref": "y2",
            "text": phase,
            "showarrow": False,
            "font": {"size": 11},
        }
        for phase, start, end in phases(view)
    ]
