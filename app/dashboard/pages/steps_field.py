"""The field for how many steps are run, and what is wrong with it beside it."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output

from app.dashboard.views.requests import MOST_STEPS, StepsError, checked_steps

DEFAULT_STEPS = 5


def field(identity: str, **looks: Any) -> Any:
    # Not clamped: a number out of range stays as typed, with what is wrong below it.
    return dmc.NumberInput(
        id=identity,
        label="Steps to run",
        value=DEFAULT_STEPS,
        min=1,
        max=MOST_STEPS,
        allowDecimal=False,
        clampBehavior="none",
        **looks,
    )


def register(app: dash.Dash, identity: str) -> None:
    @app.callback(Output(identity, "error"), Input(identity, "value"), prevent_initial_call=True)
    def judge(value: Any) -> str | None:
        try:
            checked_steps(value)
        except StepsError as error:
            return str(error)
        return None
