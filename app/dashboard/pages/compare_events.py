"""What happens on the compare page: another set of runs, another axis, a zoom, another table, a download."""

from __future__ import annotations

from typing import Any

import dash
from dash import ALL, ClientsideFunction, Input, Output, ctx, dcc
from dash import State as Given

from app.dashboard.pages import zooms
from app.dashboard.pages.compare_tables import table_of
from app.dashboard.pages.compared import LABEL, compared_of, comparison_of, labelled_of
from app.dashboard.state import State
from app.dashboard.views import comparing, comparing_ops, pointing
from app.dashboard.views.comparing_address import CompareAsked, asked_for
from app.dashboard.views.runs import run_name
from db.queries import RunFilter, list_runs
from db.run_filter import SearchError
from profiles.export import comparison_bytes
from profiles.plain import visible

MOST_OFFERED = 100
_ASKED = Given("compare", "data")


def register(app: dash.Dash, shared: State) -> None:
    # In the browser, which knows at once what was chosen before: a page of eight runs takes a while to come.
    app.clientside_callback(
        ClientsideFunction("compare", "choose"),
        Output("address", "href", allow_duplicate=True),
        Input("compare-runs", "value"),
        Input("compare-baseline", "value"),
        Input({"compare-base": ALL}, "n_clicks"),
        Input({"compare-remove": ALL}, "n_clicks"),
        _ASKED,
        prevent_initial_call=True,
    )

    @app.callback(
        Output("compare-runs", "data"),
        Input("compare-runs", "searchValue"),
        Given("compare-runs", "value"),
        Given("compare-runs", "data"),
        prevent_initial_call=True,
    )
    def offer(text: str | None, chosen: list[str], known: list[dict[str, str]]) -> Any:
        kept = [option for option in known if option["value"] in (chosen or ())]
        try:
            found = offered(shared, text or "")
        except SearchError:
            # Half a search is typed: what was offered stays.
            return dash.no_update
        return [*kept, *(option for option in found if option not in kept)]

    @app.callback(
        Output("compare-timeline", "figure"),
        Output("compare-timeline", "style"),
        Output("compare-axis-hint", "children"),
        Input("compare-axis", "value"),
        _ASKED,
        prevent_initial_call=True,
    )
    def turn(axis: str, data: dict[str, Any]) -> Any:
        figure, height = chart(shared, asked_for(data["runs"], data["baseline"], None, axis, None))
        return figure, {"height": height}, AXIS_HINTS[axis]

    @app.callback(
        Output("compare-timeline", "figure", allow_duplicate=True),
        zooms.zoomed("compare-timeline"),
        Given("compare-axis", "value"),
        _ASKED,
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, axis: str, data: dict[str, Any]) -> Any:
        compared = compared_of(shared, _asked(data))
        if axis == "op":
            places = comparing_ops.asked_window(change, compared)
            changes = None if places is None else comparing_ops.data_changes(compared, places)
        else:
            window = pointing.zoom_window(change, compared.end_ns)
            changes = None if window is None else comparing.data_changes(compared, window)
        if changes is None:
            return dash.no_update
        patch = dash.Patch()
        for trace, key, value in changes:
            patch["data"][trace][key] = value
        return patch

    @app.callback(
        Output("compare-content", "children"),
        Output("compare-by-choice", "style"),
        Input("compare-tab", "value"),
        Input("compare-by", "value"),
        Given("compare-filter", "value"),
        _ASKED,
    )
    def show(tab: str, by: str, search: str | None, data: dict[str, Any]) -> Any:
        asked = asked_for(data["runs"], data["baseline"], tab, None, by)
        content = table_of(comparison_of(shared, asked), asked.tab, asked.by, search or "")
        return content, {} if asked.tab == "time" else {"visibility": "hidden"}

    @app.callback(
        Output("compare-download", "data"),
        Input({"export": ALL}, "n_clicks"),
        _ASKED,
        prevent_initial_call=True,
    )
    def export(clicks: list[int | None], data: dict[str, Any]) -> Any:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            return dash.no_update
        asked, suffix = _asked(data), ctx.triggered_id["export"]
        content = comparison_bytes(labelled_of(shared, asked), f".{suffix}", asked.place)
        return dcc.send_bytes(content, f"{file_name(asked)}.{suffix}")

    app.clientside_callback(
        ClientsideFunction("compare", "remember"),
        Input("compare-tab", "value"),
        Input("compare-axis", "value"),
        Input("compare-by", "value"),
        _ASKED,
        prevent_initial_call=True,
    )
    app.clientside_callback(
        ClientsideFunction("compare", "filter"), Input("compare-filter", "value"), prevent_initial_call=True
    )


AXIS_HINTS = {
    "time": "Median step of each run. Drag to zoom, double-click for all of it. Keys: W S zoom, A D move.",
    "op": "Each op stands over the same op of the other runs: the most the device holds while it runs, the lanes, and "
    "how much later than in the baseline it ends. Every op is as wide as any other; copies lie beside the ops they run "
    "with. What a run moves elsewhere stands where it runs.",
}


def chart(state: State, asked: CompareAsked) -> tuple[dict[str, Any], int]:
    """The whole chart on the axis asked for, and its height in pixels."""
    compared = compared_of(state, asked)
    if asked.axis == "op":
        return comparing_ops.figure(compared, comparing_ops.whole(compared)), comparing_ops.height(compared)
    return comparing.figure(compared, (0, compared.end_ns)), compared.height


def offered(state: State, text: str) -> list[dict[str, str]]:
    """Runs that can be added: the newest that match what is typed. Raises `SearchError` for what cannot be read."""
    runs = list_runs(state.database, RunFilter(search=text), limit=MOST_OFFERED)
    return [{"value": str(r.id), "label": visible(f"{run_name(r)} · {r.kind}", LABEL)} for r in runs if r.step_count]


def file_name(asked: CompareAsked) -> str:
    return f"hyperoffload-compare-{'-'.join(map(str, asked.runs))}"


def _asked(data: dict[str, Any]) -> CompareAsked:
    return asked_for(data["runs"], data["baseline"], None, None, None)
