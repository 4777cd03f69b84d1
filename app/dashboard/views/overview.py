"""The whole step as a small curve; the page's brush over it shows and moves the window of the chart above."""

from __future__ import annotations

from typing import Any

from app.dashboard import theme
from app.dashboard.views.lane_traces import faded, packed
from app.dashboard.views.lanes import MS
from app.dashboard.views.timeline import Timeline

HEIGHT = 54
BINS = 400


def figure(timeline: Timeline) -> dict[str, Any]:
    """Drawn without axes over exactly the width of the chart above it."""
    live = timeline.main.live
    times = live.kept(0, timeline.end_ns, BINS)
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "x": packed(times / MS),
                "y": packed(live.at(times) / 1.0),
                "line": {"shape": "hv", "width": 1, "color": theme.COMPUTE, "simplify": False},
                "fill": "tozeroy",
                "fillcolor": faded(theme.COMPUTE, 0.35),
                "hoverinfo": "skip",
            }
        ],
        "layout": {
            **theme.figure_layout(HEIGHT),
            "margin": {"l": 64, "r": 16, "t": 2, "b": 2},
            "dragmode": False,
            "xaxis": theme.axis(range=[0, timeline.end_ns / MS], visible=False, fixedrange=True),
            "yaxis": theme.axis(range=[0, timeline.main.peak[1] * 1.05 or 1], visible=False, fixedrange=True),
        },
    }
