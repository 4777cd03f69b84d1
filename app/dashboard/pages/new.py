"""Start from a model: choose a workload or a function of one's own, hardware and policy; predict, or run for real."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
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
from app.dashboard.views.tuning import RULE_PARAMETERS, asked_draft
from app.jobs import start_compile_job, start_run_job
from app.policies import save_version, saved_names
from hyperoffload_core.hardware import hardware_names, load_hardware
from hyperoffload_core.sizes import format_bytes, format_rate
from hyperoffload_core.workloads import WORKLOADS

DEFAULT_HARDWARE = "ascend-910c"
LONGEST_ERROR = 300

# The address follows the fields, so that a reload or a link shows what is on the page.
_TO_ADDRESS = """
function (model, hardware, link, valid) {
  const asked = { model, hardware, link, policy: valid ? JSON.stringify(valid) : "" };
  const query = new URLSearchParams(Object.entries(asked).filter(([, value]) => value));
  window.history.replaceState(window.history.state, "", `${window.location.pathname}?${query}`);
  return window.dash_clientside.no_update;
}
"""


def register(app: dash.Dash, shared: State) -> None:
    shown = guarded(layout, several=RULE_PARAMETERS)
    dash.register_page(__name__, path="/new", title="New run · HyperOffload", layout=shown)
    steps_field.register(app, "new-steps")
    fields = [("new-model", "value"), ("new-hardware", "value"), ("new-link", "value"), ("policy-valid", "data")]
    app.clientside_callback(
        _TO_ADDRESS, Output("new-address", "data"), [Input(*field) for field in fields], prevent_initial_call=True
    )

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
        output=[Output("new-compile", "disabled"), Output("new-run", "disabled"), Output("new-others", "children")],
        inputs={"valid": Input("policy-valid", "data"), "job": job_panel.WATCHED},
    )
    def allow(valid: Any, job: dict[str, Any]) -> tuple[bool, bool, str]:
        waits, others = job_panel.starting(shared, **job)
        blocked = valid is None or waits
        return blocked, blocked, others


def layout(model: str = "tiny", hardware: str = "", link: str = "", **query: str) -> Any:
    state = current_state()
    saved = saved_names(state.database)
    draft = asked_draft(Draft(name="first policy"), query)
    return html.Div(
        [
            dcc.Store(id="new-address"),
            parts.head(
                "New run",
                "Capture a model, then predict its step on a hardware, or execute it on this machine.",
            ),
            html.Div(
                [
                    html.Div(
                        [_model_panel(model), policy_editor.editor(draft, None, {}, saved)],
                        className="stack",
                    ),
                    html.Div(_start_panel(state, hardware, link), className="side stack"),
                ],
                className="columns tune",
            ),
        ]
    )


def _model_panel(model: str) -> Any:
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
                        value=model,
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


def _start_panel(state: State, hardware: str, link: str) -> Any:
    known = list(hardware_names())
    return parts.panel(
        "Start",
        [
            dmc.Select(
                id="new-hardware",
                label="Hardware to predict for",
                data=known,
                value=hardware if hardware in known else DEFAULT_HARDWARE,
                allowDeselect=False,
            ),
            html.Div(id="new-hardware-note", className="hint"),
            dmc.TextInput(
                id="new-link",
                label="Link bandwidth, each way",
                description="Such as 2GB/s; empty for the described one (when run: unlimited).",
                value=link,
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
            html.Div(id="new-others", className="hint", **{"aria-live": "polite"}),
            job_panel.job_panel(job_panel.running_job(state)),
        ],
        hint="A prediction needs no weights. A run measures the step without offload as well.",
    )
