"""A background job on a page: progress, log, cancel, and the way to what it made. Found again after a reload."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.state import State
from app.dashboard.views.clipping import LONGEST_SENTENCE, clipped
from app.jobs import JobView, cancel_job, job_view
from db.jobs import JobRow, get_job, list_jobs
from db.models import utc_now

POLL_MS = 300
SHOWN_AFTER_END = timedelta(minutes=10)
TITLES = {"compile": "Compiling", "run": "Compiling and running"}
TONES = {"done": "good", "failed": "bad", "cancelled": "warn", "running": "predicted", "queued": ""}


def job_panel(job_id: int | None) -> Any:
    return html.Div(
        [
            dcc.Store(id="job-id", data=job_id),
            dcc.Store(id="job-found", data=job_id),
            dcc.Interval(id="job-poll", interval=POLL_MS, disabled=job_id is None),
            html.Div(id="job-panel", **{"aria-live": "polite"}),
            dmc.Button("Cancel", id="job-cancel", variant="default", size="xs", display="none", mt=8),
        ],
        className="job",
    )


def last_job(shared: State, model: str) -> int | None:
    """The newest job for a model that still works or has ended a short while ago."""
    for job in list_jobs(shared.database, limit=40):
        recent = job.finished is None or utc_now() - job.finished < SHOWN_AFTER_END
        if job.request.get("model") == model and recent:
            return job.id
    return None


def running_job(shared: State) -> int | None:
    """The newest job for a model that is no recorded run, while it works."""
    for job in list_jobs(shared.database, ("queued", "running"), limit=40):
        if not str(job.request.get("model", "")).startswith("run:"):
            return job.id
    return None


# What `starting` is told of.
WATCHED = {
    "ended": Input("job-poll", "disabled"),
    "job_id": Input("job-id", "data"),
    "found": Given("job-found", "data"),
}


def starting(shared: State, ended: bool, job_id: int | None, found: int | None) -> tuple[bool, str]:
    """Whether the page must wait before it starts a job, and what to know before it does. It waits for what it started
    itself, so that a second click starts nothing; a job that was found when the page was loaded is somebody else's."""
    if ended or job_id is None:
        return False, ""
    if job_id != found:
        return True, ""
    whose = "started on another page, or on this one before it was loaded"
    beside = "Another can be started beside it; steps that are measured meanwhile take longer."
    return False, f"{_named(get_job(shared.database, job_id))} was {whose}. {beside}"


def _named(job: JobRow) -> str:
    """``Job 4 (Compiling policy "more room")``"""
    policies = job.request.get("policies") or [job.request.get("policy") or {}]
    name = clipped(str(policies[0].get("name", "")))
    policy = f' policy "{name}"' if name else ""
    return f"Job {job.id} ({TITLES.get(job.kind, job.kind)}{policy})"


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("job-panel", "children"),
        Output("job-poll", "disabled"),
        Output("job-cancel", "display"),
        Output("job-cancel", "disabled"),
        Input("job-id", "data"),
        Input("job-poll", "n_intervals"),
    )
    def watch(job_id: int | None, _: int | None) -> Any:
        if job_id is None:
            return None, True, "none", False
        job = job_view(shared.path, job_id)
        return view(job), job.ended, "none" if job.ended else None, job.cancel_requested

    @app.callback(
        Output("job-cancel", "disabled", allow_duplicate=True),
        Input("job-cancel", "n_clicks"),
        Given("job-id", "data"),
        prevent_initial_call=True,
    )
    def cancel(clicks: int | None, job_id: int | None) -> Any:
        if not clicks or job_id is None:
            return dash.no_update
        cancel_job(shared.path, job_id)
        return True


def view(job: JobView) -> list[Any]:
    """What a job is doing, or what came of it."""
    title = TITLES.get(job.kind, job.kind)
    head = html.Div(
        [
            html.Strong(title),
            parts.tag(job.state, TONES[job.state]),
            html.Span(f"job {job.id}, {job.elapsed_s:.1f} s", className="hint"),
        ],
        className="job-head",
    )
    children: list[Any] = [head]
    if not job.ended:
        share = 100 * job.done / job.total if job.total else 100
        busy = "cancelling" if job.cancel_requested else job.message or "starting"
        children += [
            dmc.Progress(value=share, animated=True, striped=not job.total, size="md", **{"aria-label": "Progress"}),
            html.Div(busy, className="hint"),
        ]
    elif job.state == "done":
        children.append(html.Div(_results(job), className="results"))
    elif job.state == "failed":
        children.append(parts.notice("bad", clipped(job.message, LONGEST_SENTENCE), "alert"))
    else:
        before = "what was recorded before is in the list of runs" if job.run_ids else "nothing was recorded before"
        children.append(parts.notice("warn", f"Cancelled; {before}."))
    if job.log:
        log = html.Pre(job.log[-20_000:], className="log")
        children.append(html.Details([html.Summary("Log"), log], open=job.state == "failed"))
    return children


def _results(job: JobView) -> list[Any]:
    if not job.run_ids:
        return [html.Div("Nothing was recorded.", className="hint")]
    newest = job.run_ids[-1]
    links = [parts.link_button(f"Open run {newest}", f"/run/{newest}", "trace", "filled", id="job-open")]
    model = str(job.request.get("model", ""))
    others = [int(model.removeprefix("run:"))] if model.startswith("run:") and model[4:].isdecimal() else []
    compared = [*others, *job.run_ids]
    if len(compared) > 1:
        href = "/compare?runs=" + ",".join(str(i) for i in dict.fromkeys(compared))
        what = f"Compare with run {others[0]}" if others else f"Compare {len(compared)} runs"
        links.append(parts.link_button(what, href, "compare", id="job-compare"))
    return links
