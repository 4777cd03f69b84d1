"""Explanations of schedule files and recorded runs: what `hyperoffload explain` and the dashboard ask for."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from app.recorded import load_labelled
from db.database import open_database
from hyperoffload_core.cost import profile_durations
from hyperoffload_core.errors import UserError, near_matches
from hyperoffload_core.explain.explanation import Explanation, explain
from hyperoffload_core.explain.questions import parse_ns
from hyperoffload_core.explain.replay import events_of
from hyperoffload_core.explain.step import step_of
from hyperoffload_core.explain.whatif import Answer, what_if
from hyperoffload_core.given import read_verified
from hyperoffload_core.recording import Profile
from hyperoffload_core.retimed import with_times
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.sizes import format_ns
from profiles.filtering import parse_query
from profiles.lanes import lanes
from profiles.moment import Moment, moment
from profiles.searching import Found, find, searchable
from profiles.selection import Selection, selection
from profiles.series import memory_curve
from profiles.stacks import memory_stack


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


def ask(source: Schedule | Profile, step: int | None, question: str) -> Answer:
    """Answer a what-if question about a schedule, or about one step (the median one) of a run as it really went.

    What is compiled again takes the durations of `profile_durations`. Raises `QuestionError`.
    """
    if isinstance(source, Schedule):
        return what_if(source, question)
    durations = profile_durations(source)
    if source.kind == "predicted" and durations.source == source.schedule.duration_source:
        return what_if(source.schedule, question)
    return what_if(as_it_went(source, source.median_step if step is None else step), question, durations)


def as_it_went(profile: Profile, step: int) -> Schedule:
    """The schedule of a profile with the durations of ops and transfers in one of its steps."""
    seen = step_of(profile, step)
    events, schedule = events_of(seen), seen.schedule
    went = replace(schedule, durations_ns=tuple(events.op_ns), duration_source=profile.conditions)
    went = replace(went, metrics=replace(went.metrics, lower_bound_ns=sum(events.op_ns)))
    return with_times(went, simulate(schedule, op_ns=events.op_ns, transfer_ns=events.transfer_ns))


def step_profile(source: Schedule | Profile, step: int | None) -> tuple[Profile, int]:
    """The profile to look into and the step in it: of a schedule its prediction, of a run the median step unless one is
    named. Raises `ExplainError`."""
    profile = simulate(source) if isinstance(source, Schedule) else source
    number = profile.median_step if step is None else step
    if not 0 <= number < profile.step_count:
        raise ExplainError(f"there is no step {step}; the recorded steps are 0 to {profile.step_count - 1}")
    return profile, number


def found_in(source: Schedule | Profile, step: int | None, query: str) -> Found:
    """What a search finds in one step. Raises `FilterError`, `ExplainError`."""
    asked = parse_query(query)
    profile, number = step_profile(source, step)
    return find(searchable(profile, number, memory_curve(profile, number).peak[0]), asked)


def moment_of(source: Schedule | Profile, step: int | None, when: str) -> Moment:
    """Who holds memory at a time (``420ms``) or at the peak (``peak``) of one step. Raises `UserError`."""
    profile, number = step_profile(source, step)
    if when.strip().lower() == "peak":
        return moment(profile, memory_curve(profile, number).peak[0], number)
    return moment(profile, _place_ns(profile, number, when), number)


def selection_in(source: Schedule | Profile, step: int | None, between: str) -> Selection:
    """The numbers of a stretch of one step, written ``10ms-40ms``. Raises `UserError`."""
    profile, number = step_profile(source, step)
    first, dash, last = between.partition("-")
    if not (dash and first.strip() and last.strip()):
        raise ExplainError(f"{between!r} is no stretch of time; write its start and its end, such as 10ms-40ms")
    start, end = _place_ns(profile, number, first), parse_ns(last)
    if start >= end:
        raise ExplainError(f"{between!r} ends before it starts; write its start and its end, such as 10ms-40ms")
    held = memory_stack(profile, "class", number).total
    whole = int(profile.steps.step_ns[number])
    return selection(profile, lanes(profile, number), held, start, min(end, whole), number)


def _place_ns(profile: Profile, number: int, text: str) -> int:
    """A time inside a step. Its start is a place, not a duration, which is never 0. Raises `UserError`."""
    time_ns = 0 if re.fullmatch(r"0+(\.0+)?\s*(ns|us|µs|ms|s)?", text.strip()) else parse_ns(text.strip())
    whole = int(profile.steps.step_ns[number])
    if time_ns >= whole:
        raise ExplainError(f"the step ends at {format_ns(whole)} ({whole:,} ns), not after {text.strip()}")
    return time_ns


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
