"""The compare page's chart: memory curves over each other, Gantt lanes above each other, one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import LANE_TITLES, data_of, lane_traces, packed, plain
from app.dashboard.views.lanes import MS
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import MEMORY_BINS, unit_of
from hyperoffload_core.sizes import format_bytes
from profiles.series import downsample
from profiles.series import window as cut

MEMORY_HEIGHT = 280
BLOCK_HEIGHT = 128
# On the lanes' axis a block is 3.6 high: three lanes of 0.8 and room for its name.
BLOCK = 3.6


@dataclass(frozen=True)
class Compared:
    """Steps to compare, each under the name it has on the page; the first is drawn on top."""

    names: tuple[str, ...]
    views: tuple[StepView, ...]

    @cached_property
    def end_ns(self) -> int:
        return max(view.end_ns for view in self.views)

    @cached_property
    def unit(self) -> tuple[str, int]:
        return unit_of(max(view.curve.peak[1] for view in self.views))

    @property
    def height(self) -> int:
        return MEMORY_HEIGHT + BLOCK_HEIGHT * len(self.views) + 60


def colour_of(index: int) -> str:
    return theme.RUN_COLOURS[index % len(theme.RUN_COLOURS)]


def figure(compared: Compared, window: tuple[int, int]) -> dict[str, Any]:
    return {"data": list(traces(compared, window)), "layout": layout(compared, window)}


def data_changes(compared: Compared, window: tuple[int, int]) -> Iterator[tuple[int, str, Any]]:
    """(trace, key, value) of everything that depends on the window."""
    return data_of(traces(compared, window))


def traces(compared: Compared, window: tuple[int, int]) -> Iterator[dict[str, Any]]:
    margin = (window[1] - window[0]) // 2
    wide = max(0, window[0] - margin), min(compared.end_ns, window[1] + margin)
    name, unit = compared.unit
    for index, (title, view) in enumerate(zip(compared.names, compared.views, strict=True)):
        curve = downsample(cut(view.curve, wide[0], min(wide[1], view.end_ns)), MEMORY_BINS)
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": packed(curve.times_ns / MS),
            "y": packed(curve.total / unit),
            "line": {
                "shape": "hv",
                "width": 2,
                "color": colour_of(index),
                "dash": theme.RUN_DASHES[index % len(theme.RUN_DASHES)],
                "simplify": False,
            },
            "hovertemplate": f"<b>{plain(title)}</b> {view.kind}<br>%{{y:.4~f}} {name} at %{{x:.4~f}} ms"
            "<extra></extra>",
            "name": plain(title),
        }
    for index, view in enumerate(compared.views):
        yield from lane_traces(view, wide, window[1] - window[0], places(index, len(compared.views)))


def places(index: int, count: int) -> dict[str, tuple[float, float]]:
    """Floor and height of the lanes of one profile; the first profile's block is the highest."""
    floor = BLOCK * (count - 1 - index)
    return {"compute": (floor + 2.0, 0.8), "copy_in": (floor + 1.0, 0.8), "copy_out": (floor, 0.8)}


def layout(compared: Compared, window: tuple[int, int]) -> dict[str, Any]:
    name, unit = compared.unit
    count = len(compared.views)
    split = (BLOCK_HEIGHT * count) / (BLOCK_HEIGHT * count + MEMORY_HEIGHT)
    limits = sorted({v.profile.schedule.memory_limit_bytes for v in compared.views})
    highest = max(v.curve.peak[1] for v in compared.views)
    shown = [limit for limit in limits if limit <= 1.5 * highest]
    ticks = [
        (floor + height / 2, LANE_TITLES[key])
        for i in range(count)
        for key, (floor, height) in places(i, count).items()
    ]
    return {
        **theme.figure_layout(compared.height),
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
            ticksuffix=" ms",
            showspikes=True,
            spikemode="across",
            spikesnap="cursor",
            spikethickness=1,
            spikecolor="#8A94A6",
            spikedash="solid",
        ),
        "yaxis": theme.axis(
            domain=[split + 0.04, 1],
            range=[0, max([highest, *shown]) * 1.1 / unit],
            fixedrange=True,
            title={"text": f"Device memory ({name})"},
        ),
        "yaxis2": theme.axis(
            domain=[0, split],
            range=[-0.15, BLOCK * count - 0.1],
            fixedrange=True,
            showgrid=False,
            tickvals=[at for at, _ in ticks],
            ticktext=[text for _, text in ticks],
        ),
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
        ],
        "annotations": [*_block_names(compared), *_limit_notes(shown, unit)],
    }


def _block_names(compared: Compared) -> list[dict[str, Any]]:
    count = len(compared.views)
    return [
        {
            "xref": "paper",
            "x": 0,
            "xanchor": "left",
            "yref": "y2",
            "y": BLOCK * (count - 1 - index) + 3.08,
            "text": f"<b>{plain(title)}</b> · {view.kind}",
            "showarrow": False,
            "font": {"size": 12},
        }
        for index, (title, view) in enumerate(zip(compared.names, compared.views, strict=True))
    ]


def _limit_notes(limits: Sequence[int], unit: int) -> list[dict[str, Any]]:
    return [
        {
            "xref": "paper",
            "x": 1,
            "xanchor": "right",
            "yref": "y",
            "y": limit / unit,
            "yanchor": "bottom",
            "text": f"limit {format_bytes(limit)}",
            "showarrow": False,
        }
        for limit in limits
    ]
