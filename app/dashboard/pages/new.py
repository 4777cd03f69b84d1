"""Start from a model: choose a workload or a function of one's own, hardware and policy; predict, or run for real."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages import job_panel, policy_editor, policy_events, steps_field, way_field
from app.dashboard.pages.guard import guarded
from app.dashboard.state import State, current_state
from app.dashboard.views.clipping import clipped
from app.dashboard.views.policy import Draft
from app.dashboard.views.requests import (
    LinkError,
    ModelError,
    checked_model,
    checked_steps,
    compile_request,
    run_request,
    runnable_model,
)
from app.jobs import start_compile_job, start_run_job
from app.policies import save_version, saved_names
from hyperoffload_core.hardware import hardware_names, load_hardware
from hyperoffload_core.sizes import format_bytes, format_rate
from hyperoffload_core.workloads import WORKLOADS

DEFAULT_HARDWARE = "ascend-910c"
LONGEST_ERROR = 300


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path="/new", title="New run · HyperOffload", layout=guarded(layout))
    steps_field.register(app, "new-steps")

    @app.callback(Output("new-model", "value"), Input("new-workload", "value"), prevent_initial_call=True)
    def choose(workload: str | None) -> Any:
        return workload or dash.no_update

    @app.callback(Output("new-hardware-note", "children"), Input("new-hardware", "value"))
    def describe(name: str) -> str:
        hardware = load_hardware(name)
        link = f"link {format_rate(hardware.link_out.bytes_per_s)} out, {format_rate(hardware.link_in.bytes_per_s)} in"
        return f"{hardware.title}: {format_bytes(hardware.device_bytes)} of memory, {link}."

    @app.callback(
        output=[
            Output("job-id", "data", allow_duplicate=True),
            Output("new-model", "error"),
            Output("new-link", "error"),
        ],
        inputs={
            "clicks": [Input("new-compile", "n_clicks"), Input("new-run", "n_clicks")],
            "typed": Given("new-model", "value"),
            "fields": policy_events.FIELDS,
            "hardware": Given("new-hardware", "value"),
            "link": Given("new-link", "value"),
            "steps": Given("new-steps", "value"),
            "way": Given("new-way", "value"),
            "label": Given("new-label", "value"),
        },
        prevent_initial_call=True,
    )
    def start(
        clicks: list[int | None],
        typed: str,
        fields: dict[str, Any],
        hardware: str,
        link: str,
        steps: Any,
        way: str,
        label: str,
    ) -> Any:
        if not any(clicks):
            return dash.no_update, dash.no_update, dash.no_update
        text = (label or "").strip()
        try:
            model = checked_model(typed or "")
            if ctx.triggered_id == "new-run" and (reason := runnable_model(model)):
                raise ModelError(reason)
            if ctx.triggered_id == "new-run":
                checked_steps(steps)
            policy = policy_events.policy_now(ground=None, **fields)
            version = save_version(shared.database, policy)
            if ctx.triggered_id == "new-compile":
                asked = compile_request(model, policy, hardware, link, version, text)
                return start_compile_job(shared.path, asked), None, None
            in_graph = way == way_field.GRAPH_MODE
            run = run_request(model, policy, link, steps, version, text, graph_mode=in_graph)
        except ModelError as error:
            return dash.no_update, clipped(str(error), LONGEST_ERROR), None
        except LinkError as error:
            return dash.no_update, None, clipped(str(error), LONGEST_ERROR)
        return start_run_job(shared.path, run), None, None

    @app.callback(
        Output("new-compile", "disabled"),
        Output("new-run", "disabled"),
        Input("policy-valid", "data"),
        Input("job-poll", "disabled"),
    )
    def allow(valid: Any, idle: bool) -> tuple[bool, bool]:
        blocked = valid is None or not idle
        return blocked, blocked


def layout(**_: str) -> Any:
    state = current_state()
    saved = saved_names(state.database)
    return html.Div(
        [
            parts.head(
                "New run",
                "Capture a model, then predict its step on a hardware, or execute it on this machine.",
            ),
            html.Div(
                [
                    html.Div(
                        [_model_panel(), policy_editor.editor(Draft(name="first policy"), None, {}, saved)],
                        className="stack",
                    ),
                    html.Div(_start_panel(state), className="side stack"),
                ],
                className="columns tune",
            ),
        ]
    )


def _model_panel() -> Any:
    workloads = [{"value": name, "label": name} for name in WORKLOADS]
    return parts.panel(
        "Model",
        [
            dmc.Group(
                [
                    dmc.TextInput(
                        id="new-model",
                        label="Workload, or FILE.py:FUNCTION",
                        description="It returns a cell and its inputs, and runs in a process of its own.",
                        value="tiny",
                        style={"flex": 1},
                    ),
                    dmc.Select(
                        id="new-workload",
                        label="Workloads",
                        description="Models that come with the program.",
                        data=workloads,
                        placeholder="choose",
                        w=230,
                    ),
                ],
                align="flex-start",
            ),
            html.Details(
                [
                    html.Summary("What the workloads are"),
                    parts.facts([(name, text) for name, text in WORKLOADS.items()]),
                ]
            ),
        ],
    )


def _start_panel(state: State) -> Any:
    return parts.panel(
        "Start",
        [
            dmc.Select(
                id="new-hardware",
                label="Hardware to predict for",
                data=list(hardware_names()),
                value=DEFAULT_HARDWARE,
                allowDeselect=False,
            ),
            html.Div(id="new-hardware-note", className="hint"),
            dmc.TextInput(
                id="new-link",
                label="Link bandwidth, each way",
                description="Such as 2GB/s; empty for the described one (when run: unlimited).",
                value="",
            ),
            dmc.Group(
                [
                    steps_field.field("new-steps", w=110),
                    way_field.field("new-way", style={"flex": 1, "marginTop": 0}),
                ],
                align="flex-start",
                wrap="nowrap",
            ),
            dmc.TextInput(id="new-label", label="Label", placeholder="optional"),
            html.Div(
                [
                    parts.button("Compile", "new-compile", "tune", "filled"),
                    parts.button("Compile and run", "new-run", "play"),
                ],
                className="actions",
            ),
            job_panel.job_panel(job_panel.running_job(state)),
        ],
        hint="A prediction needs no weights. A run measures the step without offload as well.",
    )
