"""What happens in the policy editor: any field changes the draft, the draft changes all other fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import dash
from dash import ALL, Input, Output, ctx
from dash import State as Given

from app.dashboard.pages.policy_editor import (
    SAVED,
    limit_note,
    options_fields,
    rule_error,
    slider_value,
    strategy_error,
    strategy_help,
    valid_document,
)
from app.dashboard.state import State
from app.dashboard.views.policy import RULE_FIELDS, Draft, Ground, check, draft_of, option_errors
from db.policies import get_policy
from hyperoffload_core.errors import UserError
from hyperoffload_core.policy import PRESETS, Policy, PolicyError, policy_from_toml

OUTPUTS = {
    "draft": Output("policy-draft", "data"),
    "valid": Output("policy-valid", "data"),
    "name": Output("policy-name", "value"),
    "limit": Output("policy-limit", "value"),
    "limit_error": Output("policy-limit", "error"),
    "limit_note": Output("policy-limit", "description"),
    "slider": Output("policy-slider", "value"),
    "strategy": Output("policy-strategy", "value"),
    "strategy_error": Output("policy-strategy", "error"),
    "strategy_help": Output("policy-strategy", "description"),
    "options": Output("policy-options", "children"),
    "rules": Output("policy-rules", "rowData"),
    "rule_error": Output("policy-rule-error", "children"),
    "toml": Output("policy-toml", "value"),
    "toml_error": Output("policy-toml", "error"),
}
INPUTS = {
    "name": Input("policy-name", "value"),
    "limit": Input("policy-limit", "value"),
    "slider": Input("policy-slider", "value"),
    "strategy": Input("policy-strategy", "value"),
    "values": Input({"option": ALL, "kind": "value"}, "value"),
    "switches": Input({"option": ALL, "kind": "switch"}, "checked"),
    "edited": Input("policy-rules", "cellValueChanged"),
    "acted": Input("policy-rules", "cellRendererData"),
    "add": Input("policy-add", "n_clicks"),
    "toml": Input("policy-toml", "value"),
    "preset": Input("policy-preset", "value"),
}
KNOWN = {
    "draft": Given("policy-draft", "data"),
    "ground": Given("policy-ground", "data"),
    "value_ids": Given({"option": ALL, "kind": "value"}, "id"),
    "switch_ids": Given({"option": ALL, "kind": "switch"}, "id"),
}


# What `policy_now` is made of.
FIELDS = {
    "known": Given("policy-draft", "data"),
    "name": Given("policy-name", "value"),
    "limit": Given("policy-limit", "value"),
    "toml": Given("policy-toml", "value"),
}


def register(app: dash.Dash, shared: State, ahead: Callable[[str, Mapping[str, Any]], None] = lambda *_: None) -> None:
    """``ahead(page, document)`` hears of each valid policy of a page that gives its name with the ground, before the
    page's fields are drawn."""

    @app.callback(output=OUTPUTS, inputs={"given": INPUTS, "known": KNOWN}, prevent_initial_call=True)
    def edit(given: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
        ground = shared.ground(known["ground"]["run"]) if "run" in known["ground"] else None
        draft = Draft(**known["draft"])
        # A pattern of inputs names the component, a plain one is enough.
        source = "options" if isinstance(ctx.triggered_id, dict) else ctx.triggered_id
        prop = ctx.triggered[0]["prop_id"].rpartition(".")[2]
        try:
            if source == "policy-preset" and str(given["preset"] or "").startswith(SAVED):
                given["saved"] = get_policy(shared.database, given["preset"].removeprefix(SAVED)).toml
            changed = changed_draft(draft, ground, source, prop, given, known)
        except UserError as error:
            return dict.fromkeys(OUTPUTS, dash.no_update) | {"toml_error": str(error), "valid": None}
        if changed is None:
            return dict.fromkeys(OUTPUTS, dash.no_update)
        result = updates(changed, ground, source)
        if result["valid"] is not None and "page" in known["ground"]:
            ahead(known["ground"]["page"], result["valid"])
        return result

    @app.callback(
        Output({"option": ALL, "kind": "value"}, "error"),
        Input("policy-draft", "data"),
        Given({"option": ALL, "kind": "value"}, "id"),
        prevent_initial_call=True,
    )
    def judge(draft: dict[str, Any], fields: list[dict[str, str]]) -> list[str | None]:
        wrong = option_errors(Draft(**draft))
        return [wrong.get(field["option"]) for field in fields]


def policy_now(known: Mapping[str, Any], ground: Ground | None, name: str, limit: str, toml: str) -> Policy:
    """The policy as the page shows it, also when the last change has not reached the draft yet: a button may be pressed
    right after a key. Raises `UserError` with what is wrong."""
    draft = Draft(**known)
    if toml.strip() and toml != (check(draft, ground).toml or toml):
        draft = draft_of(policy_from_toml(toml, "policy"))
    else:
        draft = replace(draft, name=name.strip() or "unnamed", limit=limit)
    checked = check(draft, ground)
    if checked.policy is None:
        raise PolicyError(checked.error)
    return checked.policy


def changed_draft(
    draft: Draft,
    ground: Ground | None,
    source: str | None,
    prop: str,
    given: Mapping[str, Any],
    known: Mapping[str, Any],
) -> Draft | None:
    """The draft after an event; None when nothing changed. Raises `UserError` for a text that is no policy."""
    if source == "policy-name":
        return replace(draft, name=(given["name"] or "").strip() or "unnamed")
    if source == "policy-limit":
        return replace(draft, limit=given["limit"] or "")
    if source == "policy-slider" and given["slider"] != slider_value(draft.limit, ground):
        return replace(draft, limit=f"{given['slider']}%")
    if source == "policy-strategy" and given["strategy"] != draft.strategy:
        # A policy that is called like its strategy goes on being called like it.
        name = given["strategy"] if draft.name == draft.strategy else draft.name
        return replace(draft, name=name, strategy=given["strategy"], options={})
    if source == "options":
        values = zip((*known["value_ids"], *known["switch_ids"]), (*given["values"], *given["switches"]), strict=True)
        options = {identity["option"]: value for identity, value in values if value not in (None, "")}
        return replace(draft, options=options) if options != draft.options else None
    if source == "policy-rules":
        return replace(draft, rules=_changed_rules(draft.rules, prop, given))
    if source == "policy-add" and given["add"]:
        return replace(
            draft, rules=[*draft.rules, {"id": _new_id(draft.rules), "class": "activation", "action": "offload"}]
        )
    if source == "policy-toml":
        return _numbered(draft_of(policy_from_toml(given["toml"] or "", "policy")))
    if source == "policy-preset" and given.get("saved"):
        return _numbered(draft_of(policy_from_toml(given["saved"], "the saved policy")))
    if source == "policy-preset" and given["preset"] in PRESETS:
        return _numbered(draft_of(PRESETS[given["preset"]]))
    return None


def updates(draft: Draft, ground: Ground | None, source: str | None) -> dict[str, Any]:
    """Every field after a change, except the one the person is in."""
    checked = check(draft, ground)
    whole = source in ("policy-toml", "policy-preset")
    result: dict[str, Any] = {
        "draft": asdict(replace(draft, rules=[_kept(row) for row in checked.rows])),
        "valid": valid_document(checked),
        "name": draft.name,
        "limit": draft.limit,
        "limit_error": checked.limit_error or None,
        "limit_note": limit_note(checked),
        "slider": slider_value(draft.limit, ground),
        "strategy": draft.strategy,
        "strategy_error": strategy_error(draft, checked),
        "strategy_help": strategy_help(draft.strategy),
        "options": options_fields(draft) if whole or source == "policy-strategy" else dash.no_update,
        "rules": checked.rows,
        "rule_error": rule_error(checked),
        "toml": checked.toml or dash.no_update,
        "toml_error": None if checked.policy is not None or source != "policy-toml" else checked.error,
    }
    own = {"policy-name": "name", "policy-limit": "limit", "policy-slider": "slider", "policy-toml": "toml"}
    if source in own:
        result[own[source]] = dash.no_update
    return result


def _changed_rules(rules: Sequence[Mapping[str, Any]], prop: str, given: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if prop == "cellValueChanged":
        edited = {event["rowId"]: event["data"] for event in given["edited"] or ()}
        return [_kept(edited.get(rule["id"], rule)) for rule in rules]
    action = given["acted"] or {}
    result = list(rules)
    at = next((i for i, rule in enumerate(result) if rule["id"] == action.get("rowId")), None)
    if at is None:
        return result
    if action.get("colId") == "remove":
        del result[at]
    elif action.get("colId") == "up" and at > 0:
        result[at - 1], result[at] = result[at], result[at - 1]
    elif action.get("colId") == "down" and at + 1 < len(result):
        result[at], result[at + 1] = result[at + 1], result[at]
    return result


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the draft keeps of a row of the grid: what was typed, not what it matched."""
    return {name: row.get(name) or "" for name in ("id", *RULE_FIELDS)}


def _numbered(draft: Draft) -> Draft:
    return replace(draft, rules=[{**rule, "id": f"rule{number}"} for number, rule in enumerate(draft.rules)])


def _new_id(rules: Sequence[Mapping[str, Any]]) -> str:
    numbers = [int(str(rule["id"]).removeprefix("rule")) for rule in rules]
    return f"rule{max(numbers, default=-1) + 1}"
