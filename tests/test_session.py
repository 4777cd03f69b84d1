"""A session says in words when results differ for a reason that is in the model itself."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hyperoffload_core.policy import Policy
from hyperoffload_core.session import NO_OFFLOAD, capture_model, run_session
from hyperoffload_core.spool import Checked, Event

pytestmark = pytest.mark.mindspore
MODELS = Path(__file__).parent / "models"


def checked(model: str) -> Checked:
    events: list[Event] = []
    policy = Policy(strategy="reactive", memory_limit="80%")
    run_session(
        capture_model(model, with_values=True),
        [policy],
        steps=1,
        link_bandwidth="unlimited",
        report=events.append,
        cancelled=lambda: False,
    )
    assert isinstance(events[-1], Checked)
    return events[-1]


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
