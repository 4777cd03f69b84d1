"""What every panel of the run page asks first: which step is shown, predicted or measured or both."""

from __future__ import annotations

from typing import Any

from dash import State as Given

from app.dashboard.state import State
from app.dashboard.views.timeline import Timeline
from profiles.stacks import Grouping

RUN = Given("run", "data")
SHOW = Given("run-show", "value")


def shown_timeline(
    shared: State,
    run: dict[str, Any],
    show: str,
    by: Grouping = "class",
    picked: dict[str, Any] | None = None,
) -> Timeline:
    """``run`` is the page's store {id, step, kind, …}, its step a number or "all"; ``show`` one of measured, predicted,
    both; ``picked`` the store {kind, id}. The step that panels describe is ``.main``. Raises `DatabaseError`."""
    if run["step"] == "all":
        return Timeline(shared.whole(run["id"]), None, by)
    choice = (picked["kind"], picked["id"]) if picked else None
    recorded = shared.step(run["id"], run["step"])
    if recorded.kind == "predicted" or show == "measured":
        return Timeline(recorded, None, by, choice)
    prediction = shared.prediction(run["id"])
    return Timeline(recorded, prediction, by, choice) if show == "both" else Timeline(prediction, None, by, choice)
