"""Predictions that are not recorded, and the warm process that makes them for pages."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from app.actions import Problem, compile_problem
from app.planner import Ask, Planner, ask_of
from app.predicting import hurried, nearest_met, predict, sweep, sweep_limits, sweep_policies, tiers_of
from app.requests import CompileRequest
from db.database import open_database
from db.recordings import RunDescription, record_profile
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import roofline_durations
from hyperoffload_core.graphfile import GraphFile
from hyperoffload_core.hardware import load_hardware
from hyperoffload_core.policy import Policy, Rule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.strategies import Cancelled
from tests.dashboard_example import example_profile, example_schedule
from tests.graphs import saving_layers, training


@pytest.fixture(scope="module")
def problem() -> Problem:
    graph, hardware = training(4, 1 << 20), load_hardware("h200")
    return Problem(GraphFile(graph), hardware, roofline_durations(graph, hardware))


@pytest.fixture(scope="module")
def database(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run 1 is a reactive prediction of the problem."""
    path = tmp_path_factory.mktemp("previews") / "runs.db"
    opened = open_database(path)
    graph = problem.content.graph
    schedule = compile_schedule(
        graph, problem.durations, problem.hardware, Policy(memory_limit="70%", strategy="reactive")
    )
    record_profile(opened, RunDescription("predicted", schedule, "training"), simulate(schedule))
    opened.close()
    return path


@pytest.fixture(scope="module")
def planner(database: Path) -> Iterator[Planner]:
    planner = Planner(database)
    yield planner
    planner.close()


def ask(*limits: str, strategy: str = "reactive") -> Ask:
    return ask_of("run:1", [Policy(memory_limit=limit, strategy=strategy) for limit in limits], None, {})


def test_a_prediction_is_the_compiled_schedule_in_numbers(problem: Problem) -> None:
    policy = Policy(memory_limit="70%", strategy="reactive")
    schedule = compile_schedule(problem.content.graph, problem.durations, problem.hardware, policy)
    found = predict(problem, policy)
    assert found.metrics == schedule.metrics
    assert found.tiers == tiers_of(schedule)
    assert sum(found.tiers.bytes_out) == schedule.metrics.bytes_out
    assert sum(found.tiers.bytes_in) == schedule.metrics.bytes_in


def test_what_cannot_be_met_is_a_problem_and_no_error(problem: Problem) -> None:
    found = predict(problem, Policy(memory_limit="1MiB"))
    assert found.metrics is None
    assert "the smallest feasible limit is" in found.problem
    wrong = predict(problem, Policy(rules=(Rule(name="nobody", action="keep"),)))
    assert "matches no storage" in wrong.problem


def test_a_strategy_over_its_limit_says_by_how_much(problem: Problem) -> None:
    found = predict(problem, Policy(memory_limit="70%", strategy="none"))
    assert found.metrics is not None
    assert found.over_bytes == found.metrics.reserved_bytes - found.limit_bytes > 0


def test_a_preview_is_compiled_in_a_hurry() -> None:
    assert hurried(Policy(options={"effort": "best", "reorder": False})).options == {"effort": "fast", "reorder": False}
    assert hurried(Policy(strategy="optimal")).options == {"time_limit_s": 1.0}
    assert hurried(Policy(strategy="reactive")).options == {}


def test_recomputed_storages_count_for_the_originals() -> None:
    graph, hardware = saving_layers(6), load_hardware("h200")
    policy = Policy(memory_limit="80%", strategy="recompute", options={"segments": 3})
    schedule = compile_schedule(graph, roofline_durations(graph, hardware), hardware, policy)
    assert len(schedule.graph.storages) > len(graph.storages)
    assert len(tiers_of(schedule).bytes_out) == len(graph.storages)


def test_a_sweep_asks_each_strategy_under_each_limit(problem: Problem) -> None:
    own = Policy(memory_limit="70%", options={"effort": "normal"}, rules=(Rule(tensor_class="weight", action="keep"),))
    policies = sweep_policies(own, ["hyperoffload", "reactive"], ["100%", "80%"])
    assert [(p.memory_limit, p.strategy, p.options) for p in policies] == [
        ("100%", "hyperoffload", {"effort": "normal"}),
        ("100%", "reactive", {}),
        ("80%", "hyperoffload", {"effort": "normal"}),
        ("80%", "reactive", {}),
    ]
    assert all(p.rules == own.rules for p in policies)
    points = list(sweep(problem, policies))
    assert [p.limit_bytes for p in points] == [p.limit_bytes for p in points[:1]] * 2 + [points[2].limit_bytes] * 2
    assert all(p.metrics is not None and p.metrics.step_ns >= p.metrics.lower_bound_ns for p in points)


