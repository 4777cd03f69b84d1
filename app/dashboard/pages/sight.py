"""Charts far below on a page: drawn when they come into sight, and again for another window when they are in sight.

A chart that nobody sees would cost each zoom of the charts that are seen. What the browser does is in assets/sight.js.
"""

from __future__ import annotations

from typing import Any

import dash
from dash import ClientsideFunction, Input, Output, dcc
from dash import State as Given

WATCHED = "in-sight"
"""Class of the charts that are watched."""


def stores(chart: str) -> list[Any]:
    """Whether the chart was seen, and the window it was last asked to show; they belong beside it."""
    return [dcc.Store(id=f"{chart}-seen"), dcc.Store(id=f"{chart}-window")]


def follow(app: dash.Dash, chart: str, window: str) -> None:
    """Let the chart follow the window in the store ``window`` whenever it is in sight."""
    app.clientside_callback(
        ClientsideFunction("sight", "follow"),
        Output(f"{chart}-window", "data"),
        Input(window, "data"),
        Input(f"{chart}-seen", "data"),
        Given(f"{chart}-window", "data"),
        Given(chart, "id"),
    )


def seen_window(chart: str) -> Input:
    """{"window": (start, end) in ns or None for all}; None before the chart was seen."""
    return Input(f"{chart}-window", "data")
