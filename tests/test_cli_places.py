"""`hyperoffload export --tiers` and `--addresses`: where storages are, as the run page shows it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from profiles_samples import ACT, offload_schedule, profile_of

from app.cli.main import run
from app.dashboard.views.step import StepView
from db.database import Database, open_database
from db.recordings import RunDescription, record_profile
from profiles.tiers import TIERS

Export = Callable[..., list[dict[str, str]]]


@pytest.fixture
def database(tmp_path: Path) -> Database:
    """Run 1 has three steps, run 2 says of no storage where it lay."""
    opened = open_database(tmp_path / "runs.db")
    profile = profile_of(offload_schedule(), "measured", 3, late_ns=7)
    nowhere = replace(profile.lifetimes, offset=np.full_like(profile.lifetimes.offset, -1))
    for recorded in (profile, replace(profile, lifetimes=nowhere)):
        record_profile(opened, RunDescription("measured", recorded.schedule, "tiny"), recorded)
    return opened


@pytest.fixture
def export(database: Database, tmp_path: Path) -> Export:
    """The rows that ``hyperoffload export 1 ...`` writes."""

    def exported(*arguments: str) -> list[dict[str, str]]:
        file = tmp_path / "places.csv"
        said = ["export", "1", *arguments, "--output", str(file), "--force", "--database", str(database.path)]
        assert run(said) == 0
        with file.open(newline="") as lines:
            return list(csv.DictReader(lines))

    return exported


def test_tiers_of_a_storage_follow_each_other(export: Export) -> None:
    rows = export("--tiers", "--step", "0")
    assert [(r["tier"], int(r["from_ns"]), int(r["to_ns"])) for r in rows if r["storage"] == str(ACT)] == [
        ("device", 0, 100),
        ("out", 100, 200),
        ("pool", 200, 220),
        ("in", 220, 320),
        ("device", 320, 420),
    ]
    assert {(r["name"], r["class"], r["bytes"]) for r in rows if r["storage"] == str(ACT)} == {
        ("act", "activation", "400")
    }


def test_tiers_are_those_that_the_run_page_draws(export: Export) -> None:
    view = StepView(profile_of(offload_schedule(), "measured", 3, late_ns=7), 2)
    drawn = [
        (str(s.id), TIERS[tier], str(start), str(end))
        for s in view.profile.schedule.graph.storages
        for bar in [view.placements.bar(s.id)]
        for tier, start, end in zip(bar.tier.tolist(), bar.start_ns.tolist(), bar.end_ns.tolist(), strict=True)
    ]
    rows = export("--tiers", "--step", "2")
    assert [(r["storage"], r["tier"], r["from_ns"], r["to_ns"]) for r in rows] == drawn


def test_addresses_are_the_stays_of_the_median_step_by_start(export: Export) -> None:
    rows = export("--addresses")
    assert [int(r["from_ns"]) for r in rows] == sorted(int(r["from_ns"]) for r in rows)
    stays = {(int(r["storage"]), int(r["offset_bytes"]), int(r["from_ns"]), int(r["to_ns"])) for r in rows}
    assert stays == {(r.storage, r.offset, r.start_ns + 7, r.end_ns + 7) for r in offload_schedule().residencies}
    assert {r["name"]: r["bytes"] for r in rows} == {
        "weight": "1000",
        "input": "100",
        "act": "400",
        "hidden": "300",
        "loss": "4",
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["1", "--tiers", "--output", "a.json"], "a.json: name a file that ends in .csv"),
        (["1", "--tiers", "--addresses", "--output", "a.csv"], "are files of their own; name one of them"),
        (["1", "--schedule", "--tiers", "--output", "a.csv"], "are files of their own; name one of them"),
        (["1", "--tiers", "--step", "3", "--output", "a.csv"], "there is no step 3; the recorded steps are 0 to 2"),
        (["2", "--addresses", "--output", "a.csv"], "graph mode chose the addresses of this run"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(
    database: Database,
    arguments: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", *arguments, "--database", str(database.path)]) == 2
    said = capsys.readouterr().err.strip()
    assert says in said and "\n" not in said
    assert not list(tmp_path.glob("a.*"))
