"""The memory limit against the curve of what strategies are predicted to do under each limit.

The curve's points come from a planner of their own, one after the other, while the page asks for them; the limit is
set by text, by slider or by a click on a point.
"""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.pages import policy_editor
from app.dashboard.state import State
from app.dashboard.views.pareto import HEIGHT, Ground, Mark, pareto, point_rows
from app.dashboard.views.policy import Checked, Draft, limit_percent
from app.dashboard.views.policy import Ground as PolicyGround
from app.planner import Planner, Ticket, ask_of
from app.predicting import sweep_limits, sweep_policies
from db.queries import RunRow, get_run
from hyperoffload_core.policy import policy_from_document
from hyperoffload_core.strategies import STRATEGIES

POLL_MS = 600
EMPTY: dict[str, Any] = {"key": "", "stopped": False}


def panel(draft: Draft, ground: PolicyGround, checked: Checked, run: RunRow) -> Any:
    chosen = list(dict.fromkeys(["hyperoffload", draft.strategy, run.strategy, "reactive"]))
    measure = dmc.SegmentedControl(
        id="tune-measure",
        data=[{"value": "step", "label": "Step time"}, {"value": "memory", "label": "Memory"}],
        value="step",
        size="xs",
    )
    figure = pareto([], _ground(ground, draft.limit), [], "step")
    return parts.panel(
        "Memory limit",
        [
            dcc.Store(id="tune-sweep", data=EMPTY),
            dcc.Interval(id="tune-sweep-poll", interval=POLL_MS, disabled=True),
            html.Div(
                [
                    policy_editor.limit_text(draft, checked),
                    dmc.MultiSelect(
                        id="tune-strategies",
                        label="Strategies in the curve",
                        data=[{"value": s.name, "label": s.name} for s in STRATEGIES.values()],
                        value=chosen,
                        searchable=True,
                        clearable=False,
                        size="xs",
                    ),
                ],
                className="limit-fields",
            ),
            dcc.Graph(
                id="tune-curve",
                figure=figure,
                config={**theme.GRAPH_CONFIG, "displayModeBar": False},
                style={"height": HEIGHT},
            ),
            html.Div(policy_editor.limit_slider(draft, ground, marked=False), className="curve-slider"),
            html.Div(
                [
                    html.Span("", id="tune-sweep-words", className="hint"),
                    dmc.Button("Stop", id="tune-sweep-stop", variant="default", size="compact-xs", display="none"),
                    dmc.Button("Go on", id="tune-sweep-go", variant="default", size="compact-xs", display="none"),
                ],
                className="sweep-line",
                **{"aria-live": "polite"},
            ),
            html.Details([html.Summary("The points as a table"), html.Div(id="tune-points")], id="tune-table"),
        ],
        tools=measure,
    )


