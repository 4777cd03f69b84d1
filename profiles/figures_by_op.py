"""Charts of reports along aligned ops instead of time (`profiles.by_op`), as plotly.js figures in plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from profiles.by_op import by_op
from profiles.comparison import LabelledProfile
from profiles.figures import CONFIG, label_in_template, named, run_line, size_scale, time_scale
from profiles.figures_lanes import op_lanes_figure
from profiles.series import MemoryCurve, downsample

_BINS = 1200
_Figure = dict[str, Any]
Column = NDArray[np.int64]


def op_figures(profiles: Sequence[LabelledProfile], baseline: int) -> dict[str, _Figure]:
    """Three charts on one axis of ops, in the order of the baseline: device memory while each op runs
    (``memory_by_op``), compute and copies with each op a bar of one width (``lanes_by_op``), and how much later than in
    the baseline each op ends (``behind_by_op``, empty where no profile shares an op)."""
    aligned = by_op([p.profile for p in profiles], baseline)
    size = size_scale(max((int(c.bytes.max(initial=1)) for c in aligned.courses), default=1))
    late = time_scale(max((int(np.abs(c.behind_ns).max(initial=1)) for c in aligned.courses), default=1))
    memory, behind = [], []
    for index, (item, course) in enumerate(zip(profiles, aligned.courses, strict=True)):
        line, label = run_line(item, index), label_in_template(item.label)
        memory.append(
            _line(course.place, course.bytes, size.divisor, line, named(item), f"{label}: %{{y:.4g}} {size.unit}")
        )
        if index != baseline:
            text = f"{label}: %{{y:+.4g}} {late.unit} against {label_in_template(profiles[baseline].label)}"
            place = course.place[course.shared]
            behind.append(_line(place, course.behind_ns, late.divisor, line, named(item), text))
    axis = {
        "title": {"text": f"op, in the order of {named(profiles[baseline])}, with what others run in between"},
        # Room for what runs before the first op and after the last.
        "range": [-1.5, max(len(aligned.order) - 1, 1) + 1.5],
    }
    legend = {"orientation": "h", "y": 1.12, "x": 0}
    shared = {"hovermode": "x unified", "xaxis": axis, "legend": legend}
    return {
        "memory_by_op": {
            "data": memory,
            "layout": {
                **shared,
                "height": 320,
                "yaxis": {"title": {"text": f"device memory ({size.unit})"}, "rangemode": "tozero"},
            },
            "config": CONFIG,
            "group": "op",
        },
        "lanes_by_op": op_lanes_figure(profiles, aligned.courses, axis),
        "behind_by_op": {
            "data": behind,
            "layout": {**shared, "height": 260, "yaxis": {"title": {"text": f"behind the baseline ({late.unit})"}}},
            "config": CONFIG,
            "group": "op",
        },
    }


def thinned(place: Column, values: Column, bins: int = _BINS) -> tuple[Column, Column]:
    """At most ``2 * bins + 2`` points, the smallest and the largest of each slice among them."""
    kept = downsample(MemoryCurve(place, ("",), values[None, :]), bins)
    return kept.times_ns, kept.bytes[0]


def _line(place: Column, values: Column, divisor: int, line: _Figure, name: str, hover: str) -> _Figure:
    place, drawn = thinned(place, values)
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": place.tolist(),
        "y": (drawn / divisor).round(6).tolist(),
        "line": line,
        "hovertemplate": f"{hover}<extra></extra>",
    }
