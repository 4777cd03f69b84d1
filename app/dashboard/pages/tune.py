"""Tune a run: edit its policy and see the prediction change, recompile, or recompile and run, and go on from the new
run."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages import (
    job_panel,
    policy_editor,
    policy_events,
    steps_field,
    tune_hardware,
    tune_limit,
    tune_preview,
    tune_versions,
    way_field,
)
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.run_notice import run_notice, run_title
from app.dashboard.pages.runs_actions import deleted_page
from app.dashboard.state import State, current_state
from app.dashboard.views.address import run_number
from app.dashboard.views.hardware import paced_link
from app.dashboard.views.policy import Checked, Draft, check, draft_of
from app.dashboard.views.requests import checked_steps, run_request, runnable
from app.dashboard.views.runs import run_name
from app.dashboard.views.tuning import RULE_PARAMETERS, asked_draft
from app.jobs import start_compile_job, start_run_job
from app.planner import Planner
from app.policies import save_version, saved_names
from app.requests import CompileRequest
from db.database import DatabaseError
from db.policies import get_policy_version
from db.queries import RunRow, get_run
from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import policy_from_document, policy_from_toml
from hyperoffload_core.sizes import format_bytes
from profiles.plain import visible

SWEEP_NICENESS = 10
UNWATCHED_S = 15.0

# The address follows the policy, so that a reload or a link shows what is on the page.
_TO_ADDRESS = """
function (valid) {
  if (valid) {
    const address = `${window.location.pathname}?policy=${encodeURIComponent(JSON.stringify(valid))}`;
    window.history.replaceState(window.history.state, "", address);
  }
  return window.dash_clientside.no_update;
}
"""


def register(app: dash.Dash, shared: State) -> None:
    shown = guarded(layout, several=RULE_PARAMETERS)
    dash.register_page(__name__, path_template="/tune/<run_id>", title=run_title("Tune"), layout=shown)
    job_panel.register(app, shared)
    steps_field.register(app, "tune-steps")
    tune_hardware.register(app, shared)
    tune_versions.register(app, shared)
    curve = Planner(shared.path, niceness=SWEEP_NICENESS, unwatched_s=UNWATCHED_S)
    tune_limit.register(app, shared, curve)
    planner = Planner(shared.path)
    policy_events.register(app, shared, partial(tune_preview.ask_ahead, planner))
    tune_preview.register(app, shared, planner, curve)
    app.clientside_callback(
        _TO_ADDRESS, Output("tune-address", "data"), Input("policy-valid", "data"), prevent_initial_call=True
    )

    @app.callback(
        output=[Output("job-id", "data", allow_duplicate=True), Output("tune-start-error", "children")],
        inputs={
            "clicks": [Input("tune-compile", "n_clicks"), Input("tune-run", "n_clicks")],
            "run_id": Given("tune", "data"),
            "fields": policy_events.FIELDS,
            "hardware": Given("tune-hardware-given", "data"),
            "steps": Given("tune-steps", "value"),
            "way": Given("tune-way", "value"),
            "label": Given("tune-label", "value"),
        },
        prevent_initial_call=True,
    )
    def start(
        clicks: list[int | None],
        run_id: int,
        fields: dict[str, Any],
        hardware: dict[str, Any],
        steps: Any,
        way: str,
        label: str,
    ) -> Any:
        if not any(clicks):
            return dash.no_update, dash.no_update
        model, text = f"run:{run_id}", (label or "").strip()
        try:
            policy = policy_events.policy_now(ground=shared.ground(run_id), **fields)
            recorded = get_run(shared.database, run_id).link_bandwidth_bytes_per_s
            link = ""
            if ctx.triggered_id == "tune-run":
                steps = checked_steps(steps)
                link = paced_link(shared.schedule(run_id).hardware, hardware["overrides"], recorded)
            version = save_version(shared.database, policy)
        except UserError as error:
            return dash.no_update, parts.notice("bad", str(error), "alert")
        if ctx.triggered_id == "tune-run":
            in_graph = way == way_field.GRAPH_MODE
            asked_run = run_request(model, policy, link, steps, version, text, graph_mode=in_graph)
            return start_run_job(shared.path, asked_run), None
        asked = CompileRequest(
            model=model,
            policy=policy,
            hardware=hardware["hardware"],
            overrides=hardware["overrides"],
            policy_version_id=version,
            label=text,
        )
        return start_compile_job(shared.path, asked), None

    @app.callback(
        output=[Output("tune-compile", "disabled"), Output("tune-run", "disabled"), Output("tune-others", "children")],
        inputs={
            "valid": Input("policy-valid", "data"),
            "hardware": Input("tune-hardware-given", "data"),
            "job": job_panel.WATCHED,
            "run_id": Given("tune", "data"),
        },
        prevent_initial_call="initial_duplicate",
    )
    def allow(valid: Any, hardware: dict[str, Any], job: dict[str, Any], run_id: int) -> tuple[bool, bool, str]:
        waits, others = job_panel.starting(shared, **job)
        blocked = valid is None or waits or bool(hardware["errors"])
        return blocked, blocked or bool(runnable(get_run(shared.database, run_id))), others


def layout(run_id: str = "", **query: str) -> Any:
    state = current_state()
    try:
        run = get_run(state.database, run_number(run_id))
    except DatabaseError:
        return parts.state(
            "empty",
            f"There is no run {run_id[:40]} to tune",
            "Choose one in the list, or start with a new model.",
            parts.link_button("All runs", "/", "runs", "filled"),
            parts.link_button("New run", "/new", "plus"),
        )
    if run.deleted is not None:
        return deleted_page(run)
    if not run.step_count:
        return parts.state(
            "empty",
            f"{run_name(run)} holds no step to tune",
            f"It is {run.status}, so there are no durations to plan with. Tune another run of {visible(run.model)}.",
            parts.link_button("All runs", "/", "runs", "filled"),
        )
    ground = state.ground(run.id)
    draft = asked_draft(_draft(state, run), query, ground.graph)
    checked, page = check(draft, ground), uuid.uuid4().hex
    return html.Div(
        [
            dcc.Store(id="tune", data=run.id),
            dcc.Store(id="tune-page", data=page),
            dcc.Store(id="tune-address"),
            policy_editor.stores(draft, checked, {"run": run.id, "page": page}),
            parts.head(
                f"Tune {run_name(run)}",
                "Change the policy: its prediction follows. Recompile to keep it as a run, or execute it for real.",
                crumb=[dcc.Link("Runs", href="/"), " / ", dcc.Link(str(run.id), href=f"/run/{run.id}"), " / Tune"],
            ),
            run_notice(run),
            tune_preview.numbers_panel(run),
            html.Div(
                [
                    tune_limit.panel(draft, ground, checked, run),
                    html.Div([_start_panel(run), tune_preview.decisions_panel()], className="stack"),
                ],
                className="columns tune-top",
            ),
            _tabs(state, run, draft, checked),
        ],
        className="tune-page",
    )


def _tabs(state: State, run: RunRow, draft: Draft, checked: Checked) -> Any:
    pages = {
        "policy": (
            "Strategy and rules",
            [
                policy_editor.name_fields(draft, saved_names(state.database)),
                policy_editor.strategy(draft, checked),
                html.H3("Rules"),
                html.Div(policy_editor.RULES_HINT, className="hint rules-hint"),
                *policy_editor.rules(checked),
            ],
        ),
        "hardware": ("Hardware", tune_hardware.panel(state, run)),
        "text": ("As text", [html.Div(policy_editor.TEXT_HINT, className="hint"), policy_editor.text(checked)]),
        "versions": ("Versions", tune_versions.panel(state, draft.name)),
    }
    return dmc.Tabs(
        [
            dmc.TabsList([dmc.TabsTab(title, value=value) for value, (title, _) in pages.items()]),
            *[dmc.TabsPanel(content, value=value, className="tune-tab") for value, (_, content) in pages.items()],
        ],
        value="policy",
        className="panel tune-tabs",
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
    reason = runnable(run)
    return parts.panel(
        "Keep it as a run",
        [
            html.Div(
                [
                    parts.button("Recompile", "tune-compile", "tune", "filled"),
                    parts.button("Recompile and run", "tune-run", "play", disabled=bool(reason)),
                ],
                className="actions",
            ),
            html.Div(reason, className="hint") if reason else None,
            html.Div(id="tune-start-error"),
            html.Div(id="tune-others", className="hint", **{"aria-live": "polite"}),
            html.Div(
                [
                    steps_field.field("tune-steps", w=92, size="xs"),
                    way_field.field("tune-way", graph_mode=run.graph_mode, w=196, size="xs"),
                    dmc.TextInput(
                        id="tune-label",
                        placeholder="optional",
                        size="xs",
                        style={"flex": 1},
                        label="Label of the new run",
                    ),
                ],
                className="start-fields",
            ),
            job_panel.job_panel(job_panel.last_job(current_state(), f"run:{run.id}")),
        ],
    )
