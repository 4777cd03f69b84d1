"""The hardware a policy is predicted on: the run's own or another, every number with its source and a way back."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import ALL, Input, Output, dcc, html
from dash import State as Given

from app.dashboard.pages.policy_editor import DEBOUNCE_MS
from app.dashboard.state import State
from app.dashboard.views.hardware import HardwareField, given_hardware, hardware_fields
from db.queries import RunRow, get_run
from hyperoffload_core.hardware import Hardware, described, hardware_names, load_hardware

AS_RECORDED = "as recorded"
NOTHING: dict[str, Any] = {"hardware": None, "overrides": {}, "errors": {}}


def panel(state: State, run: RunRow) -> list[Any]:
    names = [{"value": AS_RECORDED, "label": f"As recorded ({run.hardware})"}]
    names += [{"value": n, "label": n} for n in hardware_names()]
    return [
        dcc.Store(id="tune-hardware-given", data=NOTHING),
        dmc.Select(
            id="tune-hardware",
            label="Hardware to predict for",
            description="As recorded keeps the run's op durations; any other models them by its roofline.",
            data=names,
            value=AS_RECORDED,
            allowDeselect=False,
            w=420,
        ),
        html.Div(fields(*_described(state, run, AS_RECORDED)), id="tune-hardware-fields"),
    ]


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("tune-hardware-fields", "children"),
        Input("tune-hardware", "value"),
        Given("tune", "data"),
        prevent_initial_call=True,
    )
    def choose(name: str, run_id: int) -> Any:
        return fields(*_described(shared, get_run(shared.database, run_id), name))

    @app.callback(
        Output("tune-hardware-given", "data"),
        Output({"hardware": ALL}, "error"),
        Output({"reset": ALL}, "disabled"),
        Input({"hardware": ALL}, "value"),
        Given({"hardware": ALL}, "id"),
        Given("tune-hardware", "value"),
        Given("tune", "data"),
        prevent_initial_call=True,
    )
    def change(texts: list[Any], fields_there: list[dict[str, str]], name: str, run_id: int) -> Any:
        hardware, _ = _described(shared, get_run(shared.database, run_id), name)
        keys = [field["hardware"] for field in fields_there]
        given = given_hardware(hardware, dict(zip(keys, texts, strict=True)))
        data = {
            "hardware": None if name == AS_RECORDED else name,
            "overrides": given.overrides,
            "errors": given.errors,
        }
        untouched = [key not in given.overrides and key not in given.errors for key in keys]
        return data, [given.errors.get(key) for key in keys], untouched

    @app.callback(
        Output({"hardware": dash.MATCH}, "value"),
        Input({"reset": dash.MATCH}, "n_clicks"),
        Given({"reset": dash.MATCH}, "id"),
        Given("tune-hardware", "value"),
        Given("tune", "data"),
        prevent_initial_call=True,
    )
    def reset(clicks: int | None, button: dict[str, str], name: str, run_id: int) -> Any:
        if not clicks:
            return dash.no_update
        shown, compute = _described(shared, get_run(shared.database, run_id), name)
        return next(f.text for f in hardware_fields(shown, compute=compute) if f.key == button["reset"])


def _described(state: State, run: RunRow, name: str) -> tuple[Hardware, bool]:
    """The hardware, and whether op durations come from its compute numbers."""
    if name != AS_RECORDED:
        return load_hardware(name), True
    schedule = state.schedule(run.id)
    return described(schedule.hardware), run.kind == "predicted" and schedule.duration_source.startswith("roofline")


def fields(hardware: Hardware, compute: bool) -> list[Any]:
    note = None
    if not compute:
        note = "Op durations were measured, so compute numbers do not count here."
    return [
        html.Div(f"{hardware.title}. {note or ''}", className="hint tune-hardware-title"),
        html.Div([_field(f) for f in hardware_fields(hardware, compute=compute)], className="hardware-fields"),
    ]


def _field(field: HardwareField) -> Any:
    identity = {"hardware": field.key}
    common = {"label": field.title, "value": field.text, "style": {"flex": 1}}
    if field.choices:
        control = dmc.Select(id=identity, data=list(field.choices), allowDeselect=False, **common)
    else:
        control = dmc.TextInput(id=identity, debounce=DEBOUNCE_MS, **common)
    reset = dmc.Button(
        "Reset",
        id={"reset": field.key},
        variant="subtle",
        size="compact-xs",
        disabled=True,
        **{"aria-label": f"Reset {field.title}"},
    )
    return html.Div(
        [
            html.Div([control, reset], className="hardware-line"),
            html.Div(field.source, className="hint source", title=field.source),
        ],
        className="hardware-field",
    )
