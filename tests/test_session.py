"""A session says in words when results differ for a reason that is in the model itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hyperoffload_core.given import OtherGraphError
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import write_schedule
from hyperoffload_core.session import NO_OFFLOAD, capture_model, run_session
from hyperoffload_core.spool import Checked, Compiled, Event
from tests.graphs import training
from tests.naive_schedule import naive_schedule

pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"


def events_of(model: str, *policies: Policy, steps: int = 1) -> list[Event]:
    events: list[Event] = []
    run_session(
        capture_model(model, with_values=True),
        policies,
        steps=steps,
        link_bandwidth="unlimited",
        report=events.append,
        cancelled=lambda: False,
    )
    return events


def checked(model: str) -> Checked:
    last = events_of(model, Policy(strategy="reactive", memory_limit="80%"))[-1]
    assert isinstance(last, Checked)
    return last


def test_results_that_differ_because_of_random_ops_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under a global seed, which other tests of this process may have set, two runs would draw the same."""
    monkeypatch.setattr(sys.modules["mindspore.common.seed"], "_GLOBAL_SEED", None)
    found = checked(f"{MODELS / 'mlp.py'}:dropout")
    assert found.bit_identical == {NO_OFFLOAD: False, 0: False}
    assert found.note == "results differ: Dropout draw random numbers: two runs differ, with or without offload"


def test_nothing_is_excused_where_results_are_identical() -> None:
    found = checked("tiny")
    assert found.bit_identical == {NO_OFFLOAD: True, 0: True}
    assert found.note == ""


def test_tokens_decoded_with_offloaded_caches_are_those_of_graph_mode() -> None:
    """Every step writes its row into caches that leave the device and come back; the next step reads it."""
    policy = Policy(strategy="hyperoffload", memory_limit="60%", rules=({"class": "kv_cache", "action": "offload"},))
    events = events_of("tiny-decode", policy, steps=4)
    schedule = next(e.schedule for e in events if isinstance(e, Compiled) and e.policy == 0)
    caches = {s.id for s in schedule.graph.storages if s.tensor_class == "kv_cache"}
    assert len(caches) == 4
    for kind in ("prefetch", "store"):
        assert caches <= {t.storage for t in schedule.transfers if t.kind == kind}
    assert events[-1] == Checked({NO_OFFLOAD: True, 0: True}, "")


def test_a_schedule_of_another_model_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    write_schedule(naive_schedule(training(3)), tmp_path / "other.json")
    events: list[Event] = []
    with pytest.raises(OtherGraphError, match=r"other\.json: the schedule was made for another graph, 'training3'"):
        run_session(
            capture_model(f"{MODELS / 'mlp.py'}:dropout", with_values=True),
            [],
            steps=1,
            link_bandwidth="unlimited",
            report=events.append,
            cancelled=lambda: False,
            schedule_files=[tmp_path / "other.json"],
        )
    assert events == []
