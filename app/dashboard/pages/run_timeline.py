"""The timeline: memory curve above, Gantt lanes below, one time axis, and the whole step below both."""

from __future__ import annotations

from typing import Any, Literal

import dash
import dash_mantine_components as dmc
from dash import ClientsideFunction, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.icons import icon
from app.dashboard.pages import zooms
from app.dashboard.pages.run_selection import selection_panel
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.state import State
from app.dashboard.views import overview, pointing
from app.dashboard.views.address import Shown, query_of
from app.dashboard.views.marks import cursor_shape
from app.dashboard.views.memory_traces import (
    GROUPING_TITLES,
    RESERVED_COLOUR,
    TOTAL_COLOUR,
    group_legend,
)
from app.dashboard.views.step import RunView
from app.dashboard.views.timeline import Timeline, data_changes, detail_words, figure
from db.queries import RunRow
from profiles.plain import visible
from profiles.stacks import Grouping

LEGEND_LETTERS = 40
BY = Given("run-by", "value")
PICKED = Given("run-picked", "data")
HINT = "Drag to zoom, double-click for the whole step, click anything for details. Press ? for the keys."
HINT_ALL = "All recorded steps, one after the other. Drag to zoom, click into a step to open it. Press ? for the keys."


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Output("run-window", "data"),
        Output("run-drawn", "children", allow_duplicate=True),
        Output("run-selection", "data", allow_duplicate=True),
        zooms.zoomed("run-timeline"),
        RUN,
        SHOW,
        BY,
        PICKED,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, run: dict[str, Any], show: str, by: Grouping, picked: Any) -> Any:
        shown = shown_timeline(shared, run, show, by, picked)
        window, selected = pointing.zoom_window(change, shown.end_ns), pointing.selected_window(change, shown.end_ns)
        if window is None:
            return dash.no_update, dash.no_update, dash.no_update, selected or dash.no_update
        return _changed(shown, window), window, detail_words(shown, window), dash.no_update

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-picked", "data"),
        Given("run-window", "data"),
        RUN,
        SHOW,
        BY,
        prevent_initial_call=True,
    )
    def mark_picked(picked: Any, window: list[int] | None, run: dict[str, Any], show: str, by: Grouping) -> Any:
        shown = shown_timeline(shared, run, show, by, picked)
        return _changed(shown, (window[0], window[1]) if window else shown.whole())

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Output("run-timeline", "style"),
        Output("run-window", "data", allow_duplicate=True),
        Output("run-drawn", "children", allow_duplicate=True),
        Output("run-legend", "children"),
        Output("run-overview", "src"),
        Input("run-show", "value"),
        Input("run-by", "value"),
        Input("run-target", "data"),
        Input("run-whole", "n_clicks"),
        Given("run-window", "data"),
        Given("run-cursor", "data"),
        Given("run-selection", "data"),
        Given("run-mode", "value"),
        RUN,
        PICKED,
        prevent_initial_call=True,
    )
    def redraw(show: str, by: Grouping, target: Any, _: int | None, window: Any, cursor: int, *rest: Any) -> Any:
        selected, mode, run, picked = rest
        shown = shown_timeline(shared, run, show, by, picked)
        if ctx.triggered_id == "run-target" and target:
            window = target
        elif ctx.triggered_id == "run-whole":
            window = None
        chosen = (window[0], window[1]) if window else shown.whole()
        drawn = figure(shown, chosen, cursor, selected, mode)
        # Another revision, so that the browser takes this range instead of the one the user left.
        drawn["layout"]["uirevision"] = f"{show} {chosen}"
        whole = overview.picture(shown) if ctx.triggered_id == "run-show" else dash.no_update
        return drawn, {"height": shown.height}, window, detail_words(shown, chosen), legend(shown), whole

    @app.callback(
        Output("run-cursor", "data", allow_duplicate=True),
        Output("run-picked", "data", allow_duplicate=True),
        Output("run-go", "data", allow_duplicate=True),
        Input("run-timeline", "clickData"),
        RUN,
        SHOW,
        BY,
        prevent_initial_call=True,
    )
    def point(click: dict[str, Any] | None, run: dict[str, Any], show: str, by: Grouping) -> Any:
        shown = shown_timeline(shared, run, show)
        item = pointing.clicked_item(click) or pointing.item_under(click, shown)
        time = pointing.clicked_time(click)
        if isinstance(shown.main, RunView):
            if time is None:
                return dash.no_update, dash.no_update, dash.no_update
            step, at = shown.main.step_at(time)
            return dash.no_update, dash.no_update, f"/run/{run['id']}{query_of(Shown(step, None, by, None, item, at))}"
        return (
            dash.no_update if time is None else min(max(time, 0), shown.end_ns - 1),
            dash.no_update if item is None else {"kind": item[0], "id": item[1]},
            dash.no_update,
        )

    @app.callback(
        Output("run-timeline", "figure", allow_duplicate=True),
        Input("run-cursor", "data"),
        prevent_initial_call=True,
    )
    def move_cursor(cursor: int) -> Any:
        patch = dash.Patch()
        patch["layout"]["shapes"][0] = cursor_shape(cursor)
        return patch

    @app.callback(
        Output("run-go", "data", allow_duplicate=True),
        Input("run-step", "value"),
        RUN,
        SHOW,
        BY,
        prevent_initial_call=True,
    )
    def open_step(value: str | None, run: dict[str, Any], show: Any, by: Grouping) -> Any:
        if value is None or value == str(run["step"]):
            return dash.no_update
        kept = None if show == run["kind"] or value == "all" else show
        return f"/run/{run['id']}{query_of(Shown('all' if value == 'all' else int(value), kept, by))}"

    @app.callback(
        Output("run-query", "data"),
        Input("run-show", "value"),
        Input("run-by", "value"),
        Input("run-window", "data"),
        Input("run-picked", "data"),
        Input("run-cursor", "data"),
        Input("run-selection", "data"),
        RUN,
        prevent_initial_call=True,
    )
    def name_address(show: Any, by: Grouping, window: Any, picked: Any, cursor: int, selected: Any, run: Any) -> str:
        return query_of(
            Shown(
                step=run["step"] if run["numbered"] else None,
                show=None if show == run["kind"] else show,
                by=by,
                window=window,
                picked=None if picked in (None, run["picked"]) else (picked["kind"], picked["id"]),
                at=None if cursor == run["peak_ns"] else cursor,
                selected=selected,
            )
        )

    # Output of a component beside their input: a callback whose output lies elsewhere is called when its input appears.
    app.clientside_callback(
        ClientsideFunction("run", "go"),
        Output("address", "href", allow_duplicate=True),
        Input("run-go", "data"),
        prevent_initial_call=True,
    )

    # Replaces the address without telling dcc.Location, which would make the page anew.
    app.clientside_callback(
        ClientsideFunction("run", "replace_query"),
        Output("run-query", "id"),
        Input("run-query", "data"),
        prevent_initial_call=True,
    )


