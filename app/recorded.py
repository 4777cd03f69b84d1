"""Recorded runs as the profiles that comparisons and exports take."""

from __future__ import annotations

from db.database import Database, DatabaseError
from db.queries import find_run, load_profile
from profiles.comparison import LabelledProfile

MOST_COMPARED = 8
"""Profiles in one comparison: more lines than this cannot be told apart."""


def load_labelled(database: Database, name: str) -> LabelledProfile:
    """The run a person names, with its label. Raises `DatabaseError` for an unknown one, or one without a step."""
    run = find_run(database, name)
    if run.step_count == 0:
        raise DatabaseError(f"run {run.id} is {run.status} and holds no step")
    label = run.label or f"{run.id} {run.strategy}"
    return LabelledProfile(label, load_profile(database, run.id), run.id)
