"""Explanations of schedule files and recorded runs: what `hyperoffload explain` and the dashboard ask for."""

from __future__ import annotations

from pathlib import Path

from app.recorded import load_labelled
from db.database import open_database
from hyperoffload_core.cost import measured_durations, original_durations
from hyperoffload_core.errors import UserError, near_matches
from hyperoffload_core.explain.explanation import Explanation, explain
from hyperoffload_core.given import read_verified, timed_for
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule


class ExplainError(UserError):
    """A step, storage or transfer that is not there."""


def explained_source(text: str, database: Path) -> Schedule | Profile:
    """A schedule file that the verifier accepts, or the profile of a recorded run. Raises `UserError`."""
    if text.endswith((".json", ".json.gz")):
        return read_verified(Path(text))
    opened = open_database(database, create=False)
    try:
        return load_labelled(opened, text).profile
    finally:
        opened.close()


def explained_step(source: Schedule | Profile, step: int | None, kept: tuple[int, ...] = ()) -> Explanation:
    """One step explained; of a profile the median step unless one is named. Raises `ExplainError`."""
    count = 1 if isinstance(source, Schedule) else source.step_count
    if step is not None and not 0 <= step < count:
        raise ExplainError(f"there is no step {step}; the recorded steps are 0 to {count - 1}")
    if isinstance(source, Schedule):
        return explain(source, 0, kept)
    return explain(source, source.median_step if step is None else step, kept)


def schedule_to_ask(source: Schedule | Profile) -> Schedule:
    """The schedule that what-if questions are about: of a measured run with the op durations it measured."""
    if isinstance(source, Schedule):
        return source
    if source.kind == "measured":
        schedule = source.schedule
        durations = original_durations(schedule.graph, measured_durations([source]))
        return timed_for(schedule, durations, schedule.hardware)
    return source.schedule


def named_storages(schedule: Schedule, name: str) -> tuple[int, ...]:
    """Ids of the storages a person means: of that name, else with it in their name. Raises `ExplainError`."""
    storages = schedule.graph.original.storages
    exact = tuple(s.id for s in storages if s.name == name)
    found = exact or tuple(s.id for s in storages if name.lower() in s.name.lower())
    if not found:
        near = near_matches(name, [s.name for s in storages])
        meant = f"near matches: {', '.join(near)}" if near else "none is like it"
        raise ExplainError(f"no storage is called {name!r}; {meant}")
    return found
