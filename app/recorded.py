"""Recorded runs as the profiles that comparisons and exports take."""

from __future__ import annotations

from db.database import Database, DatabaseError
from db.queries import RunRow, find_run, load_profile
from profiles.comparison import LabelledProfile

MOST_COMPARED = 8
"""Profiles in one comparison: more lines than this cannot be told apart."""


def load_labelled(database: Database, name: str) -> LabelledProfile:
    """The run a person names, with its label. Raises `DatabaseError` for an unknown one, or one without a step."""
    run = find_run(database, name)
    if run.step_count == 0:
        raise DatabaseError(f"run {run.id} is {run.status} and holds no step")
    return LabelledProfile(run_label(run), load_profile(database, run.id), run.id)


def run_label(run: RunRow) -> str:
    """What a run is called in comparisons and exports."""
    return run.label or f"{run.id} {run.strategy}"
