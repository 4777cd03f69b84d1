"""Tune a run: edit its policy, recompile for a prediction, or recompile and run, and go on from the new run."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages import job_panel, policy_editor, policy_events
from app.dashboard.pages.guard import guarded
from app.dashboard.state import State, current_state
from app.dashboard.views.policy import Draft, draft_of
from app.dashboard.views.requests import LinkError, compile_request, run_request, runnable
from app.dashboard.views.runs import run_name
from app.jobs import start_compile_job, start_run_job
from app.policies import save_version
from db.database import DatabaseError
from db.policies import get_policy_version
from db.queries import RunRow, get_run
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import hardware_names
from hyperoffload_core.policy import policy_from_document, policy_from_toml
from hyperoffload_core.sizes import format_bytes, format_ns, format_rate

AS_RECORDED = "as recorded"


def register(app: dash.Dash, shared: State) -> None:
    dash.register_page(__name__, path_template="/tune/<run_id>", title="Tune · HyperOffload", layout=guarded(layout))
    policy_events.register(app, shared)
    job_panel.register(app, shared)

    @app.callback(
        output=[Output("job-id", "data", allow_duplicate=True), Output("tune-link", "error")],
        inputs={
            "clicks": [Input("tune-compile", "n_clicks"), Input("tune-run", "n_clicks")],
            "run_id": Given("tune", "data"),
            "fields": policy_events.FIELDS,
            "hardware": Given("tune-hardware", "value"),
            "link": Given("tune-link", "value"),
            "steps": Given("tune-steps", "value"),
            "label": Given("tune-label", "value"),
        },
        prevent_initial_call=True,
    )
    def start(
        clicks: list[int | None], run_id: int, fields: dict[str, Any], hardware: str, link: str, steps: Any, label: str
    ) -> Any:
        if not any(clicks):
            return dash.no_update, dash.no_update
        policy = policy_events.policy_now(ground=shared.ground(run_id), **fields)
        version = save_version(shared.database, policy)
        model, text = f"run:{run_id}", (label or "").strip()
        recorded = get_run(shared.database, run_id).link_bandwidth_bytes_per_s
        untouched = (link or "").strip() == format_rate(recorded)
        try:
            if ctx.triggered_id == "tune-compile":
                named = None if hardware == AS_RECORDED else hardware
                given = None if untouched and named is None else link
                asked = compile_request(model, policy, named, given, version, text)
                return start_compile_job(shared.path, asked), None
            # The text is rounded; an untouched one means the recorded rate to the byte.
            exact = f"{recorded}B/s" if untouched and recorded is not None else link
            run = run_request(model, policy, exact, steps, version, text)
        except LinkError as error:
            return dash.no_update, str(error)
        return start_run_job(shared.path, run), None

    @app.callback(
        Output("tune-compile", "disabled"),
        Output("tune-run", "disabled"),
        Input("policy-valid", "data"),
        Input("job-poll", "disabled"),
        Given("tune", "data"),
        prevent_initial_call="initial_duplicate",
    )
    def allow(valid: Any, idle: bool, run_id: int) -> tuple[bool, bool]:
        blocked = valid is None or not idle
        return blocked, blocked or bool(runnable(get_run(shared.database, run_id)))


def layout(run_id: str = "", **_: str) -> Any:
    state = current_state()
    try:
        run = get_run(state.database, int(run_id) if run_id.isdecimal() else -1)
    except DatabaseError:
        return parts.state(
            "empty",
            f"There is no run {run_id[:40]} to tune",
            "Choose one in the list, or start with a new model.",
            parts.link_button("All runs", "/", "runs", "filled"),
            parts.link_button("New run", "/new", "plus"),
        )
    if not run.step_count:
        return parts.state(
            "empty",
            f"{run_name(run)} holds no step to tune",
            f"It is {run.status}, so there are no durations to plan with. Tune another run of {run.model}.",
            parts.link_button("All runs", "/", "runs", "filled"),
        )
    draft = _draft(state, run)
    return html.Div(
        [
            dcc.Store(id="tune", data=run.id),
            parts.head(
                f"Tune {run_name(run)}",
                "Change the policy, then recompile: a prediction takes seconds, a run executes it for real.",
                crumb=[dcc.Link("Runs", href="/"), " / ", dcc.Link(str(run.id), href=f"/run/{run.id}"), " / tune"],
            ),
            html.Div(
                [
                    policy_editor.editor(draft, state.ground(run.id), {"run": run.id}),
                    html.Div([_start_panel(run), _now_panel(run)], className="side stack"),
                ],
                className="columns tune",
            ),
        ]
    )


def _draft(state: State, run: RunRow) -> Draft:
    """The policy the run was made with; for a run without offload, a first policy to try."""
    if run.strategy == "none":
        return Draft(name=f"{run.model} 60%", limit="60%")
    try:
        if run.policy_version_id is not None:
            return draft_of(policy_from_toml(get_policy_version(state.database, run.policy_version_id).toml))
        return draft_of(policy_from_document(state.schedule(run.id).policy))
    except UserError:
        return Draft(name=run.model, limit=format_bytes(run.memory_limit_bytes), strategy=run.strategy)


def _start_panel(run: RunRow) -> Any:
    link = format_rate(run.link_bandwidth_bytes_per_s)
    names = [{"value": AS_RECORDED, "label": f"As recorded ({run.hardware})"}]
    names += [{"value": n, "label": n} for n in hardware_names()]
    reason = runnable(run)
    return parts.panel(
        "Recompile",
        [
            dmc.Select(
                id="tune-hardware",
                label="Hardware to predict for",
                description="As recorded keeps the run's op durations; any other models them by its roofline.",
                data=names,
                value=AS_RECORDED,
                allowDeselect=False,
            ),
            dmc.TextInput(
                id="tune-link",
                label="Link bandwidth, each way",
                description="Such as 2GB/s, or unlimited. Empty: as described, and unlimited when run.",
                value=link if run.kind == "measured" else "",
            ),
            dmc.Group(
                [
                    dmc.NumberInput(id="tune-steps", label="Steps to run", value=5, min=1, max=1000, w=120),
                    dmc.TextInput(
                        id="tune-label", label="Label of the new run", placeholder="optional", style={"flex": 1}
                    ),
                ],
                align="flex-end",
            ),
            html.Div(
                [
                    parts.button("Recompile", "tune-compile", "tune", "filled"),
                    parts.button("Recompile and run", "tune-run", "play", disabled=bool(reason)),
                ],
                className="actions",
            ),
            html.Div(reason, className="hint") if reason else None,
            job_panel.job_panel(job_panel.last_job(current_state(), f"run:{run.id}")),
        ],
        hint="Predict the step with this policy, or execute it on this machine.",
    )


def _now_panel(run: RunRow) -> Any:
    def known(value: int | None, words: Any) -> str:
        return "none yet" if value is None else words(value)

    return parts.panel(
        "This run now",
        parts.facts(
            [
                ("Kind", parts.tag(run.kind, run.kind)),
                ("Strategy", run.strategy),
                ("Limit", format_bytes(run.memory_limit_bytes)),
                ("Device memory", known(run.device_bytes, format_bytes)),
                ("Step time", known(run.step_median_ns, format_ns)),
                ("Blocking", known(run.blocking_ns, format_ns)),
                ("Exposed", known(run.exposed_ns, format_ns)),
                ("Moved", known(run.bytes_out and run.bytes_out + (run.bytes_in or 0), format_bytes)),
                ("Conditions", run.conditions or "none stated"),
            ]
        ),
    )
