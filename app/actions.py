"""What the commands and the background jobs do alike: capture and compile (`app.sessions` runs).

``progress(done, total, message)`` hears how far the work is (total 0 while unknown), ``cancelled()`` is asked now and
then; when it says yes, `Cancelled` is raised and nothing is left behind but runs marked cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.requests import CompileRequest
from app.workers import Cancelled, worker_events
from db.database import Database, require_writable
from db.queries import RunRow, find_run, load_profile
from db.recordings import RunDescription, record_profile
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations, profile_durations, roofline_durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.graphfile import GraphFile, read_graph
from hyperoffload_core.hardware import Hardware, described, load_hardware, overridden
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.spool import Captured, Emitted, Progress
from hyperoffload_core.strategies.base import Cancelled as PlanCancelled
from hyperoffload_core.worker import WorkerRequest

ProgressReport = Callable[[int, int, str], None]
DEFAULT_HARDWARE = "ascend-910c"


class RequestError(UserError):
    """A model or run that cannot be used for what was asked."""


@dataclass(frozen=True)
class Compilation:
    """A compiled policy; ``run_id`` is the recorded prediction, None without a database."""

    schedule: Schedule
    run_id: int | None


def capture_graph(model: str, progress: ProgressReport, cancelled: Callable[[], bool]) -> GraphFile:
    """The graph of a workload or of ``FILE.py:FUNCTION``, captured by a worker without making weights."""
    for event in worker_events(WorkerRequest(task="capture", model=absolute_model(model)), cancelled):
        if isinstance(event, Progress):
            progress(event.done, event.total, event.message)
        elif isinstance(event, Captured):
            return event.content
    raise RequestError(f"{model} gave no graph")


def emit_mindir(
    model: str, schedule: Path, output: Path, weights: bool, progress: ProgressReport, cancelled: Callable[[], bool]
) -> Emitted:
    """Write the model with a schedule file's cache operators to ``output``; a worker does it."""
    request = WorkerRequest(
        task="emit",
        model=absolute_model(model),
        schedule_files=(schedule.absolute(),),
        output=output.absolute(),
        weights=weights,
    )
    for event in worker_events(request, cancelled):
        if isinstance(event, Progress):
            progress(event.done, event.total, event.message)
        elif isinstance(event, Emitted):
            return event
    raise RequestError(f"{model} gave no MindIR")


def compile_model(
    request: CompileRequest,
    database: Database | None,
    progress: ProgressReport,
    cancelled: Callable[[], bool],
) -> Compilation:
    """Compile as asked, simulate, and record the prediction as a run when there is a database."""
    if database is not None:
        require_writable(database)
    problem = compile_problem(request, database, progress, cancelled)
    graph, hardware, durations = problem.content.graph, problem.hardware, problem.durations
    progress(0, 100, f"compiling {len(graph.ops):,} ops with {request.policy.strategy}")
    try:
        schedule = compile_schedule(
            graph,
            durations,
            hardware,
            request.policy,
            progress=lambda fraction, words: progress(round(90 * fraction), 100, words),
            cancelled=cancelled,
        )
    except PlanCancelled as error:
        raise Cancelled from error
    if database is None:
        return Compilation(schedule, None)
    progress(95, 100, "recording the prediction")
    description = RunDescription(
        kind="predicted",
        schedule=schedule,
        model=graph.name,
        source=problem.content.source,
        policy_version=request.policy_version_id,
        link_bandwidth_bytes_per_s=hardware.link_in.bytes_per_s,
        label=request.label,
    )
    return Compilation(schedule, record_profile(database, description, simulate(schedule)))


@dataclass(frozen=True)
class Problem:
    """What policies are compiled for: the graph (with how to capture it again), a hardware, and op durations on it."""

    content: GraphFile
    hardware: Hardware
    durations: Durations


def compile_problem(
    request: CompileRequest, database: Database | None, progress: ProgressReport, cancelled: Callable[[], bool]
) -> Problem:
    """Graph, hardware and durations a compile request means; captures a model that is neither run nor file.

    Raises `RequestError`, `HardwareError`, and what capturing raises.
    """
    run = named_run(request.model, database)
    if run is not None and run.step_count == 0:
        raise RequestError(f"run {run.id} is {run.status} and holds no step to compile from")
    if run is not None and request.hardware is None:
        assert database is not None
        return _recorded_problem(database, run, request.overrides)
    hardware = load_hardware(request.hardware or DEFAULT_HARDWARE, request.overrides)
    if run is not None:
        assert database is not None
        content = GraphFile(load_profile(database, run.id, step=0).schedule.graph.original, run.source)
    elif request.model.endswith((".json", ".json.gz")):
        content = read_graph(Path(request.model))
    else:
        content = capture_graph(request.model, progress, cancelled)
    return Problem(content, hardware, roofline_durations(content.graph, hardware))


def _recorded_problem(database: Database, run: RunRow, overrides: Mapping[str, Any]) -> Problem:
    """A run's own hardware and durations, with single values of the hardware replaced.

    Durations that were modelled follow changed compute numbers; measured ones cannot.
    """
    profile = load_profile(database, run.id)
    schedule = profile.schedule
    durations = profile_durations(profile)
    hardware, content = schedule.hardware, GraphFile(schedule.graph.original, run.source)
    if not overrides:
        return Problem(content, hardware, durations)
    own = described(hardware)
    other = overridden(own, overrides)
    if other.compute != own.compute:
        if not durations.source.startswith("roofline"):
            raise RequestError("op durations were measured; other compute numbers need a hardware that models them")
        durations = roofline_durations(content.graph, other)
    return Problem(content, other, durations)


def named_run(model: str, database: Database | None) -> RunRow | None:
    """The run that ``run:NAME``, a number or ``latest`` means; None for every other model."""
    if not names_run(model):
        return None
    if database is None:
        raise RequestError(f"{model!r} names a recorded run, so a database is needed; add --database FILE")
    return find_run(database, model.removeprefix("run:"))


def names_run(model: str) -> bool:
    """Whether a model is meant to be a recorded run."""
    return model.startswith("run:") or model.isdecimal() or model == "latest"


def absolute_model(model: str) -> str:
    """``FILE.py:FUNCTION`` with the file's whole path; a workload's name as it is."""
    file_name, colon, function = model.rpartition(":")
    return f"{Path(file_name).absolute()}:{function}" if colon and file_name else model
