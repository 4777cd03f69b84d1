"""Where the step loses time: how much to what, the dearest stalls with the way to them, and what would help."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, Output, dcc, html

from app.dashboard import parts
from app.dashboard.frozen import frozen
from app.dashboard.pages.run_links import ask, lead
from app.dashboard.pages.run_shown import RUN, shown_timeline
from app.dashboard.state import State
from app.dashboard.views.stalls import CauseRow, RemedyRow, StallRow, StallsView, stalls_view
from app.dashboard.views.step import StepView

MOST_TRANSFERS = 100_000
"""What is explained on a page; with more, explaining takes longer than a person waits."""


def panel() -> Any:
    """Says that it works until its callback has answered."""
    body = html.Div(html.Div("Working out where the time goes…", className="quiet"), id="run-stalls-body")
    return parts.panel(
        "Where the step loses time",
        dcc.Loading(body, delay_show=300, overlay_style={"visibility": "visible", "opacity": 0.85}),
        hint="What would help was tried by playing the step again with only that changed.",
        id="run-stalls",
        **{"aria-live": "polite"},
    )


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(Output("run-stalls-body", "children"), Input("run-show", "value"), RUN)
    def show_stalls(show: str, run: dict[str, Any]) -> Any:
        shown = shown_timeline(shared, run, show)
        if too_many := refused(shown.main, run["id"]):
            return too_many
        return frozen(stalls_body(stalls_view(shown.main.explanation, shown.end_ns)))


def refused(view: StepView, run_id: int) -> Any:
    """What is shown of a step that is too large to be explained on a page; None where it is not."""
    count = len(view.profile.schedule.transfers)
    if count <= MOST_TRANSFERS:
        return None
    words = f"This step has {count:,} transfers; explaining them takes minutes. The command line does it: "
    return html.Div([words, parts.command(f"hyperoffload explain {run_id}")], className="quiet")


def stalls_body(view: StallsView) -> list[Any]:
    bar = html.Div(
        [
            html.I(style={"width": f"{share:.3%}", "background": colour}, title=title)
            for title, colour, share in view.bar
        ],
        className="shares",
    )
    legend = html.Div(
        [html.Span([parts.swatch(colour), title]) for title, colour, _ in view.bar], className="legend explained-legend"
    )
    body: list[Any] = [html.P(view.head, className="verdict"), bar, legend]
    if view.counted:
        body.append(html.P(view.counted, className="hint"))
    if view.bound:
        body.append(html.P(view.bound, className="explained"))
    if view.stalls:
        body += [
            html.H3("By cause"),
            html.Div([_cause(c) for c in view.causes], className="causes"),
            html.H3("The worst stalls"),
            html.Ol([_stall(s) for s in view.stalls], className="stalls"),
        ]
    if view.left_out:
        body.append(
            html.Div(
                [view.left_out, "; ", lead("all transfers that block", find="blocking>0 in:transfers")],
                className="hint",
            )
        )
    return body


def _cause(cause: CauseRow) -> Any:
    helps = [
        html.Div([html.Div(title, className="hint"), *remedy_words(remedy, None)], className="helps")
        for title, remedy in (("Helps most with this memory and link", cause.gentle), ("Helps most of all", cause.most))
        if remedy is not None
    ]
    return html.Div(
        [
            html.B(cause.title),
            html.Div(f"{cause.lost} ({cause.share}) in {cause.stalls}", className="soft"),
            html.Div(f"{cause.meaning[:1].upper()}{cause.meaning[1:]}.", className="hint"),
            *helps,
        ],
        className="cause",
    )


def _stall(stall: StallRow) -> Any:
    pick = ("transfer", stall.transfer)
    head = html.Div(
        [
            lead(f"{stall.lost} {stall.title}", pick, stall.place, stall.start_ns, title="Show it on the time axis"),
            html.Span([f"{stall.share} of the step · ", parts.tag(stall.cause)], className="num"),
        ],
        className="row",
    )
    bar = html.Div(html.I(style={"width": f"{stall.width:.2%}"}), className="bar stall-bar")
    helps = [html.Div(remedy_words(r, pick), className="explained") for r in stall.remedies]
    more: list[Any] = [html.P(stall.text, className="explained")]
    if stall.more:
        more.append(html.Ul([html.Li(remedy_words(r, pick)) for r in stall.more], className="remedies"))
    why = html.Details([html.Summary("Why, and what else would help" if stall.more else "Why"), *more])
    return html.Li([head, bar, *helps, why], className="stall")


def remedy_words(remedy: RemedyRow, pick: tuple[str, int] | None) -> list[Any]:
    """The remedy, its predicted gain, and a button that tries it for itself."""
    words: list[Any] = [remedy.text, " "]
    if remedy.gain:
        words.append(html.B(remedy.gain, className="gain"))
    if remedy.what_if:
        words += [" ", ask("Try", remedy.what_if, pick)]
    return words
