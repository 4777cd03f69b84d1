"""Zooms and selections of a chart, each of which reaches its callback.

Of a chart's `relayoutData` a callback gets the newest only, and Dash drops the answer to the one before: a chart that
is being drawn, or gets another size, tells of that in the same way, and a zoom just before would be lost. So the
browser puts what a person did into a store of its own (assets/zooms.js).
"""

from __future__ import annotations

from typing import Any

from dash import Input, dcc

WATCHED = "zooms"
"""Class of the charts that have such a store."""


def store(chart: str) -> Any:
    """Holds the newest zoom or selection of the chart; belongs beside it."""
    return dcc.Store(id=f"{chart}-zoom")


def zoomed(chart: str) -> Input:
    """A relayout event of the chart: its changed properties by name."""
    return Input(f"{chart}-zoom", "data")
