"""Requests that no page makes, of the right form with values that are not, get a sentence; faults stay faults."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dash
import pytest
from callbacks import call
from dash import Input, Output

from app.dashboard.factory import create_app
from app.dashboard.sent import SENT, unsent

RUN = {"id": 1, "step": 0, "kind": "measured", "numbered": False, "picked": None, "peak_ns": 5}
ODD: list[Any] = ["²", -1, 10**30, float("nan"), ["1"], {"a": 1}, True, "\ud800"]


def test_every_property_that_a_callback_takes_has_a_shape(example_app: dash.Dash) -> None:
    unnamed = set()
    for spec in example_app.callback_map.values():
        for given in (*spec["inputs"], *spec["state"]) if "callback" in spec else ():
            identity = min(json.loads(given["id"])) if given["id"].startswith("{") else given["id"]
            name = f"{identity}.{given['property']}"
            if name not in SENT and given["property"] not in SENT and given["property"] != "id":
                unnamed.add(name)
    assert unnamed <= {"_pages_location.search", "tune-restored.data", "tune-versions.children", "run-drawn-first.data"}


@pytest.mark.parametrize(
    ("triggered", "values", "output"),
    [
        ("run-show.value", {"run.data": RUN}, "run-stalls-body"),
        ("run-cursor.data", {"run.data": RUN, "run-show.value": "measured"}, "addresses-words"),
        (
            "run-timeline-zoom.data",
            {"run.data": RUN, "run-show.value": "measured", "run-by.value": "class"},
            "run-window",
        ),
        ("run-group.value", {"run.data": RUN, "run-show.value": "measured", "run-cursor.data": 5}, "run-alive-body"),
        ("run-drawn-first.data", {"run.data": RUN, "run-show.value": "measured", "run-search.value": ""}, "run-rest"),
        (
            "tiers-chart-window.data",
            {"run.data": RUN, "run-show.value": "measured", "tiers-rows.data": [0], "run-cursor.data": 5},
            "tiers-chart",
        ),
        ("graph-hops.value", {"graph.data": {"run": 1, "query": {"op": "1"}}, "graph-stages.value": "both"}, ""),
        ("compare-tab.value", {"compare-by.value": "layer", "compare.data": {"runs": [1, 1], "baseline": 1}}, ""),
        ("runs-wanted.data", {"runs-asked.data": {}}, ""),
        ("new-hardware.value", {}, ""),
    ],
)
def test_values_of_other_types_get_a_sentence_and_no_traceback(
    example_app: dash.Dash, caplog: pytest.LogCaptureFixture, triggered: str, values: dict[str, Any], output: str
) -> None:
    refused = 0
    for changed in (triggered, *values):
        for value in ODD:
            answer = json.dumps(call(example_app, triggered, {triggered: None} | values | {changed: value}, output))
            assert "A fault of the dashboard" not in answer, (changed, value)
            refused += "No page of this dashboard sends this" in answer
    assert refused
    assert "Traceback" not in caplog.text


def test_what_runs_in_the_browser_cannot_be_asked_for(example_app: dash.Dash) -> None:
    name = next(name for name, spec in example_app.callback_map.items() if "callback" not in spec)
    body = {"output": name, "outputs": {}, "inputs": [], "state": [], "changedPropIds": []}
    client = example_app.server.test_client()
    assert client.post("/_dash-update-component", json=body, headers={"Host": "127.0.0.1"}).status_code == 400


def test_a_failure_with_what_a_page_sends_is_a_fault_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(tmp_path / "fault.db")

    @app.callback(Output("x", "children"), Input("x", "n_clicks"))
    def fail(_: int | None) -> str:
        raise KeyError("a bug")

    app.server.test_client().get("/", headers={"Host": "127.0.0.1"})
    assert "A fault of the dashboard (KeyError)" in json.dumps(call(app, "x.n_clicks", {"x.n_clicks": 1}))
    assert "a bug" in caplog.text
    assert "x.n_clicks cannot be read" in json.dumps(call(app, "x.n_clicks", {"x.n_clicks": "one"}))


def test_shapes_are_those_of_single_values_and_of_all_in_a_pattern() -> None:
    one = {"id": "run-picked", "property": "data", "value": {"kind": "op", "id": 3}}
    several = [{"id": {"option": "a", "kind": "switch"}, "property": "checked", "value": value} for value in (True, 1)]
    assert unsent([one]) == []
    assert unsent([one | {"value": {"kind": "layer", "id": 3}}, several]) == ["run-picked.data", "kind.checked"]


def test_the_window_of_a_chart_in_sight_is_what_pages_send() -> None:
    for chart in ("tiers-chart-window", "addresses-chart-window"):
        for window in (None, [0, 5]):
            assert unsent([{"id": chart, "property": "data", "value": {"window": window}}]) == []
        assert unsent([{"id": chart, "property": "data", "value": [0, 5]}]) == [f"{chart}.data"]
