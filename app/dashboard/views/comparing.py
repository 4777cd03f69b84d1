"""The compare page's chart: memory curves over each other, Gantt lanes above each other, one time axis.

Along ops instead of time: `views.comparing_ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import data_of, lane_traces, packed, plain
from app.dashboard.views.lanes import MS, wider
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import MEMORY_BINS, unit_of
from hyperoffload_core.sizes import format_bytes
from profiles.by_op import ByOp, by_op
from profiles.lanes_by_op import OpLanes, lanes_by_op
from profiles.series import downsample
from profiles.series import window as cut

MEMORY_HEIGHT = 280
# As much as a line of text beside a limit takes.
NOTE_PIXELS = 16
LANE_PIXELS = 36
# Of each profile's line, before its name: enough for every dash.
SAMPLE_PIXELS = 32
# On the lanes' axis a lane is 1 high with its gap; above each profile's lanes is room for its name.
LANE_HEIGHT = 0.8
NAME_HEIGHT = 0.6


@dataclass(frozen=True)
class Compared:
    """Steps to compare, each under the name it has on the page; the first is drawn on top."""

    names: tuple[str, ...]
    views: tuple[StepView, ...]

    baseline: int = 0

    @cached_property
    def end_ns(self) -> int:
        return max(view.end_ns for view in self.views)

    @cached_property
    def unit(self) -> tuple[str, int]:
        return unit_of(max(view.curve.peak[1] for view in self.views))

    @cached_property
    def floors(self) -> tuple[float, ...]:
        """Where the lanes of each profile begin on the lanes' axis, and where the highest block ends: the first
        profile stands at the top."""
        heights = [len(view.lanes.rows) + NAME_HEIGHT for view in self.views]
        return (*(sum(heights[index + 1 :]) for index in range(len(heights))), sum(heights))

    @property
    def lanes_height(self) -> int:
        """Of all lanes, in pixels."""
        return round(LANE_PIXELS * self.floors[-1])

    @property
    def height(self) -> int:
        return MEMORY_HEIGHT + self.lanes_height + 60

    @cached_property
    def by_op(self) -> ByOp:
        """The same steps along their ops."""
        return by_op([view.profile for view in self.views], self.baseline)

    @cached_property
    def lanes_by_op(self) -> tuple[OpLanes, ...]:
        """The lanes of each profile along its ops."""
        rows = zip(self.views, self.by_op.courses, strict=True)
        return tuple(lanes_by_op(view.lanes, course, view.end_ns) for view, course in rows)

    def places(self, index: int) -> dict[str, tuple[float, float]]:
        """Floor and height of the lanes of one profile."""
        rows = self.views[index].lanes.rows
        return {row.key: (self.floors[index] + len(rows) - 1 - n, LANE_HEIGHT) for n, row in enumerate(rows)}


def in_template(text: str) -> str:
    """A name in a hover template, which would put values in the place of ``%{...}``."""
    return plain(text).replace("%{", "% {")


def colour_of(index: int) -> str:
    return theme.RUN_COLOURS[index % len(theme.RUN_COLOURS)]


def figure(compared: Compared, window: tuple[int, int]) -> dict[str, Any]:
    return {"data": list(traces(compared, window)), "layout": layout(compared, window)}


def data_changes(compared: Compared, window: tuple[int, int]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything that depends on the window."""
    return data_of(traces(compared, window))


def traces(compared: Compared, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    wide = wider(window, compared.end_ns)
    name, unit = compared.unit
    for index, (title, view) in enumerate(zip(compared.names, compared.views, strict=True)):
        curve = downsample(cut(view.curve, wide[0], min(wide[1], view.end_ns)), MEMORY_BINS)
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": packed(curve.times_ns / MS),
            "y": packed(curve.total / unit),
            "line": run_line(index),
            "hovertemplate": f"<b>{in_template(title)}</b> {view.kind}<br>%{{y:.4~f}} {name} at %{{x:.4~f}} ms"
            "<extra></extra>",
            "name": plain(title),
        }
    for index, view in enumerate(compared.views):
        yield from lane_traces(view, wide, window[1] - window[0], compared.places(index))


def run_line(index: int) -> dict[str, Any]:
    """How the line of a run looks in every chart of the page."""
    dash = theme.RUN_DASHES[index % len(theme.RUN_DASHES)]
    return {"shape": "hv", "width": 2, "color": colour_of(index), "dash": dash, "simplify": False}


