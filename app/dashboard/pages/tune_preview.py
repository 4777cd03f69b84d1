"""The prediction of the policy as edited, shortly after each change: numbers and decisions against the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dash
from dash import Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts, theme
from app.dashboard.state import State
from app.dashboard.views.clipping import clipped
from app.dashboard.views.policy import Draft, check
from app.dashboard.views.preview import (
    LABELS,
    NAMED,
    Change,
    DecisionGroup,
    Decisions,
    changes,
    decisions,
    effort_words,
    outcome,
    sentence,
)
from app.planner import Planner, Ticket, ask_of
from app.predicting import Prediction, nearest_met, tiers_of
from db.queries import RunRow, get_run
from hyperoffload_core.policy import policy_from_document
from hyperoffload_core.sizes import format_bytes
from hyperoffload_core.strategies import STRATEGIES

POLL_MS = 250
AT_ONCE_S = 0.9
"""How long a change waits for its answer before the page polls for it, and shows what the curve knows."""
POLL_WAIT_S = 0.2
"""How long a poll waits for the answer, so that it is shown when it is there."""
PENDING = "preview pending"


def numbers_panel(run: RunRow) -> Any:
    waiting = [Change(label, "…", "", "", "") for label in LABELS]
    return html.Div(
        [
            dcc.Interval(id="tune-preview-poll", interval=POLL_MS, disabled=True),
            dcc.Store(id="tune-now"),
            html.Div(
                _numbers(waiting, f"predicting the policy for {clipped(run.model)}", ""),
                id="tune-numbers",
                className="preview",
            ),
        ],
        **{"aria-live": "polite"},
    )


def decisions_panel() -> Any:
    return parts.panel(
        "Decisions against this run",
        html.Div(html.Div("Predicting…", className="quiet"), id="tune-decisions"),
        hint="Storages whose tier changes: what leaves the device or stays on it.",
    )


def register(app: dash.Dash, shared: State, planner: Planner, curve: Planner) -> None:
    """``curve`` is the planner of the limit curve, whose points answer first where a prediction takes longer."""
    outputs = [
        Output("tune-numbers", "className"),
        Output("tune-numbers", "children"),
        Output("tune-decisions", "children"),
        Output("tune-now", "data"),
        Output("tune-preview-poll", "disabled"),
    ]

    @app.callback(
        outputs,
        Input("policy-valid", "data"),
        Input("policy-draft", "data"),
        Input("tune-hardware-given", "data"),
        Given("tune", "data"),
        Given("tune-page", "data"),
    )
    def change(valid: Any, draft: dict[str, Any], hardware: dict[str, Any], run_id: int, page: str) -> Any:
        wrong = next((f"hardware: {words}" for words in hardware["errors"].values()), "")
        if valid is None:
            wrong = check(Draft(**draft), shared.ground(run_id)).error or "the text is no policy"
        if wrong:
            planner.cancel(page)
            return (
                "preview",
                _trouble("warn", f"Nothing to predict yet: {sentence(wrong)}"),
                _no_decisions(),
                None,
                True,
            )
        policy = policy_from_document(valid)
        asked = ask_of(f"run:{run_id}", [policy], hardware["hardware"], hardware["overrides"])
        ticket = planner.ask(page, asked)
        if ticket.wait(AT_ONCE_S):
            return _answer(shared, run_id, ticket)
        ground, swept = shared.ground(run_id), curve.ticket(page)
        limit_bytes = policy.limit_bytes(ground.live_peak_bytes, ground.device_bytes)
        known = None
        if swept is not None and (swept.ask.hardware, swept.ask.overrides) == (asked.hardware, asked.overrides):
            known = nearest_met(policy, limit_bytes, swept.ask.policies, list(swept.predictions))
        if known is None:
            return PENDING, dash.no_update, dash.no_update, dash.no_update, False
        how = f"predicted: the schedule for {format_bytes(known.limit_bytes)} meets this limit too"
        return PENDING, *_shown(shared, run_id, known, how, "a better one is being looked for …"), False

    @app.callback(
        [Output(o.component_id, o.component_property, allow_duplicate=True) for o in outputs],
        Input("tune-preview-poll", "n_intervals"),
        Given("tune", "data"),
        Given("tune-page", "data"),
        prevent_initial_call=True,
    )
    def poll(_: int | None, run_id: int, page: str) -> Any:
        ticket = planner.ticket(page)
        if ticket is None or not ticket.wait(POLL_WAIT_S):
            return (*(dash.no_update,) * 4, ticket is None)
        return _answer(shared, run_id, ticket)


def ask_ahead(planner: Planner, page: str, document: Mapping[str, Any]) -> None:
    """Ask for a policy on the hardware the page asked for last. The page's own request comes when it has drawn all
    fields, and then waits for this answer."""
    if (before := planner.ticket(page)) is not None:
        planner.ask(page, replace(before.ask, policies=(policy_from_document(document),)))


def _answer(shared: State, run_id: int, ticket: Ticket) -> Any:
    if ticket.state == "replaced":  # the newer change answers
        return (dash.no_update,) * 5
    if ticket.state == "failed" or not ticket.predictions:
        said = sentence(ticket.problem or "nothing was predicted")
        return "preview", _trouble("bad", said), _no_decisions(), None, True
    prediction = ticket.predictions[0]
    # an unhurried strategy would be no preview: options say how it was hurried
    how = effort_words([o.name for o in STRATEGIES[prediction.strategy].options])
    took = f"with a limit of {format_bytes(prediction.limit_bytes)}, in {ticket.elapsed_s:.1f} s"
    return "preview", *_shown(shared, run_id, prediction, how, took), True


def _shown(shared: State, run_id: int, prediction: Prediction, how: str, took: str) -> tuple[Any, Any, Any]:
    """Numbers, decisions and the mark on the curve."""
    tone, words = outcome(prediction)
    if prediction.metrics is None or prediction.tiers is None:
        return _trouble(tone, words), _no_decisions(), None
    run = get_run(shared.database, run_id)
    schedule = shared.schedule(run_id)
    numbers = _numbers(changes(run, prediction.metrics), how, took)
    notes = [parts.notice(tone, words)] if words else []
    said = [note for note in prediction.notes if not note.startswith("over the memory limit")]
    # What came of a rule is an answer to the person; the rest is the strategy's own account.
    notes += [parts.notice("info", sentence(note)) for note in said if "prefetch" in note.split(":")[0]]
    if others := [note for note in said if "prefetch" not in note.split(":")[0]]:
        count = f"{len(others)} note{'s' if len(others) > 1 else ''} of the strategy"
        rows = [html.Li(sentence(note)) for note in others]
        notes.append(html.Details([html.Summary(count), html.Ul(rows, className="hint")], className="notes"))
    found = decisions(schedule.graph.original, tiers_of(schedule), prediction.tiers)
    return numbers, [*notes, *_decisions(found)], _mark(prediction)


def _mark(prediction: Prediction) -> dict[str, Any]:
    assert prediction.metrics is not None
    return {
        "strategy": prediction.strategy,
        "limit_bytes": prediction.limit_bytes,
        "step_ns": prediction.metrics.step_ns,
        "memory_bytes": prediction.metrics.reserved_bytes,
    }


def _trouble(tone: str, words: str) -> list[Any]:
    return [parts.notice(tone or "info", words, "alert" if tone == "bad" else "status")]


def _no_decisions() -> Any:
    return html.Div("No prediction, so there is nothing to compare.", className="quiet")


def _numbers(found: list[Change], how: str, took: str) -> list[Any]:
    cards = [
        html.Div(
            [
                html.Div(change.label, className="label"),
                html.Div(_value(change.then), className="value"),
                html.Div(change.difference, className=f"difference {change.tone}"),
                html.Div(f"now {change.now}" if change.now else "", className="note"),
            ],
            className="card",
        )
        for change in found
    ]
    tag = html.Div([parts.tag(how, "predicted"), html.Span(took, className="hint")], className="preview-how")
    return [tag, html.Div(cards, className="cards")]


def _value(text: str) -> Any:
    value, _, unit = text.rpartition(" ")
    return [value, html.Small(unit)] if value else text


def _decisions(found: Decisions) -> list[Any]:
    if not found.groups:
        words = f"No storage changes its tier; all {found.unchanged:,} do as in this run."
        return [html.Div(words, className="quiet", id="tune-unchanged")]
    rows = [_group(group) for group in found.groups]
    return [
        html.Div(rows, className="decisions"),
        html.Div(f"{found.unchanged:,} storages do as in this run.", className="hint", id="tune-unchanged"),
    ]


def _group(group: DecisionGroup) -> Any:
    title = theme.class_title(group.tensor_class)
    head = html.Summary(
        [
            html.Span(group.change, className=f"change {group.change.split()[0].lower()}"),
            html.Span([parts.swatch(theme.class_colour(group.tensor_class)), title], className="of"),
            html.Span(f"{group.count:,} · {format_bytes(group.bytes)}", className="amount"),
        ]
    )
    lines = [
        html.Tr(
            [
                html.Td(html.Span(moved.name, className="name", title=moved.name)),
                html.Td(format_bytes(moved.bytes), className="num"),
                html.Td(f"{_moves(moved.before_bytes)} → {_moves(moved.after_bytes)}", className="num soft"),
            ]
        )
        for moved in group.largest
    ]
    more = group.count - len(group.largest)
    rest = html.Div(f"The {NAMED} largest; {more:,} more.", className="hint") if more > 0 else None
    head_row = html.Tr([html.Th("Storage"), html.Th("Size", className="num"), html.Th("Moved", className="num")])
    table = html.Table([html.Thead(head_row), html.Tbody(lines)], className="plain")
    return html.Details([head, table, rest])


def _moves(size: int) -> str:
    return format_bytes(size) if size else "nothing"
