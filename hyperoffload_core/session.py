"""One session: measure a model without offload, compile policies with what was measured, execute all of them in turn.

Needs mindspore and the machine to itself; runs inside `hyperoffload_core.worker`. Everything found goes to ``report``
as it is found (`hyperoffload_core.spool` has the events).
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.capture import capture
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import measured_durations
from hyperoffload_core.given import read_verified, require_graph, timed_for
from hyperoffload_core.graph_session import WAY, InGraphMode
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.measure import MEASURED_STEPS, NO_OFFLOAD_POLICY, measure_durations
from hyperoffload_core.policy import Policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.recording import Profile
from hyperoffload_core.runtime.executor import Executor, StepResult
from hyperoffload_core.runtime.interleave import run_interleaved
from hyperoffload_core.runtime.machine import this_machine
from hyperoffload_core.runtime.reference import Reference, differences, run_reference
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.sizes import format_rate, parse_rate
from hyperoffload_core.spool import CHUNK_STEPS, NO_OFFLOAD, Checked, Compiled, Event, Progress, Recorded
from hyperoffload_core.workloads import load_model

Batch = Sequence[NDArray[Any]]


@dataclass(frozen=True)
class Model:
    """A captured model with the cell it came from; step i gets ``batches[i % len(batches)]``."""

    captured: CapturedModel
    cell: Any
    batches: tuple[Batch, ...] = field(default=())


def capture_model(model: str, *, with_values: bool) -> Model:
    """The model of a workload's name or of ``FILE.py:FUNCTION``. Raises `UserError` kinds in one sentence."""
    loaded = load_model(model, with_values=with_values)
    captured = capture(loaded.cell, loaded.inputs, name=model.rsplit("/", 1)[-1], with_values=with_values)
    batches = tuple(tuple(value.asnumpy() for value in batch) for batch in loaded.batches)
    if with_values and not batches:
        batches = (tuple(captured.values[storage] for storage in captured.inputs),)
    return Model(captured, loaded.cell, batches)


def run_session(
    model: Model,
    policies: Sequence[Policy],
    *,
    steps: int,
    link_bandwidth: str,
    report: Callable[[Event], None],
    cancelled: Callable[[], bool],
    schedule_files: Sequence[Path] = (),
    graph_mode: bool = False,
) -> None:
    """Measure, compile, execute and check; raises `UserError` kinds, `ExecutionError`, or `ExecutionCancelledError`.

    Policy -1 is the no-offload step; the others keep their place in ``policies``, behind which ``schedule_files`` are
    counted on: they are run as they are, timed for this machine. All run interleaved, so that what disturbs the
    machine hits all alike; with ``graph_mode`` in MindSpore's graph mode, one after the other. Predictions use the op
    durations of the no-offload steps of the same run.
    """
    captured = model.captured
    given = [read_verified(path) for path in schedule_files]
    for path, schedule in zip(schedule_files, given, strict=True):
        require_graph(schedule, captured.graph, str(path))
    rate = parse_rate(link_bandwidth)
    hardware = this_machine(rate)
    conditions = _conditions(hardware, rate, graph_mode)
    in_graph: InGraphMode | None = None
    fixed: Mapping[int, str] = {}
    if graph_mode:
        in_graph = InGraphMode(model.cell, captured.graph, model.batches, steps, conditions, report, cancelled)
        durations = in_graph.measure(hardware)
        fixed = in_graph.fixed()
    else:
        report(Progress(0, 0, f"measuring op durations over {MEASURED_STEPS} steps without offload"))
        durations = measure_durations(captured, hardware, model.batches, cancelled)
    report(Progress(0, 0, "compiling"))
    compiled: list[Compiled] = []
    for policy in range(NO_OFFLOAD, len(policies)):
        began = time.monotonic_ns()
        asked = NO_OFFLOAD_POLICY if policy == NO_OFFLOAD else policies[policy]
        schedule = compile_schedule(captured.graph, durations, hardware, asked, fixed=fixed, cancelled=cancelled)
        compiled.append(Compiled(policy, schedule, time.monotonic_ns() - began))
    compiled += [Compiled(n, timed_for(s, durations, hardware), 0) for n, s in enumerate(given, len(policies))]
    for event in compiled:  # only now: a policy that cannot be compiled leaves no run behind
        report(event)
    schedules = {event.policy: event.schedule for event in compiled}
    outcomes: dict[int, _Outcome] = {}
    if in_graph is not None:
        measured = in_graph.execute(schedules, rate is not None)
    else:
        measured, outcomes = _execute(model, schedules, steps, conditions, rate is not None, report, cancelled)
    in_run = measured_durations(measured[NO_OFFLOAD])
    for policy, schedule in schedules.items():
        said = f"predicted for {hardware.title}, {conditions[1]}; op durations {in_run.source} of the same run"
        op_ns = [in_run.ns[op] for op in schedule.graph.origins]
        report(Recorded(policy, simulate(schedule, op_ns=op_ns, conditions=said)))
    report(Progress(0, 0, "comparing results with MindSpore's own graph-mode run"))
    if in_graph is not None:
        same = in_graph.bit_identical()
        report(Checked(same, "; ".join(_reasons(captured.graph, same))))
    else:
        report(_check(model, outcomes, steps))