def layout(compared: Compared, window: tuple[int, int]) -> dict[str, Any]:
    name, unit = compared.unit
    split = compared.lanes_height / (compared.lanes_height + MEMORY_HEIGHT)
    limits = sorted({v.profile.schedule.memory_limit_bytes for v in compared.views})
    highest = max(v.curve.peak[1] for v in compared.views)
    shown = [limit for limit in limits if limit <= 1.5 * highest]
    return {
        **theme.figure_layout(compared.height),
        "uirevision": "time",
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "hoverdistance": 24,
        "xaxis": theme.axis(
            domain=[0, 1],
            anchor="y2",
            range=[window[0] / MS, window[1] / MS],
            minallowed=-compared.end_ns * 0.02 / MS,
            maxallowed=compared.end_ns * 1.02 / MS,
            **theme.MILLISECONDS,
            **theme.SPIKE,
        ),
        "yaxis": theme.axis(
            domain=[split + 0.04, 1],
            range=[0, max([highest, *shown]) * 1.1 / unit],
            fixedrange=True,
            title={"text": f"Device memory ({name})"},
        ),
        "yaxis2": lanes_axis(compared, [0, split]),
        "shapes": [
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "yref": "y",
                "y0": limit / unit,
                "y1": limit / unit,
                "line": {"color": theme.LIMIT, "width": 1.2, "dash": "dash"},
            }
            for limit in shown
        ]
        + block_lines(compared),
        "annotations": [*block_names(compared), *_limit_notes(shown, unit, max([highest, *shown]))],
    }


def lanes_axis(compared: Compared, domain: Sequence[float]) -> dict[str, Any]:
    """The axis on which the lanes of all profiles stand, each with its name."""
    ticks = [
        (floor + height / 2, view.lanes.row[key].title)
        for index, view in enumerate(compared.views)
        for key, (floor, height) in compared.places(index).items()
    ]
    return theme.axis(
        domain=list(domain),
        range=[-0.15, compared.floors[-1] - 0.1],
        fixedrange=True,
        showgrid=False,
        tickvals=[at for at, _ in ticks],
        ticktext=[text for _, text in ticks],
    )


def block_names(compared: Compared) -> list[dict[str, Any]]:
    """The name of each profile above its lanes, behind the sample of `block_lines`."""
    return [
        {
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "xshift": SAMPLE_PIXELS + 4,
            "yref": "y2",
            "y": _name_place(compared, index),
            "text": f"<b>{plain(title)}</b> · {view.kind}",
            "showarrow": False,
            "font": {"size": 12},
        }
        for index, (title, view) in enumerate(zip(compared.names, compared.views, strict=True))
    ]


def block_lines(compared: Compared) -> list[dict[str, Any]]:
    """A sample of each profile's line before its name: a picture of the chart alone tells the curves apart."""
    return [
        {
            "type": "line",
            "xref": "paper",
            "xsizemode": "pixel",
            "xanchor": 0,
            "x0": 0,
            "x1": SAMPLE_PIXELS,
            "yref": "y2",
            "y0": _name_place(compared, index),
            "y1": _name_place(compared, index),
            "line": {key: run_line(index)[key] for key in ("width", "color", "dash")},
        }
        for index in range(len(compared.views))
    ]


def _name_place(compared: Compared, index: int) -> float:
    return compared.floors[index] + len(compared.views[index].lanes.rows) + 0.08


def _limit_notes(limits: Sequence[int], unit: int, top: int) -> list[dict[str, Any]]:
    """The names of the limits (ascending); those too near each other for a line of text each share one."""
    apart = top * NOTE_PIXELS // MEMORY_HEIGHT
    lines: list[list[int]] = []
    for limit in limits:
        if lines and limit - lines[-1][0] < apart:
            lines[-1].append(limit)
        else:
            lines.append([limit])
    return [
        {
            "xref": "paper",
            "x": 1,
            "xanchor": "right",
            "yref": "y",
            "y": line[-1] / unit,
            "yanchor": "bottom",
            "text": f"limit{'s' if len(line) > 1 else ''} {', '.join(map(format_bytes, line))}",
            "showarrow": False,
        }
        for line in lines
    ]
