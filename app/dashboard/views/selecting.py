"""The numbers of a selected stretch of time."""

from __future__ import annotations

from app.dashboard.views.step import StepView
from profiles.selection import Selection, selection


def selection_of(view: StepView, selected: tuple[int, int]) -> Selection:
    return selection(view.profile, view.lanes, view.live, *selected, view.own)
