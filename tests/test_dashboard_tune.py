"""The Tune page: what changes against a run, the limit curve, hardware fields, versions, and what its address asks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from dashboard_example import HARDWARE, MIB, example_graph, example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder

from app.dashboard.factory import create_app
from app.dashboard.pages import tune
from app.dashboard.pages.guard import guarded
from app.dashboard.pages.tune_preview import _decisions
from app.dashboard.views.dragging import Drag, dragged, earlier_address, prefetched_name
from app.dashboard.views.hardware import given_hardware, hardware_fields, paced_link
from app.dashboard.views.pareto import Ground, Mark, pareto, point_rows
from app.dashboard.views.policy import Draft, option_errors, option_words
from app.dashboard.views.preview import NAMED, changes, decisions, outcome
from app.dashboard.views.step import StepView
from app.dashboard.views.timeline import Timeline
from app.dashboard.views.tuning import RULE_PARAMETERS, asked_draft
from app.dashboard.views.versions import EDITED, diff_lines, version_rows
from app.policies import policy_versions, restore_version, save_version
from app.predicting import Prediction, Tiers, tiers_of
from db.database import Database, DatabaseError, open_database
from db.queries import get_run
from db.recordings import RunDescription, record_profile
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.policy import Policy, PolicyError, Rule, rule_matches
from hyperoffload_core.schedule import Metrics, Transfer
from hyperoffload_core.strategies import STRATEGIES
from tests.graphs import chain

HOSTILE = '<img src=x onerror="alert(1)">\u202e\x07' + "n" * 10_000


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """Run 1 is measured."""
    database = open_database(tmp_path / "tune.db")
    schedule = example_schedule()
    record_profile(
        database, RunDescription("measured", schedule, "example"), example_profile(schedule, "measured", 3), True
    )
    yield database
    database.close()


def metrics(step_ns: int = 100, reserved: int = 50, **other: int) -> Metrics:
    numbers = {"compute_ns": step_ns, "peak_live_bytes": reserved, "bytes_out": 0, "bytes_in": 0, "exposed_ns": 0}
    return Metrics(
        step_ns=step_ns, reserved_bytes=reserved, **{**numbers, "blocking_ns": 0, "lower_bound_ns": 80, **other}
    )


def point(strategy: str, limit: int, step_ns: int | None, over: int = 0, **other: int) -> Prediction:
    numbers = None if step_ns is None else metrics(step_ns, limit + over, **other)
    return Prediction(strategy, limit, numbers, None, over, (), "" if numbers else "the limit cannot be met")


def texts(component: Any) -> str:
    return json.dumps(component, cls=PlotlyJSONEncoder, ensure_ascii=False)


def test_numbers_stand_beside_those_of_the_run_with_their_kind(database: Database) -> None:
    run = get_run(database, 1)
    assert run.step_median_ns is not None and run.device_bytes is not None
    then = metrics(run.step_median_ns // 2, run.device_bytes + MIB, lower_bound_ns=run.step_median_ns // 4)
    found = {change.label: change for change in changes(run, then)}
    assert found["Step time"].now.endswith("measured")
    assert found["Step time"].tone == "good"
    assert found["Step time"].difference.endswith("(-50.0%)")
    assert (found["Device memory"].difference, found["Device memory"].tone) == ("+1.00 MiB (+0.1%)", "bad")
    assert (found["Above the bound"].then, found["Above the bound"].now) == ("100.0%", "")


def test_a_number_that_stays_says_so(database: Database) -> None:
    run = get_run(database, 1)
    then = metrics(run.step_median_ns or 0, run.device_bytes or 0)
    assert changes(run, then)[0].difference == "as now"


def test_decisions_are_the_storages_whose_tier_changes() -> None:
    graph = example_graph(2)
    count = len(graph.storages)
    nothing = (0,) * count
    weight, hidden, state = (
        next(s.id for s in graph.storages if s.name == name)
        for name in ("layer0.weight", "layer0.hidden", "layer1.adam")
    )

    def moving(*ids: int, factor: int = 1) -> tuple[int, ...]:
        return tuple(factor * s.bytes if s.id in ids else 0 for s in graph.storages)

    now = Tiers((False,) * count, moving(weight, hidden), nothing)
    then = Tiers(tuple(s == state for s in range(count)), moving(hidden, factor=2), nothing)
    found = decisions(graph, now, then)
    assert [(g.change, g.tensor_class, g.count) for g in found.groups] == [
        ("Leaves now", "optimizer_state", 1),
        ("Stays now", "weight", 1),
        ("Moves more", "activation", 1),
    ]
    assert found.groups[2].largest[0].after_bytes == 2 * found.groups[2].largest[0].before_bytes
    assert found.unchanged == count - 3
    assert decisions(graph, now, now).groups == ()


def test_a_large_group_names_the_largest_and_a_hostile_name_is_text() -> None:
    graph = chain(40)
    storages = tuple(replace(s, name=HOSTILE) if s.id == 3 else s for s in graph.storages)
    graph = replace(graph, storages=storages)
    count = len(storages)
    zero = Tiers((False,) * count, (0,) * count, (0,) * count)
    away = Tiers((True,) * count, (0,) * count, (0,) * count)
    found = decisions(graph, zero, away)
    assert sum(g.count for g in found.groups) == count
    assert all(len(g.largest) <= NAMED for g in found.groups)
    shown = texts(_decisions(found))
    assert HOSTILE not in shown  # cut
    assert f"{NAMED} largest" in shown


def test_an_outcome_says_what_is_wrong() -> None:
    assert outcome(point("hyperoffload", 5, None)) == ("bad", "The limit cannot be met.")
    tone, words = outcome(point("mindspore-peak", 5 * MIB, 100, MIB))
    assert tone == "warn"
    assert "Over the limit by 1.00 MiB" in words
    assert outcome(point("hyperoffload", 5, 100)) == ("", "")


GROUND = Ground(10 * MIB, 100 * MIB, 4096 * MIB, 60 * MIB)


def test_the_curve_has_a_line_per_strategy_the_bound_and_what_cannot_be_met() -> None:
    points = [
        point("hyperoffload", 90 * MIB, 10_000_000, lower_bound_ns=9_000_000),
        point("hyperoffload", 50 * MIB, 12_000_000, lower_bound_ns=9_500_000),
        point("mindspore-peak", 50 * MIB, 15_000_000, over=5 * MIB),
        point("optimal", 50 * MIB, None),
    ]
    figure = pareto(points, GROUND, [Mark("run 1 now, measured", 70 * MIB, 13_000_000, 69 * MIB)], "step")
    by_name = {trace["name"]: trace for trace in figure["data"]}
    assert by_name["hyperoffload"]["x"] == [50, 90]
    assert by_name["hyperoffload"]["y"] == [12, 10]
    assert by_name["hyperoffload"]["customdata"] == [50 * MIB, 90 * MIB]
    assert by_name["mindspore-peak"]["marker"]["symbol"][0].endswith("-open")
    assert by_name["no schedule"]["x"] == [50]
    assert (by_name["lower bound"]["x"], by_name["lower bound"]["y"]) == ([50, 90], [9.5, 9])
    assert by_name["run 1 now, measured"]["y"] == [13]
    edges = {(shape["x0"], shape["x1"]) for shape in figure["layout"]["shapes"]}
    assert {(0, 10), (100, 100), (60, 60)} <= edges


def test_a_limit_that_binds_nothing_does_not_press_the_curve_to_the_edge() -> None:
    """A run without a limit has that of the device, here forty times what its step needs."""
    wide = replace(GROUND, limit_bytes=4096 * MIB)
    figure = pareto([point("hyperoffload", 50 * MIB, 9)], wide, [Mark("now", 4096 * MIB, 9, 99 * MIB)], "step")
    assert figure["layout"]["xaxis"]["range"] == [0, 110]
    mark = next(trace for trace in figure["data"] if trace["name"] == "now")
    assert mark["x"] == [110] and "limit 4.00 GiB" in mark["hovertext"][0]
    assert (110, 110) in {(shape["x0"], shape["x1"]) for shape in figure["layout"]["shapes"]}


def test_far_apart_step_times_are_drawn_on_a_logarithmic_axis_and_memory_is_not() -> None:
    points = [point("hyperoffload", 50 * MIB, 1_000_000), point("reactive", 50 * MIB, 90_000_000)]
    axis = pareto(points, GROUND, [], "step")["layout"]["yaxis"]
    assert axis["type"] == "log"
    # Every tick says its whole number: plotly's own would write 500 as a small 5.
    assert [float(text.replace(",", "")) for text in axis["ticktext"]] == pytest.approx(axis["tickvals"])
    assert min(axis["tickvals"]) <= 1 and max(axis["tickvals"]) >= 90
    memory = pareto(points, GROUND, [], "memory")
    assert "type" not in memory["layout"]["yaxis"]
    assert memory["data"][0]["y"] == [50]


def test_an_empty_curve_and_every_strategy_can_be_drawn() -> None:
    assert pareto([], GROUND, [], "step")["data"][0]["x"] == []
    figure = pareto([point(name, 50 * MIB, 1_000_000) for name in STRATEGIES], GROUND, [], "step")
    looks = {
        (t["line"]["color"], t["line"]["dash"], t["marker"]["symbol"][0])
        for t in figure["data"]
        if t["name"] in STRATEGIES
    }
    assert len(looks) == len(STRATEGIES)


def test_points_are_rows_by_strategy_and_limit() -> None:
    rows = point_rows([point("reactive", 9, 100), point("hyperoffload", 5, 90), point("reactive", 5, None)])
    assert [(r.strategy, r.limit_bytes) for r in rows] == [("reactive", 5), ("reactive", 9), ("hyperoffload", 5)]
    assert rows[0].numbers[0] == "no schedule"


def test_every_hardware_number_is_a_field_with_its_source() -> None:
    hardware = load_hardware("ascend-910c")
    fields = {field.key: field for field in hardware_fields(hardware)}
    assert fields["memory"].text == "64.0 GiB"
    assert fields["memory"].source.startswith("primary: ")
    assert fields["link.duplex"].choices == ("full", "half")
    assert not any(field.key.startswith("compute") for field in hardware_fields(hardware, compute=False))


def test_only_changed_texts_override_and_wrong_ones_are_named_by_field() -> None:
    hardware = load_hardware("ascend-910c")
    untouched = {field.key: field.text for field in hardware_fields(hardware)}
    assert given_hardware(hardware, untouched).overrides == {}
    typed = untouched | {"memory": "32GiB", "link.in": "20 GB/s", "compute.flops_per_s": "200", "link.latency_ns": ""}
    assert given_hardware(hardware, typed).overrides == {
        "memory": "32GiB",
        "link.in": "20 GB/s",
        "compute.flops_per_s": 200 * 10**12,
    }
    wrong = untouched | {"memory": "much", "compute.flops_efficiency": "2", "link.latency_ns": "soon"}
    errors = given_hardware(hardware, wrong).errors
    assert set(errors) == {"memory", "compute.flops_efficiency", "link.latency_ns"}
    assert errors["memory"].startswith("'much' is not a size")
    assert errors["compute.flops_efficiency"].startswith("2.0; write a number above 0")
    assert errors["link.latency_ns"] == "'soon' is not a number"
    assert given_hardware(hardware, {"compute.flops_per_s": "inf"}).errors == {
        "compute.flops_per_s": "'inf' is not a number"
    }


def test_a_run_paces_both_directions_alike() -> None:
    assert paced_link(HARDWARE, {}, 123) == "123B/s"
    assert paced_link(HARDWARE, {}, None) == "unlimited"
    assert paced_link(HARDWARE, {"link.in": "3GB/s", "link.out": "3GB/s"}, 123) == "3GB/s"
    with pytest.raises(UserError, match="same rate"):
        paced_link(HARDWARE, {"link.in": "3GB/s"}, 123)


def test_the_address_adds_rules_for_exactly_the_storages_it_names() -> None:
    old = {"id": "rule0", "class": "activation", "action": "offload"}
    draft = asked_draft(Draft(rules=[old]), {"keep": "layer[0].weight", "limit": "70%", "strategy": "reactive"})
    assert (draft.limit, draft.strategy) == ("70%", "reactive")
    assert [rule["id"] for rule in draft.rules] == ["rule0", "rule1"]
    assert draft.rules[1]["class"] == "activation"
    rule = Rule(name=str(draft.rules[0]["name"]), action="keep")
    graph = chain(3)
    named = replace(graph, storages=tuple(replace(s, name="layer[0].weight") for s in graph.storages))
    assert len(rule_matches(named, rule)) == len(named.storages)
    again = asked_draft(draft, {"offload": ["layer[0].weight", "other"]})
    assert [(r.get("name"), r["action"]) for r in again.rules] == [
        ("other", "offload"),
        ("layer[[]0].weight", "offload"),
        (None, "offload"),
    ]


def test_an_address_holds_a_whole_policy() -> None:
    policy = Policy(name="é & <b>", memory_limit="45%", rules=(Rule(scope="*/3-Block/*", action="keep"),))
    draft = asked_draft(Draft(), {"policy": [json.dumps(policy.model_dump(by_alias=True, exclude_none=True))]})
    assert (draft.name, draft.limit, draft.rules[0]["scope"]) == ("é & <b>", "45%", "*/3-Block/*")
    with pytest.raises(PolicyError, match="the policy in the address"):
        asked_draft(Draft(), {"policy": "{"})


def test_versions_are_listed_compared_and_restored(database: Database) -> None:
    save_version(database, Policy(name="night", memory_limit="60%"))
    save_version(
        database, Policy(name="night", memory_limit="45%", rules=(Rule(tensor_class="weight", action="keep"),))
    )
    rows = version_rows(policy_versions(database, "night"))
    assert [(r.number, r.summary) for r in rows] == [(2, "hyperoffload, 45%, 1 rule"), (1, "hyperoffload, 60%")]
    lines = diff_lines(policy_versions(database, "night"), "1", "2", "")
    assert ('-memory_limit = "60%"', "removed") in {(line.text, line.tone) for line in lines}
    assert (' name = "night"', "same") in {(line.text, line.tone) for line in lines}
    restored = restore_version(database, "night", 1)
    assert (restored.number, restored.note) == (3, "restored from version 1")
    versions = policy_versions(database, "night")
    assert diff_lines(versions, "1", "3", "") == []
    assert diff_lines(versions, "3", EDITED, 'name = "night"\n')
    assert diff_lines(versions, "9", "1", "") == []
    with pytest.raises(DatabaseError, match="there is no version 8"):
        restore_version(database, "night", 8)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_option_says_what_it_means_and_its_default(name: str) -> None:
    for option in STRATEGIES[name].options:
        words = option_words(option)
        assert words.title[0].isupper()
        assert "Default: " in words.help
        assert not words.help.startswith(" ")


def test_what_is_wrong_with_an_option_stands_beside_it() -> None:
    draft = Draft(strategy="lookahead", options={"lookahead_ops": -1, "copies_in_flight": 4})
    assert list(option_errors(draft)) == ["lookahead_ops"]
    assert "it is at least 0" in option_errors(draft)["lookahead_ops"]


def test_the_page_begins_with_what_its_address_asks(database: Database) -> None:
    app = create_app(database.path)
    with app.server.app_context():
        page = texts(tune.layout(run_id="1", keep="layer0.weight", limit="80%"))
        wrong = texts(guarded(tune.layout)(run_id="1", policy="{"))
        foreign = texts(tune.layout(run_id="1", utm="x"))
        twice = texts(guarded(tune.layout, several=RULE_PARAMETERS)(run_id="1", keep=["layer0.weight", "layer1.adam"]))
    app.server.config["HYPEROFFLOAD"].database.close()
    assert '"value": "80%"' in page
    assert "layer0.weight" in page
    assert "the policy in the address: not JSON" in wrong
    assert "tune-curve" in foreign
    assert "layer0.weight" in twice
    assert "layer1.adam" in twice


def test_a_schedule_changes_nothing_against_itself() -> None:
    schedule = example_schedule()
    assert decisions(schedule.graph, tiers_of(schedule), tiers_of(schedule)).unchanged == len(schedule.graph.storages)


def test_a_drag_of_a_prefetch_is_its_storage_and_how_much_earlier() -> None:
    view = StepView(example_profile(example_schedule()))
    shown = Timeline(view, None, "class")
    schedule = view.profile.schedule
    fetch = next(t for t in schedule.transfers if t.kind == "prefetch")
    store = next(t for t in schedule.transfers if t.kind == "store")
    name = schedule.graph.storages[fetch.storage].name
    rows = {row.of: shown.centres[row.key] for row in view.lanes.rows}

    def drag(transfer: Transfer, by_ms: float) -> Drag | str:
        lane = "copy_in" if transfer.kind == "prefetch" else "copy_out"
        # a little beside the bar
        return dragged(shown, {"x": transfer.start_ns / 1e6 - 0.01, "y": rows[lane], "by": by_ms, "pixel": 0.01})

    found = drag(fetch, 1.5)
    assert found == Drag(name, 1_500_000)
    assert earlier_address(3, found) == f"/tune/3?earlier={name}%3A1500000"
    assert "only a Prefetch can start earlier" in str(drag(store, 1.5))
    assert "to the left" in str(drag(fetch, -0.5))


def test_only_what_is_prefetched_can_be_picked_to_start_earlier() -> None:
    schedule = example_schedule()
    fetch = next(t for t in schedule.transfers if t.kind == "prefetch")
    name = schedule.graph.storages[fetch.storage].name
    assert (
        prefetched_name(schedule, "transfer", fetch.id) == prefetched_name(schedule, "storage", fetch.storage) == name
    )
    assert prefetched_name(schedule, "op", 0) is None
    assert prefetched_name(schedule, "transfer", 10_000) is None


def test_a_dragged_prefetch_becomes_a_rule_that_keeps_what_other_rules_say() -> None:
    graph = example_graph()
    draft = Draft(rules=[{"id": "rule0", "class": "activation", "action": "offload"}])
    asked = asked_draft(draft, {"earlier": "layer0.hidden:320207"}, graph)
    assert asked.rules[0] == {
        "id": "rule0",
        "name": "layer0.hidden",
        "action": "offload",
        "prefetch_earlier": "0.3202ms",
    }
    kept = Draft(rules=[{"class": "activation", "action": "keep"}])
    assert asked_draft(kept, {"earlier": "layer0.hidden:900"}, graph).rules[0]["action"] == "auto"
    assert asked_draft(draft, {"earlier": "no number"}, graph).rules[1:] == []
