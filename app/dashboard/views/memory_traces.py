"""The memory curve of the run page as plotly traces: the stack, its upper edge, and the lines beside it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.lane_traces import faded, packed, plain
from app.dashboard.views.lanes import MS
from app.dashboard.views.step import StepView
from profiles.stacks import Grouping, Stack, Steps

MEMORY_BINS = 640
GROUPING_TITLES: dict[Grouping, str] = {"class": "class", "layer": "layer", "phase": "phase", "tier": "tier"}
# Layers in order of the step, dark to light, so that neighbours differ in lightness too; what is left over is grey.
LAYER_COLOURS = (
    "#2B2F72",
    "#3A4F8F",
    "#3C6CA0",
    "#3D88A6",
    "#45A3A3",
    "#5CBB95",
    "#86CE7E",
    "#B0D869",
    "#D9DD5C",
    "#F0CB4C",
    "#F2AC45",
    "#9AA3AF",
)
PHASE_COLOURS = {
    "forward": "#3F6FC4",
    "backward": "#E0943A",
    "optimizer": "#4FA58B",
    "prefill": "#3F6FC4",
    "decode": "#E0943A",
}
TIER_COLOURS = {"device": "#7C90BD", "leaving": theme.COPY_OUT, "arriving": theme.COPY_IN}
TIER_TITLES = {"device": "On the device", "leaving": "In flight out", "arriving": "In flight in"}
REST_COLOUR = "#9AA3AF"
NEEDED_COLOUR = "#10141C"
RESERVED_COLOUR = "#8A94A6"
TOTAL_COLOUR = "rgba(90,100,118,0.9)"


def group_colour(by: Grouping, name: str, place: int) -> str:
    """The colour of the group at ``place`` in its stack."""
    if by == "class":
        return theme.class_colour(name)
    if by == "phase":
        return PHASE_COLOURS.get(name, REST_COLOUR)
    if by == "tier":
        return TIER_COLOURS[name]
    return REST_COLOUR if name.endswith("other layers") else LAYER_COLOURS[place % len(LAYER_COLOURS)]


def group_title(by: Grouping, name: str) -> str:
    if by == "class":
        return theme.class_title(name)
    if by == "tier":
        return TIER_TITLES[name]
    return name if by == "layer" else name.capitalize()


def group_legend(by: Grouping, stack: Stack) -> list[tuple[str, str]]:
    """(colour, title) of each group, the uppermost first."""
    rows = [(group_colour(by, name, place), group_title(by, name)) for place, name in enumerate(stack.groups)]
    return rows[::-1]


def memory_traces(
    view: StepView, by: Grouping, beside: StepView | None, window: tuple[int, int], unit: tuple[str, int], lines: bool
) -> Iterator[dict[str, Any]]:
    """Groups from the floor up, the total, theoretical and reserved ``lines``, and the total of the profile beside."""
    name, size = unit
    stack = view.stack(by)
    times = stack.total.kept(*window, MEMORY_BINS)
    held = stack.at(times)
    upper = np.cumsum(held, axis=0) / size
    for row, group in enumerate(stack.groups):
        colour = group_colour(by, group, row)
        yield {
            **_line(times, upper[row], {"width": 0.6, "color": colour}),
            "fill": "tozeroy" if row == 0 else "tonexty",
            "fillcolor": faded(colour, 0.82),
            "hoverinfo": "skip",
            "name": plain(group_title(by, group)),
        }
    parts = "".join(
        f"<br>{plain(group_title(by, group))} %{{customdata[{row}]:.3~f}} {name}"
        for row, group in reversed(list(enumerate(stack.groups)))
    )
    yield {
        **_line(times, stack.total.at(times) / size, {"width": 1.2, "color": TOTAL_COLOUR}),
        "customdata": packed(np.ascontiguousarray((held / size).astype(np.float32).T)),
        "hovertemplate": f"<b>live %{{y:.4~f}} {name}</b> at %{{x:.4~f}} ms · {view.kind}{parts}<extra></extra>",
        "name": f"live ({view.kind})",
    }
    if lines:
        yield from _lines(view, window, unit)
    if beside is not None:
        yield {
            **_line(*_thinned(beside.live, window, size), {"width": 1.6, "color": theme.CURSOR, "dash": "dash"}),
            "hovertemplate": f"live %{{y:.4~f}} {name} at %{{x:.4~f}} ms · {beside.kind}<extra></extra>",
            "name": beside.kind,
        }


def _lines(view: StepView, window: tuple[int, int], unit: tuple[str, int]) -> Iterator[dict[str, Any]]:
    name, size = unit
    needed = _thinned(view.needed, window, size)
    # A light ground below the dark dots keeps them readable on every colour of the stack and in both schemes.
    yield {**_line(*needed, {"width": 2.8, "color": "rgba(255,255,255,0.6)"}), "hoverinfo": "skip", "name": "ground"}
    yield {
        **_line(*needed, {"width": 1.5, "color": NEEDED_COLOUR, "dash": "dot"}),
        "hovertemplate": f"theoretical %{{y:.4~f}} {name} at %{{x:.4~f}} ms · {view.kind}<extra></extra>",
        "name": f"theoretical ({view.kind})",
    }
    yield {
        **_line(*_thinned(view.reserved, window, size), {"width": 1.5, "color": RESERVED_COLOUR, "dash": "dash"}),
        "hovertemplate": f"reserved %{{y:.4~f}} {name} at %{{x:.4~f}} ms · {view.kind}<extra></extra>",
        "name": f"reserved ({view.kind})",
    }


def _thinned(steps: Steps, window: tuple[int, int], size: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    times = steps.kept(*window, MEMORY_BINS)
    return times, steps.at(times) / size


def _line(times_ns: NDArray[np.int64], values: NDArray[np.float64], line: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": packed(times_ns / MS),
        "y": packed(values.astype(np.float32)),
        "line": {"shape": "hv", "simplify": False, **line},
    }
