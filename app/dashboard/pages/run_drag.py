"""A Prefetch that is to start earlier becomes a rule of the policy: dragged with Shift on the timeline
(assets/drag.js), or by its number with the keyboard. What comes of it shows on the Tune page."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, dcc, html
from dash import State as Given

from app.dashboard.icons import icon
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.clipping import clipped
from app.dashboard.views.dragging import Drag, dragged, earlier_address, prefetched_name

NANOSECONDS = 1_000_000
# A thousand hours: longer than any step, and far below what an integer of SQLite or a number of a browser holds.
LONGEST_MS = 3_600_000_000


def panel() -> Any:
    return html.Div(
        [
            dcc.Store(id="run-drag"),
            html.Span(id="run-earlier-name"),
            dmc.NumberInput(
                id="run-earlier-ms",
                value=1,
                min=0.001,
                clampBehavior="none",
                step=0.5,
                decimalScale=3,
                size="xs",
                w=92,
                **{"aria-label": "How many ms earlier the picked prefetch starts"},
            ),
            html.Span("ms earlier"),
            dmc.Button("Try it", id="run-earlier-go", size="xs", variant="light", leftSection=icon("tune", 14)),
            html.Span("or hold Shift and drag its bar to the left", className="hint"),
            html.Span(id="run-drag-words", className="drag-words", role="status"),
        ],
        id="run-earlier",
        className="earlier",
        hidden=True,
    )


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-earlier", "hidden"),
        Output("run-earlier-name", "children"),
        Output("run-drag-words", "children"),
        Input("run-picked", "data"),
        RUN,
        SHOW,
    )
    def offer(picked: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        name = _picked_name(picked, run, show)
        if name is None:
            return True, None, None
        return False, ["Start the prefetch of ", html.Strong(clipped(name), title=name[:300])], None

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Output("run-earlier-ms", "error"),
        Input("run-earlier-go", "n_clicks"),
        Given("run-earlier-ms", "value"),
        Given("run-picked", "data"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def try_number(clicks: int | None, by_ms: Any, picked: Any, run: dict[str, Any], show: str) -> Any:
        name = _picked_name(picked, run, show)
        if not clicks or name is None:
            return dash.no_update, None
        if isinstance(by_ms, bool) or not isinstance(by_ms, int | float) or not 0 < by_ms <= LONGEST_MS:
            return dash.no_update, "write how many ms"
        return earlier_address(run["id"], Drag(name, max(1, round(by_ms * NANOSECONDS)))), None

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Output("run-earlier", "hidden", allow_duplicate=True),
        Output("run-drag-words", "children", allow_duplicate=True),
        Input("run-drag", "data"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def drop(drag: dict[str, Any] | None, run: dict[str, Any], show: str) -> Any:
        if not drag:
            return dash.no_update, dash.no_update, dash.no_update
        found = dragged(shown_timeline(shared, run, show), drag)
        if isinstance(found, str):
            return dash.no_update, False, found
        return earlier_address(run["id"], found), dash.no_update, dash.no_update

    def _picked_name(picked: dict[str, Any] | None, run: dict[str, Any], show: str) -> str | None:
        if not picked:
            return None
        schedule = shown_timeline(shared, run, show).main.profile.schedule
        return prefetched_name(schedule, picked["kind"], picked["id"])