def register(app: dash.Dash, shared: State, planner: Planner) -> None:
    @app.callback(
        Output("tune-sweep", "data"),
        Output("tune-sweep-poll", "disabled"),
        Input("policy-valid", "data"),
        Input("tune-hardware-given", "data"),
        Input("tune-strategies", "value"),
        Input("tune-sweep-stop", "n_clicks"),
        Input("tune-sweep-go", "n_clicks"),
        Given("tune-sweep", "data"),
        Given("tune", "data"),
        Given("tune-page", "data"),
    )
    def start(
        valid: Any,
        hardware: dict[str, Any],
        strategies: list[str],
        _stop: int | None,
        _go: int | None,
        sweep: dict[str, Any],
        run_id: int,
        page: str,
    ) -> Any:
        if ctx.triggered_id == "tune-sweep-stop":
            # The ticket stays for what it has: only the work on it ends.
            if (ticket := planner.ticket(page)) is not None:
                ticket.end("stopped")
            return {**sweep, "stopped": True}, True
        if valid is None or hardware["errors"]:
            return dash.no_update, dash.no_update
        policy = policy_from_document(valid).model_copy(update={"name": ""})
        ground = shared.ground(run_id)
        limits = sweep_limits(ground.live_peak_bytes, ground.smallest_bytes)
        wanted = [name for name in strategies if name in STRATEGIES]
        asked = ask_of(
            f"run:{run_id}", sweep_policies(policy, wanted, limits), hardware["hardware"], hardware["overrides"]
        )
        # The limit chosen now is not in the key: choosing another leaves the curve as it is.
        key = asked.key
        if key == sweep["key"] and ctx.triggered_id != "tune-sweep-go":
            return dash.no_update, dash.no_update
        planner.ask(page, asked)
        return {"key": key, "stopped": False}, False

    @app.callback(
        Output("tune-curve", "figure"),
        Output("tune-sweep-words", "children"),
        Output("tune-sweep-stop", "display"),
        Output("tune-sweep-go", "display"),
        Output("tune-points", "children"),
        Output("tune-sweep-poll", "disabled", allow_duplicate=True),
        Input("tune-sweep-poll", "n_intervals"),
        Input("tune-sweep", "data"),
        Input("tune-now", "data"),
        Input("tune-measure", "value"),
        Input("policy-draft", "data"),
        Given("tune", "data"),
        Given("tune-page", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def draw(
        _: int | None, _sweep: Any, now: dict[str, Any] | None, measure: str, draft: Any, run_id: int, page: str
    ) -> Any:
        ticket = planner.ticket(page)
        ended = ticket is None or ticket.wait(0)
        points = list(ticket.predictions) if ticket is not None else []
        ground = shared.ground(run_id)
        marks = _marks(get_run(shared.database, run_id), now)
        figure = pareto(points, _ground(ground, draft["limit"]), marks, "memory" if measure == "memory" else "step")
        words, stopped = _words(ticket), ticket is not None and ticket.state == "stopped"
        stop, go = "none" if ended else None, None if stopped else "none"
        return figure, words, stop, go, _table(points), ended

    @app.callback(
        Output("policy-limit", "value", allow_duplicate=True),
        Input("tune-curve", "clickData"),
        Input({"take": ALL, "of": ALL}, "n_clicks"),
        Given("tune", "data"),
        prevent_initial_call=True,
    )
    def take(clicked: Any, buttons: list[int | None], run_id: int) -> Any:
        chosen = None
        if ctx.triggered_id == "tune-curve" and clicked:
            chosen = clicked["points"][0].get("customdata")
        elif isinstance(ctx.triggered_id, dict) and any(buttons):
            chosen = ctx.triggered_id["take"]
        if not isinstance(chosen, int):
            return dash.no_update
        return f"{round(100 * chosen / max(1, shared.ground(run_id).live_peak_bytes), 1):g}%"


def _ground(ground: PolicyGround, limit: str) -> Ground:
    percent = limit_percent(limit, ground)
    size = None if percent is None else round(percent / 100 * ground.live_peak_bytes)
    return Ground(ground.smallest_bytes, ground.live_peak_bytes, ground.device_bytes, size)


def _marks(run: RunRow, now: dict[str, Any] | None) -> list[Mark]:
    marks = []
    if run.step_median_ns is not None and run.device_bytes is not None:
        limit = run.memory_limit_bytes if run.strategy != "none" else run.device_bytes
        marks.append(Mark(f"run {run.id} now, {run.kind}", limit, run.step_median_ns, run.device_bytes))
    if now is not None:
        title = "this policy, predicted"
        marks.append(Mark(title, now["limit_bytes"], now["step_ns"], now["memory_bytes"]))
    return marks


def _words(ticket: Ticket | None) -> str:
    if ticket is None:
        return "No curve yet."
    done, total = len(ticket.predictions), len(ticket.ask.policies)
    if ticket.state == "failed":
        return f"The curve ended: {ticket.problem}"
    if ticket.state == "done":
        return f"{done} points, predicted at effort fast. Click one to take its limit."
    return f"{done} of {total} points{', stopped' if ticket.state == 'stopped' else ' so far; predicting'}."


def _table(points: list[Any]) -> Any:
    rows = point_rows(points)
    if not rows:
        return html.Div("No point yet.", className="hint")
    head = html.Tr([html.Th(t, className=c) for t, c in zip(_HEADINGS, ("", *["num"] * 6), strict=True)])
    body = [
        html.Tr(
            [
                html.Td(row.strategy),
                html.Td(
                    html.Button(row.limit, id={"take": row.limit_bytes, "of": n}, className="link", type="button"),
                    className="num",
                ),
                *[html.Td(text, className="num") for text in row.numbers],
            ]
        )
        for n, row in enumerate(rows)
    ]
    return html.Div(html.Table([html.Thead(head), html.Tbody(body)], className="plain"), className="scroll")


_HEADINGS = ("Strategy", "Limit", "Step", "Above bound", "Blocking", "Memory", "Moved")