def panel(run: RunRow, timeline: Timeline, step: int | Literal["all"], shown: Shown) -> Any:
    """``shown.window`` and ``shown.at`` are what is drawn first."""
    choices = [{"value": "all", "label": "All steps"}]
    choices += [{"value": str(i), "label": f"Step {i + 1}"} for i in range(run.step_count)]
    shows = [{"value": m, "label": m.title()} for m in ("measured", "predicted", "both")]
    groupings = [{"value": by, "label": f"By {title}"} for by, title in GROUPING_TITLES.items()]
    modes = [{"value": m, "label": m.title()} for m in ("zoom", "select")]
    tools = [
        dmc.Select(
            id="run-step",
            data=choices,
            value=str(step),
            allowDeselect=False,
            size="xs",
            w=110,
            display=None if run.step_count > 1 else "none",
            **{"aria-label": "Step"},
        ),
        dmc.SegmentedControl(
            id="run-show",
            data=shows,
            value=shown.show or run.kind,
            size="xs",
            display=None if run.kind == "measured" and step != "all" else "none",
        ),
        dmc.Select(
            id="run-by",
            data=groupings,
            value=shown.by,
            allowDeselect=False,
            size="xs",
            w=104,
            **{"aria-label": "How the memory is split"},
        ),
        dmc.SegmentedControl(id="run-mode", data=modes, value="zoom", size="xs", **{"aria-label": "A drag"}),
        dmc.Button("Whole step", id="run-whole", size="xs", variant="default", leftSection=icon("zoom", 14)),
    ]
    window = shown.window or timeline.whole()
    return parts.panel(
        "Timeline",
        [
            html.Div(legend(timeline), className="legend", id="run-legend"),
            dcc.Graph(
                id="run-timeline",
                className=zooms.WATCHED,
                figure=figure(timeline, window, shown.at, shown.selected),
                config=theme.GRAPH_CONFIG,
                style={"height": timeline.height},
            ),
            html.Div(
                [
                    html.Img(id="run-overview", src=overview.picture(timeline), alt="Memory over the whole step"),
                    html.Div(className="brush", id="run-brush"),
                ],
                className="overview",
            ),
            html.Div(detail_words(timeline, window), id="run-drawn", className="hint"),
            html.Div(
                selection_panel(timeline.main, shown.selected) if shown.selected else None,
                id="run-selected",
                **{"aria-live": "polite"},
            ),
            dcc.Store(id="run-query"),
            dcc.Store(id="run-go"),
            zooms.store("run-timeline"),
        ],
        hint=HINT if step != "all" else HINT_ALL,
        tools=dmc.Group(tools, gap="xs"),
    )


def legend(timeline: Timeline) -> list[Any]:
    def line(colour: str, style: str, title: str) -> Any:
        return html.Span([html.I(className="key", style={"borderTopColor": colour, "borderTopStyle": style}), title])

    stack = timeline.main.stack(timeline.by)
    lanes = (
        (theme.COMPUTE, "Compute"),
        (theme.COPY_IN, "Copy in"),
        (theme.COPY_OUT, "Copy out"),
        (theme.EXPOSED, "Exposed"),
        (theme.BLOCKING, "Blocking"),
    )
    return [
        *(
            html.Span([parts.swatch(c), visible(title, LEGEND_LETTERS)])
            for c, title in group_legend(timeline.by, stack)
        ),
        line(TOTAL_COLOUR, "solid", "Live"),
        line("var(--ink)", "dotted", "Theoretical"),
        line(RESERVED_COLOUR, "dashed", "Reserved"),
        html.Span(className="legend-gap"),
        *(html.Span([parts.swatch(colour), title]) for colour, title in lanes),
    ]


def _changed(shown: Timeline, window: tuple[int, int]) -> dash.Patch:
    """The data of every trace for another window."""
    patch = dash.Patch()
    for trace, key, value in data_changes(shown, window):
        patch["data"][trace][key] = value
    return patch
