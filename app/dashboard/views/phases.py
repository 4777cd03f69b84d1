"""The bands that name the phases above the Gantt lanes."""

from __future__ import annotations

from typing import Any

from app.dashboard.views.lanes import MS
from app.dashboard.views.step import StepView

SHADES = {"forward": 0.12, "backward": 0.28, "optimizer": 0.12, "prefill": 0.12, "decode": 0.28}


def phases(view: StepView) -> list[tuple[str, int, int]]:
    """Neighbouring ops of one phase as (phase, start_ns, end_ns), in order."""
    ops = view.profile.schedule.graph.ops
    result: list[tuple[str, int, int]] = []
    lane = view.lanes.compute
    for op, start, end in zip(lane.item.tolist(), lane.start_ns.tolist(), lane.end_ns.tolist(), strict=True):
        phase = ops[op].phase
        if result and result[-1][0] == phase:
            result[-1] = (phase, result[-1][1], end)
        else:
            result.append((phase, start, end))
    return result


def _long_phases(view: StepView) -> list[tuple[str, int, int]]:
    """The phases worth a band: a schedule that interleaves phases op by op would give thousands of slivers."""
    return [p for p in phases(view) if p[2] - p[1] > view.end_ns * 0.03]


def phase_shapes(view: StepView) -> list[dict[str, Any]]:
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "y2",
            "x0": start / MS,
            "x1": end / MS,
            "y0": 3.55,
            "y1": 4.0,
            "line": {"width": 0},
            "fillcolor": f"rgba(128,142,166,{SHADES[phase]})",
            "layer": "below",
        }
        for phase, start, end in _long_phases(view)
    ]


def phase_notes(view: StepView) -> list[dict[str, Any]]:
    return [
        {"x": (start + end) / 2 / MS, "y": 3.77, "yref": "y2", "text": phase, "showarrow": False, "font": {"size": 11}}
        for phase, start, end in _long_phases(view)
    ]
