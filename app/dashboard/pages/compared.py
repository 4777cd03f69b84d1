"""The comparison a compare page shows, worked out once for all its callbacks."""

from __future__ import annotations

from functools import lru_cache

from app.dashboard.state import State
from app.dashboard.views.comparing import Compared
from app.dashboard.views.comparing_address import CompareAsked
from app.dashboard.views.runs import run_name
from app.recorded import run_label
from db.queries import get_run, load_profile
from profiles.compare import compare
from profiles.comparison import Comparison, LabelledProfile
from profiles.plain import visible

LABEL = 90

# What a run is known by here: a run that is being recorded gains steps, a label can be changed.
_Known = tuple[tuple[int, str, int, str], ...]


def comparison_of(state: State, asked: CompareAsked) -> Comparison:
    """Everything the tables say. Raises `DatabaseError`, `UserError`."""
    return _comparison(state, _known(state, asked), asked.place)


def compared_of(state: State, asked: CompareAsked) -> Compared:
    """The median steps that the charts draw. Raises `DatabaseError`."""
    return _compared(state, _known(state, asked), asked.place)


def labelled_of(state: State, asked: CompareAsked) -> list[LabelledProfile]:
    """The profiles with all their steps. Raises `DatabaseError`."""
    return [_labelled(state, run) for run in asked.runs]


def _known(state: State, asked: CompareAsked) -> _Known:
    rows = [get_run(state.database, run) for run in asked.runs]
    return tuple((row.id, row.schedule_hash, row.step_count, row.label) for row in rows)


@lru_cache(maxsize=4)
def _comparison(state: State, known: _Known, baseline: int) -> Comparison:
    return compare([_labelled(state, run) for run, *_ in known], baseline)


@lru_cache(maxsize=2)
def _compared(state: State, known: _Known, baseline: int) -> Compared:
    names = tuple(visible(run_name(get_run(state.database, run)), LABEL) for run, *_ in known)
    return Compared(names, tuple(state.step(run) for run, *_ in known), baseline)


def _labelled(state: State, run_id: int) -> LabelledProfile:
    run = get_run(state.database, run_id)
    if run.step_count == 1:
        # The chart's step is all there is.
        return LabelledProfile(run_label(run), state.step(run_id).profile, run_id)
    return LabelledProfile(run_label(run), load_profile(state.database, run_id), run_id)
