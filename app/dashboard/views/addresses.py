"""The address map: each stay of a storage a rectangle at its address, coloured by class; free space stays empty.

Above `MOST_RECTANGLES` in view it becomes a raster of how much of each cell is taken, exact in every cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from app.dashboard import theme
from app.dashboard.views.lane_traces import filled, packed, plain
from app.dashboard.views.lanes import MS
from app.dashboard.views.marks import cursor_shape
from app.dashboard.views.pointing import clicked_time
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import unit_of
from hyperoffload_core.ir import TENSOR_CLASSES
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.addresses import Addresses, Fragmentation, Window, fragmentation, inside, occupied
from profiles.plain import visible

Detail = Literal["bars", "outlines", "raster"]
HEIGHT = 380
MOST_BARS = 1_500
MOST_RECTANGLES = 6_000
COLUMNS, ROWS = 600, 180
# A cell with anything in it is told from an empty one; a full one is dark on light and light enough on dark ground.
SCALE = [[0, "rgba(0,0,0,0)"], [1e-12, "#B9CBF5"], [0.5, "#6E8FE0"], [1, "#3358B8"]]
FREE = "rgba(128,142,166,0.10)"
RESERVED_COLOUR = "#8A94A6"
LIVE_COLOUR, LIVE_HALO = "#10141C", "rgba(255,255,255,0.85)"
# Fewer rectangles are set apart by an edge, which would hide more of them.
EDGED = 400


@dataclass(frozen=True)
class AddressMap:
    """The addresses of one step."""

    view: StepView

    @property
    def stays(self) -> Addresses:
        return self.view.addresses

    @property
    def known(self) -> bool:
        """Whether the profile says where anything lies."""
        return bool(len(self.stays.storage)) or not len(self.view.profile.lifetimes.storage)

    @cached_property
    def reserved_bytes(self) -> int:
        """How much address space the step needs: measured where it was, else what the schedule reserves."""
        profile = self.view.profile
        if self.view.kind == "measured":
            told = int(profile.steps.peak_bytes[self.view.step])
        else:
            told = profile.schedule.metrics.reserved_bytes
        return max(told, self.stays.height_bytes)

    @cached_property
    def unit(self) -> tuple[str, int]:
        return unit_of(max(self.reserved_bytes, 1))

    def window(self, times: tuple[int, int] | None = None, places: tuple[float, float] | None = None) -> Window:
        """What is shown: times in ns, places in the chart's unit; None for all of them."""
        start, end = times or (0, self.view.end_ns)
        low, high = places or (0.0, self.reserved_bytes * 1.06 / self.unit[1])
        bottom = max(0, int(float(low) * self.unit[1]))
        return Window(start, max(end, start + 1), bottom, max(int(float(high) * self.unit[1]), bottom + 1))

    def at(self, time_ns: int) -> Fragmentation:
        return fragmentation(self.view.profile, self.stays, self.reserved_bytes, time_ns, self.view.step)

    def storage_at(self, time_ns: int, place: int) -> int | None:
        """The storage that holds an address at a time."""
        now = self.stays.at(time_ns)
        row = int(np.searchsorted(now.low, place, side="right")) - 1
        return int(now.storage[row]) if row >= 0 and place < now.high[row] else None


def figure(shown: AddressMap, window: Window, cursor_ns: int | None) -> dict[str, Any]:
    """The map as a plotly document."""
    return {"data": list(traces(shown, window)), "layout": layout(shown, window, cursor_ns)}


def detail(shown: AddressMap, window: Window) -> tuple[Detail, int]:
    """How the window is drawn, and how many stays are in it."""
    count = len(inside(shown.stays, window).storage)
    return ("bars" if count <= MOST_BARS else "outlines" if count <= MOST_RECTANGLES else "raster"), count


