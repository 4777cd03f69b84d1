"""What if: questions about a schedule, answered by playing it again or compiling again; and the command that asks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.main import run
from app.explaining import as_it_went, ask, explained_step
from db.database import open_database
from db.recordings import RunDescription, record_profile
from hyperoffload_core.analysis.liveness import live_peak_bytes
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations
from hyperoffload_core.explain.earlier import NotPossibleError, started_earlier
from hyperoffload_core.explain.questions import (
    FORMS,
    Earlier,
    Keep,
    OtherLimit,
    OtherLink,
    Question,
    QuestionError,
    parse_question,
)
from hyperoffload_core.explain.remedies import Replays, remedies_of
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.explain.whatif import what_if
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule, write_schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.verifier import violations
from tests.graphs import TINY, adjacent_layers, training
from tests.naive_schedule import naive_schedule, random_schedule
from tests.profiles_samples import offload_schedule, profile_of
from tests.random_times import simulate_random

schedules = st.randoms(use_true_random=False).map(random_schedule)


def late() -> Schedule:
    """Layers of 60 ns; w2, w3, w6 and w7 (103 ns each) come from the pool, w3 and w7 asked for at the last moment."""
    graph = adjacent_layers(8, 100)
    ids = {s.name: s.id for s in graph.storages}
    ahead = {"w2": 2, "w3": 0, "w6": 2, "w7": 0}
    schedule = naive_schedule(
        graph,
        homes={ids[name]: "pool" for name in ahead},
        ahead={ids[name]: ops for name, ops in ahead.items()},
        durations_ns=[60] * 8,
    )
    return replace(schedule, memory_limit_bytes=1000)


def compiled(limit: str = "60%") -> Schedule:
    graph = training(4, 1000)
    policy = Policy(memory_limit=limit, options={"effort": "fast"})
    return compile_schedule(graph, Durations((400,) * len(graph.ops), "made up"), TINY, policy)


# --- the words --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("keep decoder.embedding", Keep("decoder.embedding")),
        ("keep 'a b'", Keep("a b")),
        ("prefetch 12 earlier by 5ms", Earlier("prefetch", 12, 5_000_000)),
        ("Store 3 earlier by 1.5 us", Earlier("store", 3, 1500)),
        ("link x2", OtherLink("both", 2.0, None)),
        ("link in x0.5", OtherLink("in", 0.5, None)),
        ("link out 50GB/s", OtherLink("out", None, 50_000_000_000)),
        ("limit 80%", OtherLimit("80%")),
        ("limit 40GiB", OtherLimit("40GiB")),
    ],
)
def test_questions_are_read(text: str, question: Question) -> None:
    assert parse_question(text) == question


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("double the link", "ask for instance keep NAME"),
        ("keep", "is no question"),
        ("prefetch 3 earlier by 5", "'5' is no time"),
        ("prefetch 3 earlier by 0ms", "write a number above 0"),
        ("link fast", "write a factor such as x2"),
        ("link x0", "out of range"),
        ("link unlimited", "write a factor such as x2"),
        ("limit 5x", "is not a size"),
    ],
)
def test_other_words_are_refused_in_one_sentence(text: str, says: str) -> None:
    with pytest.raises(QuestionError, match=says.replace("(", r"\(")) as error:
        parse_question(text)
    assert "\n" not in str(error.value)


# --- played again -----------------------------------------------------------------------------------------------------


def test_twice_the_link_halves_what_is_waited_for() -> None:
    """A transfer of 100 bytes takes 3 + 50 ns; the two that stall cost 53 each instead of 103."""
    answer = what_if(late(), "link x2")
    assert answer.possible
    assert answer.method == "replayed"
    assert answer.after is not None
    assert (answer.before.step_ns, answer.after.step_ns) == (480 + 206, 480 + 106)
    assert answer.unchanged is None
    assert "100 ns shorter" in answer.text


def test_only_the_direction_that_is_named_gets_faster() -> None:
    same = what_if(late(), "link out x2").after
    assert same is not None
    assert same.step_ns == 686


def test_a_prefetch_started_earlier_gives_a_valid_schedule() -> None:
    schedule = late()
    names = {schedule.graph.storages[t.storage].name: t.id for t in schedule.transfers}
    answer = what_if(schedule, f"prefetch {names['w3']} earlier by 60ns")
    assert answer.after is not None
    assert answer.schedule is not None
    assert violations(answer.schedule) == []
    # asked for behind layer 1 it starts at 120 and is there at 223 instead of 283
    assert answer.before.step_ns - answer.after.step_ns == 60
    place = {(r.storage, r.offset) for r in schedule.residencies}
    assert {(r.storage, r.offset) for r in answer.schedule.residencies} != place  # w2 is still where it was to go


def test_a_prefetch_cannot_start_before_its_data_or_its_room_is_there() -> None:
    schedule = late()
    names = {schedule.graph.storages[t.storage].name: t.id for t in schedule.transfers}
    tight = replace(schedule, memory_limit_bytes=schedule.metrics.reserved_bytes)
    answer = what_if(tight, f"prefetch {names['w3']} earlier by 60ns")
    assert not answer.possible
    assert "of the limit are missing" in answer.reason
    stored = naive_schedule(training(2, 50), gaps=[(s, k) for s in range(9) for k in range(4)])
    fetch = next(t for t in stored.transfers if t.kind == "prefetch" and t.after_transfers)
    answer = what_if(stored, f"prefetch {fetch.id} earlier by 1s")
    assert not answer.possible
    assert "\n" not in answer.reason


@settings(max_examples=120, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_what_is_started_earlier_is_valid_and_starts_no_later(schedule: Schedule, seed: int) -> None:
    random = Random(seed)
    if not schedule.transfers:
        return
    schedule = replace(schedule, memory_limit_bytes=schedule.memory_limit_bytes + random.choice([0, 5, 1000]))
    t = random.choice(schedule.transfers)
    try:
        changed = started_earlier(schedule, t.id, random.randint(1, max(1, schedule.metrics.step_ns)))
    except NotPossibleError as error:
        assert "\n" not in str(error)
        return
    assert violations(changed) == []
    assert next(c.start_ns for c in changed.transfers if c.id == t.id) <= t.start_ns + (
        sum(o.end_ns - o.start_ns for o in schedule.transfers) if t.partial else 0
    )


@settings(max_examples=80, deadline=None)
@given(schedules)
def test_what_is_advised_gains_what_was_promised(schedule: Schedule) -> None:
    """Starting earlier always does; going first may need an address that is still in use, and then says so."""
    schedule = replace(schedule, memory_limit_bytes=schedule.memory_limit_bytes + 1000)
    replays = Replays(step_of(schedule))
    for t in schedule.transfers:
        for remedy in remedies_of(replays, t.id):
            if remedy.kind in ("start earlier", "reorder"):
                assert remedy.gain_ns is not None
                answer = what_if(schedule, remedy.what_if)
                assert answer.possible or remedy.kind == "reorder"
                if answer.after is not None:
                    assert answer.after.step_ns <= answer.before.step_ns - remedy.gain_ns


@settings(max_examples=60, deadline=None)
@given(schedules, st.integers(0, 1 << 32))
def test_of_a_step_that_went_otherwise_than_planned_a_move_is_started_earlier_as_well(
    schedule: Schedule, seed: int
) -> None:
    if not schedule.transfers:
        return
    schedule = replace(schedule, memory_limit_bytes=schedule.memory_limit_bytes + 1000)
    went = as_it_went(simulate_random(schedule, np.random.default_rng(seed)), 0)
    answer = ask(simulate_random(schedule, np.random.default_rng(seed)), None, "link x2")
    assert answer.possible
    try:
        changed = started_earlier(went, Random(seed).choice(schedule.transfers).id, went.metrics.step_ns // 9 + 1)
    except NotPossibleError:
        return
    assert {v.rule for v in violations(changed)} <= {"time"}  # its transfers take other times than the link says


# --- compiled again ---------------------------------------------------------------------------------------------------


def test_a_higher_limit_is_compiled_again_and_compared_with_the_same_compilation() -> None:
    schedule = compiled("60%")
    answer = what_if(schedule, "limit 100%")
    assert answer.method == "recompiled"
    assert answer.after is not None
    assert answer.unchanged is not None
    assert answer.schedule is not None
    assert answer.schedule.memory_limit_bytes == live_peak_bytes(schedule.graph)
    assert answer.after.step_ns <= answer.unchanged.step_ns
    assert answer.after.bytes_out == 0


def test_what_is_kept_does_not_move() -> None:
    schedule = compiled("60%")
    names = [s.name for s in schedule.graph.storages]
    moved = next(names[t.storage] for t in schedule.transfers if names[t.storage].startswith("m"))
    answer = what_if(schedule, f"keep {moved}")
    if answer.schedule is None:
        assert "cannot be met" in answer.reason
    else:
        assert names.index(moved) not in {t.storage for t in answer.schedule.transfers}


def test_a_limit_that_cannot_be_met_is_an_answer() -> None:
    answer = what_if(compiled(), "limit 1%")
    assert not answer.possible
    assert "the smallest feasible limit is" in answer.reason
    assert answer.text.startswith("not possible: ")


@pytest.mark.parametrize(
    ("question", "says"),
    [("keep w77", "no storage is called 'w77'; near matches: "), ("prefetch 999 earlier by 1ms", "no transfer 999")],
)
def test_what_is_not_there_cannot_be_asked_about(question: str, says: str) -> None:
    with pytest.raises(QuestionError) as error:
        what_if(compiled(), question)
    assert says in str(error.value)


def test_a_schedule_of_an_unknown_strategy_cannot_be_compiled_again() -> None:
    answer = what_if(late(), "limit 90%")
    assert not answer.possible
    assert "cannot be compiled again: there is no strategy 'naive'" in answer.reason


# --- runs and the command ---------------------------------------------------------------------------------------------


def test_a_measured_run_is_asked_about_as_it_went() -> None:
    """The copy back took 150 ns instead of 100, so that the last op began at 350; twice the link is twice the rate."""
    measured = profile_of(offload_schedule(), "measured", steps=3)
    late = (measured.transfers.direction == 1) * 50
    last = (measured.ops.op == 3) * 30
    slow = replace(
        measured,
        ops=replace(measured.ops, start_ns=measured.ops.start_ns + last, end_ns=measured.ops.end_ns + last),
        transfers=replace(measured.transfers, end_ns=measured.transfers.end_ns + late),
    )
    went = as_it_went(slow, 0)
    assert [t.end_ns - t.start_ns for t in went.transfers] == [100, 150]
    assert went.metrics.step_ns == 100 + 100 + 150 + 100
    answer = ask(slow, None, "link x2")
    assert answer.after is not None
    assert (answer.before.step_ns, answer.after.step_ns) == (450, 400)
    assert explained_step(slow, None).kind == "measured"


@pytest.mark.parametrize("question", ["link x2", "limit 100%", "keep *"])
def test_a_prediction_is_asked_about_with_the_durations_it_was_made_with(question: str) -> None:
    """A session predicts with the durations of its own steps; the schedule was planned with others before."""
    schedule = compiled("60%")
    slower = [2 * ns + 1 for ns in schedule.durations_ns]
    predicted = simulate(schedule, op_ns=slower)
    answer = ask(predicted, None, question)
    assert answer.before.step_ns == predicted.steps.step_ns[0] != schedule.metrics.step_ns
    for numbers in (answer.after, answer.unchanged):
        assert numbers is None or numbers.step_ns >= sum(slower)
    assert ask(simulate(schedule), None, question) == what_if(schedule, question)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With a schedule file and a database of one predicted run of the same schedule."""
    monkeypatch.chdir(tmp_path)
    schedule = compiled()
    write_schedule(schedule, Path("s.json"))
    opened = open_database(Path("hyperoffload.db"))
    description = RunDescription(kind="predicted", schedule=schedule, model="training", label="mine")
    record_profile(opened, description, simulate(schedule))
    opened.close()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["explain", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_and_a_run_of_the_same_schedule_are_explained_alike(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, recorded = said(capsys, "s.json"), said(capsys, "mine")
    assert file == recorded
    assert (file["format"], file["version"]) == ("hyperoffload.explanation", 1)
    assert (
        file["lost_ns"] == sum(s["lost_ns"] for s in file["stalls"]) == sum(t["blocking_ns"] for t in file["transfers"])
    )
    assert {"hidden_ns", "exposed_ns", "blocking_ns", "slack_ns", "cause", "remedy", "parts", "text"} <= set(
        file["transfers"][0]
    )
    assert {"stays", "reason", "rule", "absences", "keep_over_bytes", "name", "text"} <= set(file["storages"][0])
    assert folder


def test_parts_of_it_can_be_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = said(capsys, "latest")
    transfer = whole["transfers"][0]
    one = said(capsys, "latest", "--transfer", str(transfer["id"]), "--storage", transfer["storage_name"])
    assert [t["id"] for t in one["transfers"]] == [transfer["id"]]
    assert "remedies" in one["transfers"][0]
    assert [s["name"] for s in one["storages"]] == [transfer["storage_name"]]
    assert one["storages"][0]["keep_gain_ns"] is not None
    assert "stalls" not in one
    asked = said(capsys, "s.json", "--stalls", "--what-if", "link x2", "--what-if", "limit 1%")
    assert asked["stalls"] == whole["stalls"]
    assert [(a["question"], a["method"], a["possible"]) for a in asked["what_if"]] == [
        ("link x2", "replayed", True),
        ("limit 1%", "recompiled", False),
    ]
    assert folder


def test_it_is_said_in_words(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "s.json"]) == 0
    text = capsys.readouterr().out
    assert "lost to transfers" in text
    assert "because" in text
    assert run(["explain", "s.json", "--stalls", "--storage", "m0", "--transfer", "0", "--what-if", "link x2"]) == 0
    text = capsys.readouterr().out
    assert "'m0'" in text
    assert "what if link x2: the same schedule, played again" in text
    assert folder


def test_the_help_lists_every_form_of_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for form in FORMS:
        kind = re.split(r" (?:in |out )?(?:x2|5ms|80%|50GB/s)", form)[0]
        assert kind in text, form


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["s.json", "--storage", "zzz"], "no storage is called 'zzz'"),
        (["s.json", "--transfer", "999"], "--transfer 999: this schedule has no such transfer; its transfers are 0 to"),
        (["s.json", "--what-if", "faster"], "'faster' is no question"),
        (["s.json", "--step", "3"], "there is no step 3"),
        (["other.json"], "other.json: not a schedule file"),
        (["theirs"], "no run has the label 'theirs'"),
    ],
)
def test_wrong_input_is_one_sentence(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", *arguments]) == 2
    text = capsys.readouterr().err.strip()
    assert says in text
    assert "\n" not in text
    assert folder
