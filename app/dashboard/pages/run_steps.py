"""In place of what explains a step, on the page of all steps: the steps one by one, each with the way to its page."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from app.dashboard import parts
from app.dashboard.views.whole import StepRow, step_rows
from hyperoffload_core.recording import StepNumbers

HEADS = ("step", "time", "blocking", "exposed", "peak", "")
HINT = (
    "Where time is lost, who is on the device at the peak, details, tiers and addresses belong to one step: "
    "a storage may be somewhere else in each. Open a step to see them."
)


def panel(run_id: int, steps: StepNumbers, median: int) -> Any:
    rows, more = step_rows(steps, median)
    head = html.Tr([html.Th(text, className="num" if 0 < at < 5 else "") for at, text in enumerate(HEADS)])
    table = html.Table([html.Thead(head), html.Tbody([_row(run_id, row) for row in rows])], className="plain")
    return parts.panel("Step by step", html.Div(table, className="scroll"), hint=f"{HINT} {more}", id="run-steps")


def _row(run_id: int, row: StepRow) -> Any:
    numbers = (row.time, row.blocking, row.exposed, row.peak)
    return html.Tr(
        [
            html.Td(dcc.Link(f"Step {row.step + 1}", href=f"/run/{run_id}?step={row.step}")),
            *(html.Td(value, className="num") for value in numbers),
            html.Td(row.mark, className="soft"),
        ]
    )
