"""What all pages of one application share: the database, and the steps looked at last, kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import flask

from app.dashboard.views.step import StepView
from db.database import Database, open_database
from db.queries import get_run, load_profile, median_step
from hyperoffload_core.simulator import simulate

# A step of 1,000,000 events takes some 100 MB.
KEPT_STEPS = 8


class State:
    """The open database and an LRU of steps. Methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.database: Database = open_database(path)
        self.path = self.database.path
        self._lock = threading.Lock()
        self._steps: OrderedDict[tuple[int, int | None, str], StepView] = OrderedDict()

    def step(self, run_id: int, step: int | None = None) -> StepView:
        """One recorded step, the median one unless numbered. Raises `db.database.DatabaseError`."""
        run = get_run(self.database, run_id)
        number = median_step(self.database, run_id) if step is None else step
        return self._kept(
            (run_id, number, f"{run.schedule_hash} {run.step_count}"),
            lambda: StepView(load_profile(self.database, run_id, number), 0),
        )

    def prediction(self, run_id: int) -> StepView:
        """What the simulator predicts for the schedule of a run."""
        run = get_run(self.database, run_id)
        key = (run_id, None, run.schedule_hash)
        return self._kept(key, lambda: StepView(simulate(self.step(run_id).profile.schedule), 0))

    def _kept(self, key: tuple[int, int | None, str], load: Callable[[], StepView]) -> StepView:
        with self._lock:
            if key in self._steps:
                self._steps.move_to_end(key)
                return self._steps[key]
        view = load()
        with self._lock:
            self._steps[key] = view
            while len(self._steps) > KEPT_STEPS:
                self._steps.popitem(last=False)
        return view


def current_state() -> State:
    """The state of the application that answers the current request (several may live in one process)."""
    state: State = flask.current_app.config["HYPEROFFLOAD"]
    return state
