"""Compare two to eight runs: verdict, overlaid curves, Gantt charts on one axis, tables of differences, exports."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.pages.compare_tables import numbers_table, ops_grid, storages_grid, transfers_grid
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.runs import MOST_COMPARED
from app.dashboard.state import State, current_state
from app.dashboard.views import pointing
from app.dashboard.views.comparing import Compared, colour_of, data_changes, figure
from app.dashboard.views.runs import run_name, runs_asked
from app.recorded import load_labelled
from db.queries import RunRow, get_run, list_runs
from profiles.compare import LabelledProfile, compare
from profiles.export import comparison_bytes

FORMATS = (("html", "HTML report"), ("csv", "CSV"), ("json", "JSON"))


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/compare", title="Compare · HyperOffload", layout=guarded(layout))

    @app.callback(
        Output("address", "href", allow_duplicate=True),
        Input("compare-runs", "value"),
        Input("compare-baseline", "value"),
        Given("compare", "data"),
        prevent_initial_call=True,
    )
    def choose(runs: list[str], baseline: str | None, shown: dict[str, Any]) -> Any:
        ids = [int(run) for run in runs or ()]
        first = int(baseline) if baseline and int(baseline) in ids else (ids[0] if ids else None)
        if ids == shown["runs"] and first == shown["baseline"]:
            return dash.no_update
        return address(ids, first)

    @app.callback(
        Output("compare-timeline", "figure"),
        Input("compare-timeline", "relayoutData"),
        Given("compare", "data"),
        prevent_initial_call=True,
    )
    def zoom(change: dict[str, Any] | None, shown: dict[str, Any]) -> Any:
        compared = _compared(shared, shown["runs"])
        window = pointing.zoom_window(change, compared.end_ns)
        if window is None:
            return dash.no_update
        patch = dash.Patch()
        for trace, key, value in data_changes(compared, window):
            patch["data"][trace][key] = value
        return patch

    @app.callback(
        Output("compare-download", "data"),
        Input({"export": ALL}, "n_clicks"),
        Given("compare", "data"),
        prevent_initial_call=True,
    )
    def export(clicks: list[int | None], shown: dict[str, Any]) -> Any:
        if not any(clicks) or not isinstance(ctx.triggered_id, dict):
            return dash.no_update
        suffix = ctx.triggered_id["export"]
        baseline = shown["runs"].index(shown["baseline"])
        data = comparison_bytes(_labelled(shared, shown["runs"]), f".{suffix}", baseline)
        return dcc.send_bytes(data, f"hyperoffload-compare-{'-'.join(map(str, shown['runs']))}.{suffix}")


def layout(runs: str = "", baseline: str = "", **_: str) -> Any:
    state = current_state()
    known = list_runs(state.database)
    by_id = {run.id: run for run in known}
    ids, wrong = runs_asked(runs, by_id, MOST_COMPARED)
    first = int(baseline) if baseline.isdecimal() and int(baseline) in ids else (ids[0] if ids else None)
    shown = [by_id[i] for i in ids]
    notices = [parts.notice("warn", text, "alert") for text in wrong]
    base = [
        dcc.Store(id="compare", data={"runs": ids, "baseline": first}),
        dcc.Download(id="compare-download"),
        parts.head("Compare", None, _tools(len(ids) > 1)),
        *notices,
        _choice(known, ids, first),
    ]
    if len(ids) < 2:
        return html.Div([*base, _too_few(known, ids)])
    labelled = _labelled(state, ids)
    comparison = compare(labelled, ids.index(first) if first in ids else 0)
    compared = _compared(state, ids)
    tabs = (
        ("Storages", len(comparison.storages), storages_grid(comparison)),
        ("Transfers", len(comparison.transfers), transfers_grid(comparison)),
        ("Ops", len(comparison.ops), ops_grid(comparison)),
    )
    return html.Div(
        [
            *base,
            parts.panel("Verdict", html.Div(comparison.verdict, className="verdict", id="compare-verdict")),
            parts.panel(
                "Numbers",
                numbers_table(comparison),
                hint=f"Differences are to {comparison.sides[comparison.baseline].label}.",
            ),
            parts.panel(
                "Timelines",
                [
                    _legend(shown),
                    dcc.Graph(
                        id="compare-timeline",
                        figure=figure(compared, (0, compared.end_ns)),
                        config=theme.GRAPH_CONFIG,
                        style={"height": compared.height},
                    ),
                ],
                hint="Median step of each run. Drag to zoom, double-click for all of it. Keys: W S zoom, A D move.",
            ),
            parts.panel(
                "Differences",
                dmc.Tabs(
                    [
                        dmc.TabsList([dmc.TabsTab(f"{title} ({count})", value=title) for title, count, _ in tabs]),
                        *(dmc.TabsPanel(content, value=title, pt="sm") for title, _, content in tabs),
                    ],
                    value="Storages",
                ),
                hint="Storages and transfers that are not treated alike; ops by the largest difference of duration.",
            ),
        ]
    )


def address(ids: list[int], baseline: int | None) -> str:
    suffix = f"&baseline={baseline}" if baseline is not None and ids and baseline != ids[0] else ""
    return "/compare" + (f"?runs={','.join(map(str, ids))}{suffix}" if ids else "")


def _tools(enabled: bool) -> list[Any]:
    return [parts.button(title, {"export": suffix}, "download", disabled=not enabled) for suffix, title in FORMATS]


def _choice(known: list[RunRow], ids: list[int], baseline: int | None) -> Any:
    usable = [{"value": str(r.id), "label": f"{run_name(r)} · {r.kind}"} for r in known if r.step_count]
    chosen = [option for option in usable if int(option["value"]) in ids]
    return html.Section(
        html.Div(
            [
                dmc.MultiSelect(
                    id="compare-runs",
                    label="Runs",
                    data=usable,
                    value=[str(i) for i in ids],
                    maxValues=MOST_COMPARED,
                    searchable=True,
                    clearable=True,
                    placeholder="Add a run" if len(ids) < MOST_COMPARED else "",
                    debounce=400,
                ),
                dmc.Select(
                    id="compare-baseline",
                    label="Baseline",
                    data=chosen,
                    value=None if baseline is None else str(baseline),
                    allowDeselect=False,
                    disabled=len(ids) < 2,
                ),
            ],
            className="choice",
        ),
        className="panel",
        style={"marginBottom": 16},
    )


def _too_few(known: list[RunRow], ids: list[int]) -> Any:
    if len([r for r in known if r.step_count]) < 2:
        return parts.state(
            "compare",
            "There are not two runs to compare",
            "The demo records several within two minutes; tuning a run makes another one.",
            parts.command("hyperoffload demo"),
            parts.link_button("All runs", "/", "runs", "filled"),
        )
    what = "one more run" if ids else "two runs or more"
    return parts.state(
        "compare",
        f"Choose {what}",
        "Add runs above, or tick them in the list of runs. Predicted and measured runs compare with each other.",
        parts.link_button("All runs", "/", "runs", "filled"),
    )


def _legend(shown: list[RunRow]) -> Any:
    keys = [
        html.Span(
            [
                html.I(
                    className="key",
                    style={"borderColor": colour_of(i), "borderTopStyle": _css_dash(theme.RUN_DASHES[i])},
                ),
                f"{run_name(run)} ({run.kind})",
            ]
        )
        for i, run in enumerate(shown)
    ]
    return html.Div(keys, className="legend")


def _css_dash(dash_name: str) -> str:
    return {"solid": "solid", "dot": "dotted"}.get(dash_name, "dashed")


def _labelled(state: State, ids: list[int]) -> list[LabelledProfile]:
    return [load_labelled(state.database, str(i)) for i in ids]


def _compared(state: State, ids: list[int]) -> Compared:
    names = tuple(run_name(get_run(state.database, i)) for i in ids)
    return Compared(names, tuple(state.step(i) for i in ids))
