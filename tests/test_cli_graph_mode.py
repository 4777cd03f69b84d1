"""`hyperoffload run --graph-mode`: MindSpore's own graph mode runs the schedules, and all of it is recorded."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from plugin_ops import skip_without_plugin

from db.database import open_database
from db.queries import RunRow, get_run, load_profile
from hyperoffload_core.explain.explanation import explain
from hyperoffload_core.recording import UNKNOWN_ADDRESS, Profile
from tests.command import hyperoffload

pytestmark = [pytest.mark.mindspore, pytest.mark.usefixtures("built_plugin")]
STEPS = 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graph_mode")


@pytest.fixture(scope="module")
def session(folder: Path) -> dict[str, dict[str, object]]:
    """What the command printed, by policy."""
    skip_without_plugin()
    done = hyperoffload(
        *("run", "tiny", "--graph-mode", "--limit", "60%", "--link-bandwidth", "1GB/s"),
        *("--steps", str(STEPS), "--json"),
        folder=folder,
    )
    assert done.returncode == 0, done.stderr
    return {row["policy"]: row for row in json.loads(done.stdout)["policies"]}


def recorded(folder: Path, number: object) -> tuple[RunRow, Profile]:
    assert isinstance(number, int)
    opened = open_database(folder / "hyperoffload.db", create=False)
    try:
        return get_run(opened, number), load_profile(opened, number)
    finally:
        opened.close()


def test_results_are_those_of_the_plain_graph_and_memory_is_within_the_limit(
    session: dict[str, dict[str, object]], folder: Path
) -> None:
    assert [row["bit_identical"] for row in session.values()] == [True, True]
    plain, ours = session["no offload"], session["hyperoffload"]
    assert plain["losses"] == ours["losses"]
    run, profile = recorded(folder, ours["run"])
    assert run.conditions.startswith("measured on ")
    assert ", MindSpore graph mode; link paced to 1.00 GB/s; one schedule after the other" in run.conditions
    assert "of the whole process resident" in run.conditions
    assert "stay on the device" not in run.conditions, "planned with what cannot move"
    assert run.kind_words == "measured, MindSpore graph mode"
    assert run.title == "tiny · hyperoffload · measured, MindSpore graph mode"
    assert run.peak_bytes is not None
    assert run.peak_bytes <= 1.1 * run.memory_limit_bytes
    assert int(recorded(folder, plain["run"])[1].steps.peak_bytes.max()) > 1.5 * run.memory_limit_bytes
    assert (profile.lifetimes.offset == UNKNOWN_ADDRESS).all()


def test_every_op_and_every_transfer_of_every_step_is_recorded(
    session: dict[str, dict[str, object]], folder: Path
) -> None:
    _, profile = recorded(folder, session["hyperoffload"]["run"])
    schedule = profile.schedule
    assert profile.step_count == STEPS
    for step in range(STEPS):
        assert sorted(profile.ops.op[profile.ops.step == step].tolist()) == list(range(len(schedule.graph.ops)))
        assert set(profile.transfers.transfer[profile.transfers.step == step].tolist()) <= {
            t.id for t in schedule.transfers
        }
    assert (profile.steps.bytes_in > 0.9 * schedule.metrics.bytes_in).all()
    assert (profile.steps.bytes_out > 0.9 * schedule.metrics.bytes_out).all()
    took = profile.transfers.end_ns - profile.transfers.start_ns
    assert (took >= np.floor(profile.transfers.bytes)).all()  # 1 GB/s is a byte a nanosecond
    assert explain(profile, 0).moves


def test_a_missing_compiler_is_one_sentence_before_the_work(folder: Path) -> None:
    done = hyperoffload("run", "tiny", "--graph-mode", "--database", "none.db", folder=folder, CXX="no-such-compiler")
    assert done.returncode == 2
    assert "CXX names no-such-compiler, which does not run" in done.stderr
    assert "the op-by-op executor still works" in done.stderr
    assert "measuring" not in done.stderr