def traces(shown: AddressMap, window: Window) -> Iterator[dict[str, Any]]:
    # Half a window more on each side, so that a pan shows something before the answer to it arrives.
    margin = (window.end_ns - window.start_ns) // 2
    start, end = max(0, window.start_ns - margin), min(shown.view.end_ns, window.end_ns + margin)
    wide = Window(start, max(end, start + 1), window.low, window.high)
    found = inside(shown.stays, wide)
    if len(found.storage) > MOST_RECTANGLES:
        yield _raster(shown, found, wide)
    else:
        yield from _rectangles(shown, found)
    yield from _live(shown, (wide.start_ns, wide.end_ns))


def _rectangles(shown: AddressMap, found: Addresses) -> Iterator[dict[str, Any]]:
    storages = shown.view.profile.schedule.graph.storages
    class_of = np.array([TENSOR_CLASSES.index(s.tensor_class) for s in storages], dtype=np.int64)[found.storage]
    draw = _bars if len(found.storage) <= MOST_BARS else _outlines
    for number in np.unique(class_of).tolist():
        tensor_class = TENSOR_CLASSES[number]
        yield {
            **draw(shown, found.rows(class_of == number), theme.class_colour(tensor_class)),
            "name": f"{theme.class_title(tensor_class)} ({shown.view.kind})",
        }


def _bars(shown: AddressMap, found: Addresses, colour: str) -> dict[str, Any]:
    unit = shown.unit[1]
    return {
        "type": "bar",
        "x": packed((found.start_ns + found.end_ns) / 2 / MS),
        "width": packed((found.end_ns - found.start_ns) / MS),
        "base": packed(found.low / unit),
        "y": packed((found.high - found.low) / unit),
        "customdata": found.storage.tolist(),
        "hovertext": [_hover(shown, *row) for row in zip(*(c.tolist() for c in _columns(found)), strict=True)],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "color": colour,
            "line": {"width": 0.6 * (len(found.storage) <= EDGED), "color": "rgba(255,255,255,0.6)"},
        },
    }


def _outlines(shown: AddressMap, found: Addresses, colour: str) -> dict[str, Any]:
    unit = shown.unit[1]
    return filled(found.start_ns, found.end_ns, found.low / unit, found.high / unit, colour)


def _hover(shown: AddressMap, storage: int, start: int, end: int, low: int, high: int) -> str:
    s = shown.view.profile.schedule.graph.storages[storage]
    return (
        f"<b>{plain(visible(s.name))}</b><br>{theme.class_title(s.tensor_class)} · {format_bytes(high - low)} "
        f"at {format_bytes(low)}<br>{format_ns(start)} to {format_ns(end)}, {shown.view.kind}"
    )


def _columns(found: Addresses) -> tuple[NDArray[np.int64], ...]:
    return found.storage, found.start_ns, found.end_ns, found.low, found.high


def _raster(shown: AddressMap, found: Addresses, window: Window) -> dict[str, Any]:
    taken = occupied(found, window, COLUMNS, ROWS)
    unit = shown.unit[1]
    step_ms = (window.end_ns - window.start_ns) / COLUMNS / MS
    step = (window.high - window.low) / ROWS / unit
    return {
        "type": "heatmap",
        "x0": window.start_ns / MS + step_ms / 2,
        "dx": step_ms,
        "y0": window.low / unit + step / 2,
        "dy": step,
        "z": packed(taken.astype(np.float32)),
        "zmin": 0,
        "zmax": 1,
        "colorscale": SCALE,
        "showscale": False,
        "hovertemplate": f"%{{z:.0%}} of %{{y:.3~f}} {shown.unit[0]} at %{{x:.4~f}} ms is taken, "
        f"{shown.view.kind}<extra></extra>",
        "name": f"Taken ({shown.view.kind})",
    }


def _live(shown: AddressMap, times: tuple[int, int]) -> Iterator[dict[str, Any]]:
    """What is on the device in all, on the scale of the addresses: below the reserved height the rest is free. A dark
    line on a light one stands out from every class and from both grounds."""
    at = shown.view.live.kept(*times, COLUMNS)
    for width, colour in ((3.6, LIVE_HALO), (1.5, LIVE_COLOUR)):
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": packed(at / MS),
            "y": packed(shown.view.live.at(at) / shown.unit[1]),
            "line": {"shape": "hv", "width": width, "color": colour, "simplify": False},
            "hoverinfo": "skip",
            "name": f"Live ({shown.view.kind})",
        }


