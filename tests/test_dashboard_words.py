"""What pages say: numbers with units and kind, details, tables, requests made from fields."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from dashboard_example import MIB, example_profile, example_schedule

from app.dashboard.views import neighbours, pointing
from app.dashboard.views.details import Link, details, longest_gap
from app.dashboard.views.numbers import run_numbers
from app.dashboard.views.requests import (
    LinkError,
    ModelError,
    StepsError,
    checked_model,
    compile_request,
    run_request,
    runnable,
)
from app.dashboard.views.runs import run_conditions, run_name, run_rows, runs_asked
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import Timeline
from db.database import open_database
from db.queries import RunRow, get_run
from db.recordings import RunDescription, fail_run, record_profile, start_run
from hyperoffload_core.policy import Policy
from hyperoffload_core.recording import TransferEvents
from hyperoffload_core.simulator import simulate


@pytest.fixture(scope="module")
def schedule():  # type: ignore[no-untyped-def]
    return example_schedule()


@pytest.fixture(scope="module")
def view(schedule) -> StepView:  # type: ignore[no-untyped-def]
    return StepView(example_profile(schedule, "measured"))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, schedule) -> list[RunRow]:  # type: ignore[no-untyped-def]
    """A measured run of five steps, and one that failed before its first."""
    database = open_database(tmp_path_factory.mktemp("words") / "words.db")
    described = RunDescription("measured", schedule, "example", link_bandwidth_bytes_per_s=2 * 10**9, paced=True)
    first = record_profile(database, described, example_profile(schedule, "measured", 5, 1.1), True)
    second = start_run(database, described)
    fail_run(database, second, "the worker ended")
    found = [get_run(database, first), get_run(database, second)]
    database.close()
    return found


def test_every_number_of_a_measured_run_has_its_prediction_beside_it(rows: list[RunRow], schedule) -> None:  # type: ignore[no-untyped-def]
    cards = {c.label: c for c in run_numbers(rows[0], 800 * MIB, simulate(schedule))}
    assert cards["Step time"].value == "448 ms"
    assert cards["Step time"].note.startswith("median of 5: ")
    assert cards["Step time"].other == "predicted 384 ms (-14.2%)"
    assert cards["Peak device memory"].value == "828 MiB"
    assert cards["Peak device memory"].note == "92% of the limit 900 MiB"
    assert cards["Peak device memory"].other.endswith("live 800 MiB")
    assert cards["Blocking"].tone == "bad"
    assert cards["Overlap"].value == "67%"
    assert cards["Moved per step"].note == "240 MiB out, 240 MiB in"


def test_a_predicted_run_has_no_prediction_beside_it(rows: list[RunRow]) -> None:
    predicted = replace(rows[0], kind="predicted", step_count=1)
    cards = {c.label: c for c in run_numbers(predicted, 828 * MIB, None)}
    assert cards["Step time"].other == cards["Exposed"].other == ""


def test_a_run_says_whether_its_results_are_those_without_offload(rows: list[RunRow]) -> None:
    def results(run: RunRow) -> tuple[str, str, str]:
        card = next(c for c in run_numbers(run, MIB, None) if c.label == "Results")
        return card.value, card.note, card.tone

    assert results(rows[0])[::2] == ("bit-identical", "good")
    random = replace(rows[0], bit_identical=False, reason="results differ: Dropout draws random numbers")
    assert results(random) == ("differ", "results differ: Dropout draws random numbers", "bad")
    assert all(c.label != "Results" for c in run_numbers(replace(rows[0], bit_identical=None), MIB, None))


def test_a_measured_nothing_stands_beside_its_prediction_without_a_percentage(rows: list[RunRow]) -> None:
    hidden = replace(rows[0], exposed_ns=0, blocking_ns=0)
    cards = {c.label: c for c in run_numbers(hidden, MIB, example_profile(example_schedule()))}
    assert cards["Exposed"].value == "0 ns"
    assert cards["Exposed"].other == "predicted 83.9 ms"
    none = example_profile(example_schedule())
    none.steps.exposed_ns[:] = 0
    assert {c.label: c for c in run_numbers(hidden, MIB, none)}["Exposed"].other == "predicted 0 ns"


def test_the_list_of_runs_keeps_raw_numbers_and_missing_ones_missing(rows: list[RunRow]) -> None:
    whole, failed = run_rows(rows)
    assert (whole["limit_bytes"], whole["kind"], whole["status"]) == (900 * MIB, "measured", "complete")
    assert failed["status"] == "failed"
    assert failed["step_ns"] is failed["device_bytes"] is None


def test_a_run_of_graph_mode_is_told_from_one_op_by_op(rows: list[RunRow]) -> None:
    in_graph = replace(rows[0], kind="measured", source={"model": "tiny", "graph_mode": True})
    assert in_graph.kind_words == "measured, MindSpore graph mode"
    (row,) = run_rows([in_graph])
    assert (row["kind"], row["kind_words"], row["kind_tone"]) == ("graph mode", in_graph.kind_words, "measured")
    assert replace(in_graph, kind="predicted").kind_words == "predicted"
    assert replace(in_graph, source={"model": "tiny"}).kind_words == "measured"


def test_device_memory_means_the_same_in_measured_and_predicted_runs(rows: list[RunRow]) -> None:
    """A prediction reserves addresses, gaps included, as a measured run uses them; its live peak stands beside."""
    gaps = replace(rows[0], peak_bytes=850 * MIB, reserved_bytes=860 * MIB)
    predicted = replace(gaps, kind="predicted", step_count=1)
    assert [r["device_bytes"] for r in run_rows([gaps, predicted])] == [850 * MIB, 860 * MIB]
    card = next(c for c in run_numbers(predicted, 828 * MIB, None) if c.label == "Peak device memory")
    assert (card.value, card.other) == ("860 MiB", "live 828 MiB")


def test_a_run_is_named_and_says_under_what_it_was_made(rows: list[RunRow]) -> None:
    assert run_name(rows[0]) == "#1 example · reactive"
    assert run_name(replace(rows[0], label="night")) == "#1 night"
    assert run_conditions(rows[0]) == "example · limit 900 MiB · link 2.00 GB/s (paced) · 5 steps"


def test_a_comparison_asks_for_runs_that_can_be_compared(rows: list[RunRow]) -> None:
    known = {row.id: row for row in rows} | {n: replace(rows[0], id=n) for n in range(3, 12)}
    ids, wrong = runs_asked("1, 2,99,1,<b>,3,4,5,6,7,8,9,10", known, most=8)
    assert ids == [1, 3, 4, 5, 6, 7, 8, 9]
    assert wrong == [
        "Run 2 is failed and holds no step; it is left out.",
        "There is no run 99; it is left out.",
        "There is no run <b>; it is left out.",
        "At most 8 runs can be compared; run 10 is left out.",
    ]
    assert runs_asked("", known, 8) == ([], [])


def test_an_op_names_what_it_touches_and_waits_for(view: StepView) -> None:
    graph = view.profile.schedule.graph
    op = next(o for o in graph.ops if o.name == "backward5")
    found = details(view, "op", op.id)
    assert found is not None
    facts = dict(found.facts)
    assert facts["Phase"] == ("backward",)
    assert [w.text for w in facts["Reads"] if isinstance(w, Link)] == [
        "layer5.hidden (40.0 MiB)",
        "layer5.weight (24.0 MiB)",
    ]
    waits = [w for w in facts["Waits for"] if isinstance(w, Link)]
    assert [w.kind for w in waits] == ["transfer"]
    assert "blocking" in str(facts["Waited before it"][0])
    again = details(view, "transfer", waits[0].id)
    assert again is not None
    assert [w.text for w in dict(again.facts)["Waited for by"] if isinstance(w, Link)] == ["backward5"]


def test_a_transfer_that_did_not_happen_has_no_details_and_is_no_link(view: StepView) -> None:
    """In graph mode some storages stay on the device."""
    moved = view.profile.transfers
    stuck = int(moved.storage[0])
    kept = moved.storage != stuck
    events = TransferEvents(**{name: column[kept] for name, column in vars(moved).items()})
    fewer = StepView(replace(view.profile, transfers=events))
    gone = [t.id for t in view.transfers.values() if t.storage == stuck]
    assert gone
    for transfer in gone:
        assert details(fewer, "transfer", transfer) is None
    for transfer in fewer.transfers:
        assert details(fewer, "transfer", transfer) is not None
    assert all(details(fewer, "op", op.id) for op in view.profile.schedule.graph.ops)
    assert details(fewer, "storage", stuck) is not None


def test_a_storage_says_where_it_is_and_how_long_nobody_needs_it(view: StepView) -> None:
    storages = {s.name: s.id for s in view.profile.schedule.graph.storages}
    moved, kept = (details(view, "storage", storages[n]) for n in ("layer0.hidden", "layer0.adam"))
    assert moved is not None and kept is not None
    facts = dict(moved.facts)
    assert str(facts["On the device"][0]).count(" to ") == 2
    assert "without use" in str(facts["Longest idle"][0])
    links = [w.text for w in facts["Transfers"] if isinstance(w, Link)]
    assert links[0].startswith("Store at ") and all("waited for" in text for text in links)
    start, length = longest_gap(view, storages["layer0.adam"])
    assert (start, length) != (0, 0)
    assert details(view, "storage", 10_000) is details(view, "op", -1) is details(view, "nonsense", 0) is None


def test_the_neighbourhood_runs_from_left_to_right(view: StepView) -> None:
    graph = view.profile.schedule.graph
    op = next(o for o in graph.ops if o.name == "backward3")
    around = neighbours.neighbours(graph, "op", op.id)
    layer = {node.op: node.layer for node in around.nodes}
    assert [node.op for node in around.nodes if node.centre] == [op.id]
    assert {a for a, b, _ in around.edges if b == op.id} == set(op.after)
    assert all(layer[a] < layer[b] for a, b, _ in around.edges)
    assert neighbours.figure(around, graph)["data"][2]["customdata"] == [node.op for node in around.nodes]


def test_a_click_on_the_chart_is_a_thing_or_a_time(view: StepView) -> None:
    bar = {
        "points": [{"customdata": ["copy_in", "measured", 7], "x": 1}],
        "xvals": [12.5],
        "yvals": [2.0],
        "yaxes_id": "y2",
    }
    assert pointing.clicked_item(bar) == ("transfer", 7)
    assert pointing.clicked_time(bar) == 12_500_000
    shown = Timeline(view)
    beside = {"points": [], "xvals": [6.0], "yvals": [3.0], "yaxes_id": "y2"}
    assert pointing.item_under(beside, shown) == ("op", 0)
    curve = {"points": [], "xvals": [6.0], "yvals": [3.0], "yaxes_id": "y"}
    assert pointing.item_under(curve, shown) is None
    assert pointing.clicked_item(None) is pointing.clicked_time(None) is None


def test_a_zoom_is_a_window_and_other_events_are_none() -> None:
    assert pointing.zoom_window({"xaxis.range[0]": 1.5, "xaxis.range[1]": 2.5}, 9) == (1_500_000, 2_500_000)
    assert pointing.zoom_window({"xaxis.range": [0, 1]}, 9) == (0, 1_000_000)
    assert pointing.zoom_window({"xaxis.autorange": True}, 9) == (0, 9)
    assert pointing.zoom_window({"autosize": True}, 9) is pointing.zoom_window(None, 9) is None
    assert pointing.zoom_window({"xaxis.range": [2, 1]}, 9) is None


def test_fields_become_requests(rows: list[RunRow]) -> None:
    policy = Policy(memory_limit="60%")
    asked = compile_request("run:1", policy, None, " 2GB/s ", 3, "x")
    assert asked.overrides == {"link.in": "2GB/s", "link.out": "2GB/s"}
    assert compile_request("run:1", policy, "ascend-910c", "", None, "").overrides == {}
    run = run_request("tiny", policy, None, "7", None, "")
    assert (run.steps, run.link_bandwidth, run.policies, run.graph_mode) == (7, "unlimited", (policy,), False)
    assert run_request("tiny", policy, None, 7, None, "", graph_mode=True).graph_mode
    for make in (
        lambda: compile_request("run:1", policy, None, "fast", None, ""),
        lambda: run_request("tiny", policy, "fast", 5, None, ""),
    ):
        with pytest.raises(LinkError, match="'fast' is not a rate"):
            make()
    assert "does not say how to capture" in runnable(rows[0])
    assert runnable(replace(rows[0], source={"model": "tiny"})) == ""
    assert "too large" in runnable(replace(rows[0], source={"model": "llama3-8b-train"}))


@pytest.mark.parametrize(
    "steps", [0, 1001, -5, "", None, "many", 2.5, True, "٣", "9" * 40, float("nan"), [5], {"a": 1}]
)
def test_steps_that_cannot_be_run_are_refused_beside_their_field(steps: Any) -> None:
    with pytest.raises(StepsError, match="write a whole number of steps, from 1 to 1,000"):
        run_request("tiny", Policy(memory_limit="60%"), None, steps, None, "")


@pytest.mark.parametrize("steps", [1, 1000, "7", " 8 "])
def test_steps_that_can_be_run_are_taken_as_they_are(steps: Any) -> None:
    assert run_request("tiny", Policy(memory_limit="60%"), None, steps, None, "").steps == int(steps)


def test_a_model_is_a_workload_or_a_function_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("raise SystemExit('a page must not run this')\n")
    assert checked_model(" tiny ") == "tiny"
    assert checked_model(f"{file}:build") == f"{file}:build"
    for text, words in (
        ("", "choose a workload"),
        ("tinny", "is no workload"),
        (f"{tmp_path}/none.py:build", "there is no file"),
        (f"{file}:bui ld", "FILE.py:FUNCTION"),
    ):
        with pytest.raises(ModelError, match=words):
            checked_model(text)


def test_moments_are_utc(rows: list[RunRow]) -> None:
    dated = replace(rows[0], created=datetime(2026, 1, 2, 3, 4, 5))
    assert run_rows([dated])[0]["created"] == "2026-01-02 03:04"
