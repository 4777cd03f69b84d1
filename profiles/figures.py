"""Charts of reports as plotly.js figures in plain data: what depends on light or dark is set by who draws them, the
HTML report (plotly.js) or the SVG export (`profiles.svg`). Figures of one ``group`` share their x axis.

Times and sizes are shown in one unit per chart; the data stay exact until they are divided by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hyperoffload_core.recording import Profile
from hyperoffload_core.sizes import format_bytes, format_ns
from profiles.colours import BLOCKING, RUN_COLOURS
from profiles.comparison import LabelledProfile
from profiles.plain import html_text
from profiles.series import downsample, memory_curve

DASHES = {"measured": "solid", "predicted": "dash"}

CONFIG: dict[str, Any] = {
    "displaylogo": False,
    "showSendToCloud": False,
    "responsive": True,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
    "toImageButtonOptions": {"format": "png", "scale": 2, "filename": "hyperoffload-comparison"},
}
_BINS = 1200
_LABEL = 60
_Figure = dict[str, Any]


@dataclass(frozen=True)
class Scale:
    """A unit and what to divide by."""

    unit: str
    divisor: int


def time_scale(longest_ns: int) -> Scale:
    scales = (Scale("s", 10**9), Scale("ms", 10**6), Scale("µs", 10**3))
    return next((s for s in scales if longest_ns >= s.divisor), Scale("ns", 1))


def size_scale(largest_bytes: int) -> Scale:
    scales = (Scale("GiB", 2**30), Scale("MiB", 2**20), Scale("KiB", 2**10))
    return next((s for s in scales if largest_bytes >= s.divisor), Scale("B", 1))


def memory_figure(profiles: Sequence[LabelledProfile]) -> _Figure:
    """Device bytes over the median step, one line per profile (solid when measured, dashed when predicted), its peak
    marked, and every limit that lies near the curves."""
    curves = [memory_curve(p.profile, p.profile.median_step) for p in profiles]
    highest = max(curve.peak[1] for curve in curves)
    # The limit of a run that needed none (the whole device) would press the curves to the ground.
    limits = sorted({s.memory_limit_bytes for s in (p.profile.schedule for p in profiles)})
    limits = [limit for limit in limits if limit <= highest * 5 // 4]
    size = size_scale(highest)
    time = time_scale_of(profiles)
    traces: list[_Figure] = []
    for index, (item, curve) in enumerate(zip(profiles, curves, strict=True)):
        drawn, (peak_at, peak) = downsample(curve, _BINS), curve.peak
        name, line = named(item), run_line(item, index)
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": name,
                "legendgroup": str(index),
                "x": (drawn.times_ns / time.divisor).round(6).tolist(),
                "y": (drawn.total / size.divisor).round(6).tolist(),
                "line": line,
                "hovertemplate": f"{label_in_template(item.label)}: %{{y:.4g}} {size.unit}<extra></extra>",
            }
        )
        text = f"peak of {label_in_template(item.label)}: {format_bytes(peak)} at {format_ns(peak_at)}"
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "showlegend": False,
                "legendgroup": str(index),
                "x": [peak_at / time.divisor],
                "y": [peak / size.divisor],
                "marker": {"size": 9, "color": line["color"], "symbol": "diamond"},
                "hovertemplate": f"{text} ({item.profile.kind})<extra></extra>",
            }
        )
    shapes = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": limit / size.divisor,
            "y1": limit / size.divisor,
            "line": {"color": BLOCKING, "width": 1.2, "dash": "dot"},
            "label": {"text": f"limit {format_bytes(limit)}", "textposition": "start", "font": {"size": 11}},
        }
        for limit in limits
    ]
    layout = {
        "height": 340,
        "shapes": shapes,
        "hovermode": "x unified",
        "xaxis": time_axis(profiles, time),
        "yaxis": {"title": {"text": f"device memory ({size.unit})"}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.12, "x": 0},
    }
    return {"data": traces, "layout": layout, "config": CONFIG, "group": "time"}


def run_line(item: LabelledProfile, index: int) -> dict[str, Any]:
    """How a profile's line looks in every chart: its colour, dashed when predicted."""
    colour = RUN_COLOURS[index % len(RUN_COLOURS)]
    return {"shape": "hv", "width": 2, "color": colour, "dash": DASHES[item.profile.kind]}


def named(item: LabelledProfile) -> str:
    kind = item.profile.kind
    return html_text(item.label if kind in item.label else f"{item.label} ({kind})", _LABEL)


def label_in_template(label: str) -> str:
    """A label in a hover template, which would put values in the place of ``%{...}``."""
    return html_text(label, _LABEL).replace("%{", "% {")


def time_scale_of(profiles: Sequence[LabelledProfile]) -> Scale:
    return time_scale(max(span_ns(p.profile) for p in profiles))


def time_axis(profiles: Sequence[LabelledProfile], time: Scale) -> _Figure:
    """The same range in all charts along time, so that they stand exactly above each other."""
    longest = max(span_ns(p.profile) for p in profiles) / time.divisor
    return {"title": {"text": f"time in the step ({time.unit})"}, "range": [0, longest * 1.01]}


def span_ns(profile: Profile) -> int:
    return int(profile.steps.step_ns[profile.median_step])
