"""What all pages of one application share: the database, and the steps looked at last, kept in memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import flask

from app.dashboard.views.policy import Ground, ground_of
from app.dashboard.views.step import RunView, StepView, run_view
from db.database import Database, open_database
from db.documents import load_schedule
from db.queries import RunFilter, get_run, list_runs, load_profile, median_step
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate

# A step of 1,000,000 events takes some 100 MB.
KEPT_STEPS = 8


class State:
    """The open database and an LRU of steps. Methods may be called from any thread."""

    def __init__(self, path: Path) -> None:
        self.database: Database = open_database(path)
        self.path = self.database.path
        self._lock = threading.Lock()
        self._loading: dict[Hashable, threading.Lock] = {}
        self._grounds: OrderedDict[str, Ground] = OrderedDict()
        self._whole: tuple[tuple[int, int, str], RunView] | None = None
        self._steps: OrderedDict[tuple[int, int | None, str], StepView] = OrderedDict()

    def step(self, run_id: int, step: int | None = None) -> StepView:
        """One recorded step, the median one unless numbered. Raises `db.database.DatabaseError`."""
        run = get_run(self.database, run_id)
        number = median_step(self.database, run_id) if step is None else step
        return self._kept(
            (run_id, number, f"{run.schedule_hash} {run.step_count}"),
            lambda: StepView(load_profile(self.database, run_id, number)),
        )

    def whole(self, run_id: int) -> RunView:
        """All recorded steps of a run; the one looked at last is kept. Raises `db.database.DatabaseError`."""
        run = get_run(self.database, run_id)
        key = (run_id, run.step_count, run.schedule_hash)
        with self._one_at_a_time(("whole", run_id)):
            with self._lock:
                if self._whole is not None and self._whole[0] == key:
                    return self._whole[1]
            view = run_view(load_profile(self.database, run_id))
            with self._lock:
                self._whole = (key, view)
            return view

    def prediction(self, run_id: int) -> StepView:
        """What was predicted for a measured run: in its own session (with op durations of the same run) where that was
        recorded, else what the simulator says of its schedule."""
        run = get_run(self.database, run_id)
        if run.session:
            same = RunFilter(kind="predicted", session=run.session, schedule_hash=run.schedule_hash)
            if beside := [row for row in list_runs(self.database, same, limit=1) if row.step_count]:
                return self.step(beside[0].id)
        return self._kept((run_id, None, run.schedule_hash), lambda: StepView(simulate(self.schedule(run_id))))

    def schedule(self, run_id: int) -> Schedule:
        """The schedule of a run, also of one without a recorded step."""
        return load_schedule(self.database, get_run(self.database, run_id).schedule_hash)

    def ground(self, run_id: int) -> Ground:
        """What limits refer to when a run is tuned."""
        schedule = self.schedule(run_id)
        graph = schedule.graph.original
        with self._lock:
            if graph.hash in self._grounds:
                return replace(self._grounds[graph.hash], device_bytes=schedule.hardware.device_bytes)
        ground = ground_of(graph, schedule.hardware.device_bytes)
        with self._lock:
            self._grounds[graph.hash] = ground
            while len(self._grounds) > KEPT_STEPS:
                self._grounds.popitem(last=False)
        return ground

    def _kept(self, key: tuple[int, int | None, str], load: Callable[[], StepView]) -> StepView:
        with self._one_at_a_time(key):
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

    @contextmanager
    def _one_at_a_time(self, key: Hashable) -> Iterator[None]:
        """Of several threads that want the same, one loads it; the others then find it in memory."""
        with self._lock:
            own = self._loading.setdefault(key, threading.Lock())
        try:
            with own:
                yield
        finally:
            with self._lock:
                self._loading.pop(key, None)


def current_state() -> State:
    """The state of the application that answers the current request (several may live in one process)."""
    state: State = flask.current_app.config["HYPEROFFLOAD"]
    return state
