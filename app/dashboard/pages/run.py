"""One run: its numbers, the timeline, who holds the memory, which transfers cost time, and details of anything."""

from __future__ import annotations

from typing import Any

import dash
from dash import dcc, html

from app.dashboard import parts
from app.dashboard.pages import run_events
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.run_parts import blank_details, timeline_panel, transfers_panel
from app.dashboard.state import State, current_state
from app.dashboard.views.numbers import run_numbers
from app.dashboard.views.runs import STATUS_TONES, run_conditions, run_name, when
from app.dashboard.views.step import StepView
from db.database import DatabaseError
from db.queries import RunRow, get_run, median_step
from profiles.alive import alive_at


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path_template="/run/<run_id>", title="Run · HyperOffload", layout=guarded(layout))
    run_events.register(app, shared)


def layout(run_id: str = "", step: str = "", **_: str) -> Any:
    state = current_state()
    try:
        run = get_run(state.database, int(run_id) if run_id.isdecimal() else -1)
    except DatabaseError:
        return _unknown(run_id)
    if not run.step_count:
        return html.Div([_head(run), _notice(run), _no_steps()])
    number = int(step) if step.isdecimal() and int(step) < run.step_count else median_step(state.database, run.id)
    view = state.step(run.id, number)
    peak_ns = view.curve.peak[0]
    prediction = state.prediction(run.id).profile if run.kind == "measured" else None
    return html.Div(
        [
            dcc.Store(id="run", data={"id": run.id, "step": number, "kind": run.kind}),
            dcc.Store(id="run-cursor", data=peak_ns),
            dcc.Store(id="run-picked", data=_first_pick(view)),
            dcc.Store(id="run-target"),
            dcc.Store(id="run-window"),
            dcc.Download(id="run-download"),
            _head(run),
            _notice(run),
            parts.cards(run_numbers(run, view.curve.peak[1], prediction)),
            timeline_panel(run, view, number),
            html.Div(
                [
                    html.Section(id="run-alive", className="panel", **{"aria-live": "polite"}),
                    html.Section(blank_details(), id="run-details", className="panel", **{"aria-live": "polite"}),
                ],
                className="columns",
            ),
            transfers_panel(view),
        ]
    )


def _first_pick(view: StepView) -> dict[str, Any] | None:
    """What to explain before anything is clicked: the worst stall, else the largest storage at the peak."""
    worst = max(view.verdicts.values(), key=lambda v: v.blocking_ns, default=None)
    if worst is not None and worst.blocking_ns:
        return {"kind": "transfer", "id": worst.transfer}
    largest = next((a for a in alive_at(view.profile, view.curve.peak[0], view.step) if a.storage is not None), None)
    return None if largest is None else {"kind": "storage", "id": largest.storage}


def _head(run: RunRow) -> Any:
    tags = html.Span(
        [parts.tag(run.kind, run.kind), " ", parts.tag(run.status, STATUS_TONES.get(run.status, ""))], className="tags"
    )
    tools = [
        parts.button("Export trace", "run-export", "trace"),
        parts.link_button("Compare", f"/compare?runs={run.id}", "compare"),
        parts.link_button("Tune", f"/tune/{run.id}", "tune", "filled"),
    ]
    sub = " · ".join(part for part in (run_conditions(run), run.conditions) if part)
    tools = tools if run.step_count else []
    return parts.head(
        [run_name(run), " ", tags], sub, tools, [dcc.Link("Runs", href="/"), f" / {run.id} · {when(run.created)}"]
    )


def _notice(run: RunRow) -> Any:
    reason = run.reason or "no reason was recorded"
    if run.status == "incomplete":
        return parts.notice("warn", f"This run is incomplete: {reason}. What it recorded before is shown.", "alert")
    if run.status == "failed":
        return parts.notice("bad", f"This run failed: {reason}.", "alert")
    if run.status == "cancelled":
        return parts.notice("warn", f"This run was cancelled: {reason}.")
    if run.status == "running":
        return parts.notice("info", "This run is being recorded; reload the page for the steps recorded meanwhile.")
    return None


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
