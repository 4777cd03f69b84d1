"""The page of all steps of a run: in place of what explains one step it leads to each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from dashboard_example import example_profile, example_schedule
from plotly.utils import PlotlyJSONEncoder

from app.dashboard.factory import create_app
from app.dashboard.pages import run
from app.dashboard.views.whole import MOST_STEPS, step_rows
from db.database import open_database
from db.recordings import RunDescription, record_profile
from hyperoffload_core.recording import StepNumbers


def test_the_page_of_all_steps_says_why_it_explains_none_and_leads_to_each(tmp_path: Path) -> None:
    database, schedule = open_database(tmp_path / "steps.db"), example_schedule()
    record_profile(database, RunDescription("measured", schedule, "example"), example_profile(schedule, "measured", 3))
    database.close()
    app = create_app(tmp_path / "steps.db")
    with app.server.app_context():
        shown = json.dumps(run.layout(run_id="1", step="all"), cls=PlotlyJSONEncoder)
    assert "belong to one step" in shown
    assert all(f'"href": "/run/1?step={step}"' in shown for step in range(3))
    # Each step of the example is a little longer than the one before.
    marks = [row.mark for row in step_rows(example_profile(schedule, "measured", 3).steps, 1)[0]]
    assert [mark.split(",")[0] for mark in marks] == ["fastest", "median", "slowest"]


def test_of_very_many_steps_the_slowest_are_listed_in_their_order() -> None:
    numbers = StepNumbers(*(np.arange(1000, dtype=np.int64)[::-1].copy() * 1000 for _ in range(7)))
    rows, more = step_rows(numbers, 3)
    assert [row.step for row in rows] == list(range(MOST_STEPS))
    assert more == f"The {MOST_STEPS} slowest of 1,000 steps."
    assert (rows[0].mark, rows[1].mark, rows[3].mark) == ("slowest, highest peak", "", "median")