def test_limits_of_a_curve_can_be_met() -> None:
    limits = sweep_limits(1000, 333)
    assert limits[:3] == ("100%", "33.3%", "70%")
    assert min(float(limit[:-1]) for limit in limits) == 33.3
    assert sweep_limits(1000, 1000) == ("100%",)


def test_a_schedule_for_a_smaller_limit_answers_for_a_larger_one(problem: Problem) -> None:
    own = Policy(name="mine", memory_limit="75%", strategy="reactive")
    policies = sweep_policies(own, ["reactive", "none"], ["100%", "70%", "60%"])
    points = list(sweep(problem, policies))
    by_limit = {policies[n].memory_limit: points[n] for n in (0, 2, 4)}
    limit = points[0].limit_bytes
    assert nearest_met(own, limit * 3 // 4, policies, points) == by_limit["70%"]
    assert nearest_met(own, limit * 3 // 4, policies, points[:2]) is None
    assert nearest_met(own, limit // 2, policies, points) is None
    other = own.model_copy(update={"rules": (Rule(tensor_class="weight", action="keep"),)})
    assert nearest_met(other, limit, policies, points) is None


def test_a_cancelled_prediction_stops(problem: Problem) -> None:
    with pytest.raises(Cancelled):
        predict(problem, Policy(memory_limit="60%"), lambda: True)


def test_a_changed_hardware_number_changes_durations_that_were_modelled(database: Path) -> None:
    opened = open_database(database)

    def asked(**overrides: object) -> Problem:
        request = CompileRequest(model="run:1", policy=Policy(), overrides=overrides)
        return compile_problem(request, opened, lambda *_: None, lambda: False)

    plain, slower = asked(), asked(**{"compute.memory_efficiency": 0.1, "link.in": "1GB/s"})
    opened.close()
    assert sum(slower.durations.ns) > sum(plain.durations.ns)
    assert slower.hardware.link_in.bytes_per_s == 10**9
    assert slower.hardware.link_out == plain.hardware.link_out


@pytest.mark.parametrize("stretch", [1.0, 0.5])
def test_a_prediction_is_planned_again_with_the_durations_it_was_made_with(tmp_path: Path, stretch: float) -> None:
    """In a session those of its own steps; else an unchanged policy would seem to change the step."""
    schedule = example_schedule()
    with closing(open_database(tmp_path / "session.db")) as opened:
        profile = example_profile(schedule, stretch=stretch)
        record_profile(opened, RunDescription("predicted", schedule, "example"), profile)
        request = CompileRequest(model="run:1", policy=Policy())
        durations = compile_problem(request, opened, lambda *_: None, lambda: False).durations
    assert sum(durations.ns) == sum(profile.ops.end_ns - profile.ops.start_ns)
    assert (durations.source == schedule.duration_source) == (stretch == 1.0)
    assert schedule.duration_source in durations.source


def test_the_planner_answers_like_the_function(planner: Planner, problem: Problem) -> None:
    ticket = planner.ask("a", ask("70%", "80%"))
    assert ticket.wait(60)
    assert ticket.state == "done", ticket.problem
    expected = [predict(problem, Policy(memory_limit=limit, strategy="reactive")) for limit in ("70%", "80%")]
    assert ticket.predictions == expected


def test_the_newest_ask_of_a_page_counts_and_other_pages_are_answered(planner: Planner) -> None:
    slow = planner.ask("a", ask("55%", "56%", "57%", strategy="optimal"))
    other = planner.ask("b", ask("75%"))
    newest = planner.ask("a", ask("65%"))
    assert slow.wait(1)
    assert slow.state == "replaced"
    assert other.wait(60)
    assert newest.wait(60)
    assert (other.state, newest.state) == ("done", "done")


def test_a_question_that_cannot_be_answered_says_why_and_the_next_is_answered(planner: Planner) -> None:
    wrong = planner.ask("a", Ask("run:99", (Policy(),)))
    assert wrong.wait(60)
    assert (wrong.state, "there is no run 99" in wrong.problem) == ("failed", True)
    assert planner.ask("a", ask("72%")).wait(60)


def test_a_process_that_died_is_started_again(planner: Planner) -> None:
    assert planner.ask("a", ask("71%")).wait(60)
    assert planner.process_id is not None
    os.kill(planner.process_id, 9)
    time.sleep(0.1)
    ticket = planner.ask("a", ask("71%"))
    assert ticket.wait(60)
    assert ticket.state == "done", ticket.problem


def test_an_ask_nobody_looks_at_is_dropped(database: Path) -> None:
    planner = Planner(database, unwatched_s=0.0)
    try:
        ticket = planner.ask("closed page", ask(*(f"{percent}%" for percent in range(40, 99)), strategy="optimal"))
        assert ticket.ended.wait(60)
        assert ticket.state == "replaced"
    finally:
        planner.close()