def layout(shown: AddressMap, window: Window, cursor_ns: int | None) -> dict[str, Any]:
    name, unit = shown.unit
    end_ms, reserved = shown.view.end_ns / MS, shown.reserved_bytes / unit
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": reserved, "y1": reserved}
    return {
        **theme.figure_layout(HEIGHT),
        "barmode": "overlay",
        "bargap": 0,
        "hovermode": "closest",
        "clickanywhere": True,
        "xaxis": theme.axis(
            range=[window.start_ns / MS, window.end_ns / MS],
            minallowed=-end_ms * 0.02,
            maxallowed=end_ms * 1.02,
            **theme.MILLISECONDS,
            uirevision=f"{(window.start_ns, window.end_ns)}",
        ),
        "yaxis": theme.axis(
            range=[window.low / unit, window.high / unit],
            minallowed=0,
            maxallowed=reserved * 1.06,
            title={"text": f"Address ({name})"},
            uirevision="keep",
        ),
        "shapes": [
            cursor_shape(cursor_ns),
            {**line, "line": {"color": RESERVED_COLOUR, "width": 1.4, "dash": "dash"}},
            {
                "type": "rect",
                "xref": "x",
                "x0": 0,
                "x1": end_ms,
                "y0": 0,
                "y1": reserved,
                "fillcolor": FREE,
                "line": {"width": 0},
                "layer": "below",
            },
        ],
        "annotations": [
            {
                "xref": "paper",
                "x": 1,
                "xanchor": "right",
                "y": reserved,
                "yanchor": "bottom",
                "text": f"reserved {format_bytes(shown.reserved_bytes)}, {shown.view.kind}",
                "showarrow": False,
            }
        ],
    }


def words(told: Fragmentation, kind: str) -> tuple[tuple[str, str], ...]:
    """Fragmentation at a time as (label, words)."""
    hole = (
        f"{format_bytes(told.largest_hole_bytes)} at {format_bytes(told.largest_hole_at)}"
        if told.largest_hole_bytes
        else "none"
    )
    beside = f", and {format_bytes(told.workspace_bytes)} workspace of the running op" if told.workspace_bytes else ""
    return (
        (f"At {format_ns(told.time_ns)}", kind),
        ("Live", f"{format_bytes(told.live_bytes)} of {format_bytes(told.reserved_bytes)} reserved{beside}"),
        (
            "Not in use (reserved - live)",
            f"{format_bytes(told.free_bytes)} in {told.holes} hole{'s' * (told.holes != 1)}",
        ),
        ("Largest free hole", hole),
    )


def clicked(shown: AddressMap, click: dict[str, Any] | None) -> tuple[int | None, int | None]:
    """The storage at the address and time of a click, and the time (ns)."""
    if not click:
        return None, None
    time = clicked_time(click)
    for point in click.get("points", ()):
        if isinstance(point.get("customdata"), int):
            return int(point["customdata"]), time
    levels = click.get("yvals")
    if time is None or not levels:
        return None, time
    return shown.storage_at(time, int(float(levels[0]) * shown.unit[1])), time


def places(change: dict[str, Any] | None) -> tuple[float, float] | Literal["all"] | None:
    """The stretch of addresses (in the chart's unit) of a relayout event, "all" for a reset, None for any other."""
    if not change:
        return None
    if "yaxis.range[0]" in change and "yaxis.range[1]" in change:
        return float(change["yaxis.range[0]"]), float(change["yaxis.range[1]"])
    if "yaxis.range" in change:
        low, high = change["yaxis.range"]
        return float(low), float(high)
    return "all" if change.get("yaxis.autorange") else None
