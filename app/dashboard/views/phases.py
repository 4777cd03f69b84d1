"""The bands above the Gantt lanes: the phases of a step, or the steps of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard.views.lanes import MS
from hyperoffload_core.ir import PHASES, Graph
from profiles.lanes import Lane
from profiles.series import busy_fraction

SHADES = {"forward": 0.12, "backward": 0.28, "optimizer": 0.18, "prefill": 0.12, "decode": 0.28}
SLICES = 200
SHORTEST = 8
MOST_STEPS = 400
NAMED_STEPS = 14


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


Band = tuple[str, int, int, float]


def phase_shades(phases: Sequence[tuple[str, int, int]]) -> list[Band]:
    """Named bands with the strength of their shade."""
    return [(phase, start, end, SHADES[phase]) for phase, start, end in phases]


def step_shades(starts_ns: Sequence[int]) -> list[Band]:
    """Steps by number, every other one darker. Of many steps only some are named, of very many none is drawn."""
    count = len(starts_ns) - 1
    if count > MOST_STEPS:
        return []
    every = -(-count // NAMED_STEPS)
    return [
        (
            f"step {step + 1}" if step % every == 0 else "",
            starts_ns[step],
            starts_ns[step + 1],
            0.28 if step % 2 else 0.12,
        )
        for step in range(count)
    ]


def band_shapes(bands: Sequence[Band], low: float, high: float) -> list[dict[str, Any]]:
    """Bands between two heights on the lanes' axis: one shape for each shade, since a browser pays for every shape."""
    by_shade: dict[float, list[str]] = {}
    for _, start, end, shade in bands:
        left, right = start / MS, end / MS
        by_shade.setdefault(shade, []).append(f"M{left},{low}H{right}V{high}H{left}Z")
    return [
        {
            "type": "path",
            "xref": "x",
            "yref": "y2",
            "path": "".join(paths),
            "line": {"width": 0},
            "fillcolor": f"rgba(128,142,166,{shade})",
            "layer": "below",
        }
        for shade, paths in by_shade.items()
    ]


def band_notes(bands: Sequence[Band], middle: float) -> list[dict[str, Any]]:
    return [
        {
            "x": (start + end) / 2 / MS,
            "y": middle,
            "yref": "y2",
            "text": name,
            "showarrow": False,
            "font": {"size": 11},
        }
        for name, start, end, _ in bands
        if name
    ]
