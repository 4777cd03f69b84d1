"""Running a session: a worker measures, compiles and executes; everything it reports goes into the database."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.actions import ProgressReport, RequestError, absolute_model, named_run
from app.requests import RunRequest
from app.workers import Cancelled, worker_events
from db.database import Database, require_writable
from db.queries import RunRow, get_run
from db.recordings import (
    RunDescription,
    append_profile,
    cancel_run,
    fail_run,
    finish_run,
    record_profile,
    start_run,
)
from hyperoffload_core.policy import Policy
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import parse_rate
from hyperoffload_core.spool import Captured, Checked, Compiled, Event, Progress, Recorded
from hyperoffload_core.worker import WorkerRequest


@dataclass
class SessionOutcome:
    """What a session recorded: run ids by policy (-1 is the no-offload step), and what was checked."""

    session: str
    measured: dict[int, int] = field(default_factory=dict)
    predicted: dict[int, int] = field(default_factory=dict)
    bit_identical: dict[int, bool | None] = field(default_factory=dict)
    note: str = ""
    capture_ns: int = 0
    compile_ns: dict[int, int] = field(default_factory=dict)

    @property
    def run_ids(self) -> tuple[int, ...]:
        """Measured runs in the order of the policies, the no-offload step first."""
        return tuple(self.measured[policy] for policy in sorted(self.measured))


def run_model(
    request: RunRequest,
    database: Database,
    progress: ProgressReport,
    cancelled: Callable[[], bool],
    started: Callable[[int], None] | None = None,
) -> SessionOutcome:
    """Run a session in a worker and record all of it. ``started`` hears the id of each run as it begins.

    Whatever stops the session (a fault, a cancel, Ctrl-C) leaves the runs begun so far marked failed or cancelled.
    """
    require_writable(database)
    run = named_run(request.model, database)
    model = absolute_model(request.model if run is None else source_model(run))
    worker = WorkerRequest(
        task="session",
        model=model,
        policies=request.policies,
        schedule_files=tuple(path.absolute() for path in request.schedule_files),
        steps=request.steps,
        link_bandwidth=request.link_bandwidth,
        graph_mode=request.graph_mode,
    )
    recorder = _Recorder(database, request, model, started)
    try:
        for event in worker_events(worker, cancelled):
            if isinstance(event, Progress):
                progress(event.done, event.total, event.message)
            else:
                recorder.take(event)
    except (Cancelled, KeyboardInterrupt):
        recorder.close(cancel_run, "cancelled by the user")
        raise
    except BaseException as error:
        recorder.close(fail_run, str(error) or type(error).__name__)
        raise
    return recorder.outcome


def source_model(run: RunRow) -> str:
    """How to capture a recorded run's model again. Raises `RequestError` for a run that does not say."""
    model = run.source.get("model")
    if not model:
        raise RequestError(f"run {run.id} does not say how its model was captured, so it cannot be run again")
    return str(model)


@dataclass
class _Recorder:
    """Puts the events of one session into the database."""

    database: Database
    request: RunRequest
    model: str
    started: Callable[[int], None] | None
    outcome: SessionOutcome = field(default_factory=lambda: SessionOutcome(uuid.uuid4().hex))
    _schedules: dict[int, Schedule] = field(default_factory=dict)
    _open: set[int] = field(default_factory=set)

    def take(self, event: Event) -> None:
        outcome = self.outcome
        if isinstance(event, Captured):
            outcome.capture_ns = event.capture_ns
        elif isinstance(event, Compiled):
            self._schedules[event.policy] = event.schedule
            outcome.compile_ns[event.policy] = event.compile_ns
            outcome.measured[event.policy] = run_id = start_run(
                self.database, self._description(event.policy, "measured")
            )
            self._open.add(run_id)
            if self.started is not None:
                self.started(run_id)
        elif isinstance(event, Recorded) and event.profile.kind == "measured":
            append_profile(self.database, outcome.measured[event.policy], event.profile)
        elif isinstance(event, Recorded):
            description = self._description(event.policy, "predicted")
            outcome.predicted[event.policy] = record_profile(self.database, description, event.profile)
        elif isinstance(event, Checked):
            outcome.bit_identical, outcome.note = event.bit_identical, event.note
            for policy, run_id in outcome.measured.items():
                finish_run(self.database, run_id, event.bit_identical.get(policy), event.note)
                self._open.discard(run_id)

    def close(self, end: Callable[[Database, int, str], None], reason: str) -> None:
        for run_id in sorted(self._open):
            end(self.database, run_id, reason)

    def _description(self, policy: int, kind: Any) -> RunDescription:
        bandwidth = parse_rate(self.request.link_bandwidth)
        versions = self.request.policy_version_ids
        asked = len(self.request.policies) + len(self.request.schedule_files)
        return RunDescription(
            kind=kind,
            schedule=self._schedules[policy],
            model=self._schedules[policy].graph.name,
            source={"model": self.model} | ({"graph_mode": True} if self.request.graph_mode else {}),
            session=self.outcome.session,
            policy_version=versions[policy] if 0 <= policy < len(versions) else None,
            link_bandwidth_bytes_per_s=bandwidth,
            paced=bandwidth is not None,
            label=self.request.label if policy >= 0 and asked == 1 else "",
        )


def session_rows(database: Database, outcome: SessionOutcome) -> list[tuple[RunRow, RunRow | None]]:
    """(measured, predicted) run of each policy, the no-offload step first."""
    return [
        (
            get_run(database, outcome.measured[p]),
            get_run(database, outcome.predicted[p]) if p in outcome.predicted else None,
        )
        for p in sorted(outcome.measured)
    ]


def policy_titles(policies: Sequence[Policy], schedule_files: Sequence[Path] = ()) -> dict[int, str]:
    """What a person calls each policy and each schedule of a session."""
    names = [p.name if p.name != "unnamed" else p.strategy for p in policies]
    return {-1: "no offload"} | dict(enumerate([*names, *(path.name for path in schedule_files)]))
