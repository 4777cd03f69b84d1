"""One run: its numbers, the timeline, who holds the memory, which transfers cost time, and details of anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.frozen import frozen
from app.dashboard.pages import (
    run_addresses,
    run_alive,
    run_details,
    run_drag,
    run_search,
    run_selection,
    run_stalls,
    run_steps,
    run_tiers,
    run_timeline,
    run_transfers,
)
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.run_notice import run_notice, run_title
from app.dashboard.pages.run_shown import RUN, SHOW, shown_timeline
from app.dashboard.pages.runs_actions import deleted_page
from app.dashboard.state import State, current_state
from app.dashboard.views.address import Shown, run_number, shown_of
from app.dashboard.views.numbers import run_numbers
from app.dashboard.views.runs import STATUS_TONES, run_conditions, run_name, when
from app.dashboard.views.stalls import highlights
from app.dashboard.views.step import StepView
from db.database import DatabaseError
from db.queries import RunRow, get_run, load_profile, median_step
from db.queries import run_steps as run_steps_of
from profiles.chrome_trace import trace_bytes

# Each is a module with ``panel(...)`` and ``register(app, shared)``.
PANELS = (
    run_timeline,
    run_drag,
    run_selection,
    run_search,
    run_stalls,
    run_alive,
    run_details,
    run_transfers,
    run_tiers,
    run_addresses,
)


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path_template="/run/<run_id>", title=run_title("Run"), layout=guarded(layout))
    for panel in PANELS:
        panel.register(app, shared)

    @app.callback(Output("run-download", "data"), Input("run-export", "n_clicks"), RUN, prevent_initial_call=True)
    def export(clicks: int | None, run: dict[str, Any]) -> Any:
        if not clicks:
            return dash.no_update
        row = get_run(shared.database, run["id"])
        data = trace_bytes(load_profile(shared.database, row.id), row.title, compress=True)
        return dcc.send_bytes(data, f"hyperoffload-run-{row.id}.trace.json.gz")

    @app.callback(
        Output("run-rest", "children"),
        Output("run-search-help", "children"),
        Input("run-drawn-first", "data"),
        Given("run-search", "value"),
        RUN,
        SHOW,
        prevent_initial_call=True,
    )
    def show_rest(_: bool, text: str | None, run: dict[str, Any], show: str) -> Any:
        """What explains the timeline, asked for once it is on the screen (assets/brush.js)."""
        return below(shown_timeline(shared, run, show).main, text or "", run.get("group", "")), run_search.help_text()


def layout(run_id: str = "", **query: str) -> Any:
    state = current_state()
    try:
        run = get_run(state.database, run_number(run_id))
    except DatabaseError:
        return _unknown(run_id)
    if run.deleted is not None:
        return deleted_page(run)
    if not run.step_count:
        return html.Div([_head(run), run_notice(run), _no_steps()])
    asked = shown_of(query)
    if asked.step == "all" and run.step_count > 1:
        return _all_steps(state, run, asked)
    numbered = isinstance(asked.step, int) and asked.step < run.step_count
    step = asked.step if isinstance(asked.step, int) and numbered else median_step(state.database, run.id)
    asked = replace(asked, show=asked.show if run.kind == "measured" else None)
    view = state.step(run.id, step)
    best = highlights(view)
    first = {"kind": best[0].pick[0], "id": best[0].pick[1]} if best else None
    picked = first if asked.picked is None else {"kind": asked.picked[0], "id": asked.picked[1]}
    kept = {"id": run.id, "step": step, "kind": run.kind, "group": query.get("group", "")}
    timeline = shown_timeline(state, kept, asked.show or run.kind, asked.by, picked)
    at = view.peak[0] if asked.at is None else min(asked.at, timeline.end_ns - 1)
    window, selected = _within(asked.window, timeline.end_ns), _within(asked.selected, timeline.end_ns)
    asked = replace(asked, at=at, window=window, selected=selected)
    prediction = state.prediction(run.id).profile if run.kind == "measured" else None
    return html.Div(
        [
            # What the page opens with by itself is not named in its address.
            dcc.Store(id="run", data=kept | {"numbered": numbered, "picked": first, "peak_ns": view.peak[0]}),
            dcc.Store(id="run-cursor", data=at),
            _store("run-picked", picked),
            dcc.Store(id="run-target"),
            _store("run-window", window),
            _store("run-selection", selected),
            dcc.Download(id="run-download"),
            _head(run),
            run_notice(run),
            frozen(parts.cards(run_numbers(run, view.peak[1], prediction))),
            run_search.panel(view, best, query.get("q", "")),
            run_timeline.panel(run, timeline, step, asked),
            dcc.Store(id="run-drawn-first"),
            html.Div(id="run-rest"),
        ]
    )


def below(view: StepView, text: str, group: str) -> list[Any]:
    """All below the timeline; ``text`` is the search in force, ``group`` how what is on the device is grouped."""
    stack = html.Div([run_stalls.panel(), run_alive.panel(group)], className="stack")
    return [
        run_drag.panel(),
        html.Div([stack, run_details.panel()], className="explaining"),
        run_tiers.panel(),
        run_addresses.panel(),
        run_transfers.panel(view, text),
    ]


def _all_steps(state: State, run: RunRow, asked: Shown) -> Any:
    """Every step on one time axis; what explains an op or a transfer is on the page of its step, a click away."""
    kept = {"id": run.id, "step": "all", "kind": run.kind, "numbered": True, "picked": None}
    timeline = shown_timeline(state, kept, run.kind, asked.by)
    window, selected = _within(asked.window, timeline.end_ns), _within(asked.selected, timeline.end_ns)
    peak_ns, peak = timeline.main.peak
    at = peak_ns if asked.at is None else min(asked.at, timeline.end_ns - 1)
    return html.Div(
        [
            dcc.Store(id="run", data=kept | {"peak_ns": peak_ns}),
            dcc.Store(id="run-cursor", data=at),
            dcc.Store(id="run-picked"),
            dcc.Store(id="run-target"),
            _store("run-window", window),
            _store("run-selection", selected),
            dcc.Download(id="run-download"),
            _head(run),
            run_notice(run),
            parts.cards(run_numbers(run, peak, None)),
            run_timeline.panel(run, timeline, "all", replace(asked, at=at, window=window, selected=selected)),
            run_steps.panel(run.id, run_steps_of(state.database, run.id), median_step(state.database, run.id)),
        ]
    )


def _store(identity: str, data: Any) -> dcc.Store:
    """A store that says null when it is made would tell its callbacks of a change at once."""
    return dcc.Store(id=identity) if data is None else dcc.Store(id=identity, data=data)


def _within(span: tuple[int, int] | None, end_ns: int) -> tuple[int, int] | None:
    """The part of a stretch that lies in the step."""
    return None if span is None or span[0] >= end_ns else (span[0], min(span[1], end_ns))


def _head(run: RunRow) -> Any:
    kind, status = parts.tag(run.kind_words, run.kind), parts.tag(run.status, STATUS_TONES.get(run.status, ""))
    tags = html.Span([kind, " ", status], className="tags")
    tools = [
        parts.button("Export trace", "run-export", "trace"),
        parts.link_button("Graph", f"/graph/{run.id}", "graph"),
        parts.link_button("Compare", f"/compare?runs={run.id}", "compare"),
        parts.link_button("Tune", f"/tune/{run.id}", "tune", "filled"),
    ]
    sub = " · ".join(part for part in (run_conditions(run), run.conditions) if part)
    tools = tools if run.step_count else []
    return parts.head(
        [run_name(run), " ", tags], sub, tools, [dcc.Link("Runs", href="/"), f" / {run.id} · {when(run.created)}"]
    )


def _no_steps() -> Any:
    return parts.state(
        "empty",
        "No step was recorded",
        "There is nothing to draw, compare or tune.",
        parts.link_button("All runs", "/", "runs", "filled"),
    )


def _unknown(run_id: str) -> Any:
    return parts.state(
        "empty",
        f"There is no run {run_id[:40]}",
        "It may have been deleted, or the address is of another database.",
        parts.link_button("All runs", "/", "runs", "filled"),
    )
