"""Versions of the policy's name: saved, compared line by line, and restored."""

from __future__ import annotations

from typing import Any

import dash
import dash_mantine_components as dmc
from dash import Input, Output, ctx, dcc, html
from dash import State as Given

from app.dashboard import parts
from app.dashboard.pages import policy_events
from app.dashboard.state import State
from app.dashboard.views.versions import EDITED, DiffLine, diff_lines, version_rows
from app.policies import policy_versions, restore_version, save_version
from db.policies import PolicyVersionRow


def panel(state: State, name: str) -> list[Any]:
    versions = policy_versions(state.database, name)
    return [
        dcc.Store(id="tune-restored"),
        html.Div(
            [
                parts.button("Save version", "tune-save", "plus"),
                html.Div("Compiling saves one as well.", className="hint"),
            ],
            className="version-tools",
        ),
        html.Div(
            [
                _select("tune-from", "From", versions, _first_shown(versions)),
                _select("tune-to", "To", versions, EDITED),
                dmc.Button("Restore the version on the left", id="tune-restore", variant="default", size="sm"),
            ],
            className="version-choice",
        ),
        html.Div(id="tune-diff", **{"aria-live": "polite"}),
        html.Div(_table(versions), id="tune-versions"),
    ]


def register(app: dash.Dash, shared: State) -> None:
    @app.callback(
        Output("policy-toml", "value", allow_duplicate=True),
        Output("tune-restored", "data"),
        Input("tune-restore", "n_clicks"),
        Given("tune-from", "value"),
        Given("policy-name", "value"),
        prevent_initial_call=True,
    )
    def restore(clicks: int | None, chosen: str | None, name: str) -> Any:
        if not clicks or not (chosen or "").isdecimal():
            return dash.no_update, dash.no_update
        restored = restore_version(shared.database, _name(name), int(chosen or 0))
        return restored.toml, restored.number

    # Its outputs are of this page alone: other pages have a policy and jobs as well.
    @app.callback(
        Output("tune-versions", "children"),
        Output("tune-from", "data"),
        Output("tune-from", "value"),
        Output("tune-to", "data"),
        Input("tune-save", "n_clicks"),
        Input("tune-restored", "data"),
        Input("policy-name", "value"),
        Input("job-id", "data"),
        Given("tune-from", "value"),
        Given("tune", "data"),
        policy_events.FIELDS,
        prevent_initial_call=True,
    )
    def change(
        _saves: int | None,
        _restored: int | None,
        name: str,
        _job: int | None,
        chosen: str | None,
        run_id: int,
        fields: dict[str, Any],
    ) -> Any:
        if ctx.triggered_id == "tune-save":
            save_version(shared.database, policy_events.policy_now(ground=shared.ground(run_id), **fields))
        versions = policy_versions(shared.database, _name(name))
        numbers = [str(v.number) for v in versions]
        value = chosen if chosen in numbers else _first_shown(versions)
        return _table(versions), _choices(versions)[1:], value, _choices(versions)

    @app.callback(
        Output("tune-diff", "children"),
        Output("tune-restore", "disabled"),
        Input("tune-from", "value"),
        Input("tune-to", "value"),
        Input("policy-toml", "value"),
        Input("tune-versions", "children"),
        Given("policy-name", "value"),
    )
    def compare(old: str | None, new: str | None, toml: str, _table: Any, name: str) -> Any:
        versions = policy_versions(shared.database, _name(name))
        if not versions:
            return html.Div("Nothing is saved under this name yet.", className="hint"), True
        lines = diff_lines(versions, old or "", new or EDITED, toml or "")
        return (_diff(lines) if lines else html.Div("No difference.", className="hint")), not (old or "").isdecimal()


def _name(typed: str | None) -> str:
    return (typed or "").strip() or "unnamed"


def _first_shown(versions: list[PolicyVersionRow]) -> str | None:
    return str(versions[0].number) if versions else None


def _choices(versions: list[PolicyVersionRow]) -> list[dict[str, str]]:
    saved = [{"value": str(v.number), "label": f"Version {v.number}"} for v in versions]
    return [{"value": EDITED, "label": "The policy as edited"}, *saved]


def _select(identity: str, label: str, versions: list[PolicyVersionRow], value: str | None) -> Any:
    data = _choices(versions) if identity == "tune-to" else _choices(versions)[1:]
    return dmc.Select(id=identity, label=label, data=data, value=value, allowDeselect=False, w=200)


def _table(versions: list[PolicyVersionRow]) -> Any:
    rows = version_rows(versions)
    if not rows:
        return None
    head = html.Tr([html.Th(t) for t in ("Version", "Saved (UTC)", "What it says", "Note")])
    body = [html.Tr([html.Td(r.number), html.Td(r.saved), html.Td(r.summary), html.Td(r.note)]) for r in rows]
    return html.Div(html.Table([html.Thead(head), html.Tbody(body)], className="plain"), className="scroll versions")


def _diff(lines: list[DiffLine]) -> Any:
    return html.Pre([html.Div(line.text, className=f"diff {line.tone}") for line in lines], className="log")
