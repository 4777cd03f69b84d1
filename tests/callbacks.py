"""Calls a callback of an application as a browser does: by posting to its update route."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import dash


def call(app: dash.Dash, triggered: str, values: Mapping[str, Any], output: str = "") -> dict[str, Any]:
    """Changed properties (``id.property`` to value) after ``triggered`` (``id.property``) has changed; empty where the
    callback changes nothing. ``output`` is part of the name of one of its outputs, where several callbacks listen."""
    key, spec = next(
        (key, spec)
        for key, spec in app.callback_map.items()
        if output in key and any(_name(given) == triggered for given in spec["inputs"]) and "callback" in spec
    )
    outputs = [_split(name) for name in key.strip(".").split("...")]
    body = {
        "output": key,
        "outputs": outputs if key.startswith("..") else outputs[0],
        "inputs": [_given(given, values) for given in spec["inputs"]],
        "state": [_given(given, values) for given in spec["state"]],
        "changedPropIds": [triggered],
    }
    answer = app.server.test_client().post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1"})
    if answer.status_code == 204:
        return {}
    assert answer.status_code == 200, answer.get_data(as_text=True)
    document = json.loads(answer.get_data(as_text=True))
    changed = document.get("response", {}) | document.get("sideUpdate", {})
    return {f"{name}.{prop}": value for name, props in changed.items() for prop, value in props.items()}


def _name(given: Mapping[str, str]) -> str:
    return f"{given['id']}.{given['property']}"


def _given(given: Mapping[str, str], values: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": _id(given["id"]), "property": given["property"], "value": values.get(_name(given))}


def _split(name: str) -> dict[str, Any]:
    identity, _, prop = name.rpartition(".")
    return {"id": _id(identity), "property": prop}


def _id(text: str) -> Any:
    return json.loads(text) if text.startswith("{") else text