def _conditions(hardware: Hardware, rate: int | None, graph_mode: bool) -> tuple[str, str]:
    link = (
        f"link paced to {format_rate(rate)}" if rate else f"link unpaced ({format_rate(hardware.link_in.bytes_per_s)})"
    )
    return f"measured on {hardware.title}, {WAY if graph_mode else 'MindSpore kernels one by one'}", link


@dataclass
class _Outcome:
    """Of one executor: a hash of the first result of every step (warm-up too), and the parameters after the last."""

    results: list[str] = field(default_factory=list)
    values: Mapping[int, NDArray[Any]] = field(default_factory=dict)


def _execute(
    model: Model,
    schedules: Mapping[int, Schedule],
    steps: int,
    conditions: tuple[str, str],
    paced: bool,
    report: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> tuple[dict[int, list[Profile]], dict[int, _Outcome]]:
    """Run ``steps`` steps of every schedule in turn after one warm-up step each."""
    profiles: dict[int, list[Profile]] = {policy: [] for policy in schedules}
    outcomes = {policy: _Outcome() for policy in schedules}
    total = (steps + 1) * len(schedules)

    def on_step(name: str, _step: int, result: StepResult) -> None:
        outcomes[int(name)].results.append(_digest(result.results[0]))
        done = sum(len(o.results) for o in outcomes.values())
        report(Progress(done, total, f"executing {len(schedules)} schedules in turn"))

    with ExitStack() as stack:
        executors = {}
        for policy, schedule in schedules.items():
            executor = stack.enter_context(Executor(model.captured, schedule, paced=paced))
            executor.load()
            executors[policy] = executor
        done = 0
        while done < steps:
            count, warm_up = min(CHUNK_STEPS, steps - done), int(done == 0)
            position = done + 1 - warm_up
            batches = [model.batches[(position + n) % len(model.batches)] for n in range(len(model.batches))]
            turned = sorted(executors, key=lambda policy: (policy - position) % len(executors))
            recorders = run_interleaved(
                {str(policy): executors[policy] for policy in turned},
                batches,
                count,
                warm_up=warm_up,
                on_step=on_step,
                cancelled=cancelled,
            )
            for policy in executors:
                profile = recorders[str(policy)].profile("; ".join(conditions))
                profiles[policy].append(profile)
                report(Recorded(policy, profile))
            done += count
        for policy, executor in executors.items():
            outcomes[policy].values = executor.values()
    return profiles, outcomes


def _check(model: Model, outcomes: Mapping[int, _Outcome], steps: int) -> Checked:
    """Compare every step's first result and the final parameters, byte for byte."""
    batches = [model.batches[n % len(model.batches)] for n in range(steps + 1)]
    try:
        reference = run_reference(model.cell, batches)
    except Exception as error:  # whatever MindSpore raises for a model whose ops ran one by one
        first = (str(error).strip().splitlines() or [type(error).__name__])[0]
        baseline = outcomes[NO_OFFLOAD]
        same: dict[int, bool | None] = {p: _same_as_baseline(outcome, baseline) for p, outcome in outcomes.items()}
        note = f"MindSpore's graph mode did not run this model ({first}); results were compared with the no-offload run"
        return Checked(same, "; ".join([note, *_reasons(model.captured.graph, same)]))
    same = {policy: _same(model.captured, outcome, reference) for policy, outcome in outcomes.items()}
    return Checked(same, "; ".join(_reasons(model.captured.graph, same)))


def _reasons(graph: Graph, same: Mapping[int, bool | None]) -> tuple[str, ...]:
    """Why results may differ without any fault, in words: what capture noted of the graph (random ops)."""
    return tuple(f"results differ: {note}" for note in graph.notes) if False in same.values() else ()


def _same(captured: CapturedModel, outcome: _Outcome, reference: Reference) -> bool:
    results = [_digest(result) for result in reference.results]
    return results == outcome.results and not differences(captured, outcome.values, reference)


def _same_as_baseline(outcome: _Outcome, baseline: _Outcome) -> bool:
    return outcome.results == baseline.results and all(
        value.tobytes() == baseline.values[storage].tobytes() for storage, value in outcome.values.items()
    )


def _digest(result: NDArray[Any]) -> str:
    return hashlib.sha256(result.tobytes()).hexdigest()
