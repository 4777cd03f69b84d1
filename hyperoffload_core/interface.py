"""The few functions most programs need; ``import hyperoffload as ho`` offers them.

    model = ho.capture(cell, inputs)
    schedule = ho.compile(model, limit="60%", link_bandwidth="4GB/s")
    profile = ho.run(model, schedule, steps=5)

mindspore is imported by what captures, measures or runs, never by importing this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.capture import capture
from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations, roofline_durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware, load_hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy, read_policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule, read_schedule, write_schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.sizes import UNLIMITED_BYTES_PER_S, parse_rate

__all__ = ["Policy", "capture", "compile", "load_hardware", "read_schedule", "run", "simulate", "write_schedule"]

Batch = Sequence[NDArray[Any]]


class InterfaceError(UserError):
    """Arguments that do not go together."""


def compile(
    model: CapturedModel | Graph,
    *,
    limit: str | None = None,
    strategy: str | None = None,
    policy: Policy | Path | str | None = None,
    hardware: Hardware | str | None = None,
    link_bandwidth: str | None = None,
    durations: Durations | None = None,
) -> Schedule:
    """A verified schedule.

    ``policy`` is a `Policy` or a file; ``limit`` (``"48GiB"``, ``"60%"`` of the no-offload live peak) and ``strategy``
    are put over it. ``hardware`` is a description or its name, whose roofline gives the op durations; without one it
    is this machine, and the ops are measured here unless ``durations`` are given. Raises `UserError` kinds:
    `InfeasibleError` names the smallest feasible limit.
    """
    chosen = read_policy(Path(policy)) if isinstance(policy, Path | str) else policy or Policy()
    changes = {name: value for name, value in (("memory_limit", limit), ("strategy", strategy)) if value is not None}
    if changes:
        chosen = Policy.model_validate(chosen.model_dump(by_alias=True) | changes)
    graph = model if isinstance(model, Graph) else model.graph
    rate = None if link_bandwidth is None else parse_rate(link_bandwidth)
    if hardware is None:
        from hyperoffload_core.measure import measure_durations
        from hyperoffload_core.runtime.machine import this_machine

        machine = this_machine(rate)
        if durations is None:
            if isinstance(model, Graph):
                raise InterfaceError("a graph alone cannot be measured; give a hardware, durations or a captured model")
            durations = measure_durations(model, machine, (captured_batch(model),))
    else:
        machine = load_hardware(hardware) if isinstance(hardware, str) else hardware
        if link_bandwidth is not None:
            machine = machine.with_link_bandwidth(UNLIMITED_BYTES_PER_S if rate is None else rate)
    return compile_schedule(graph, durations or roofline_durations(graph, machine), machine, chosen)


def run(
    model: CapturedModel,
    schedule: Schedule,
    *,
    steps: int = 5,
    batches: Sequence[Batch] | None = None,
    paced: bool = True,
) -> Profile:
    """Execute the schedule on this machine and return what was measured.

    One warm-up step comes first. Step i gets ``batches[i % len(batches)]``, by default the inputs of the capture.
    ``paced`` holds copies back to the link of the schedule's hardware. Raises `ExecutionError`.
    """
    from hyperoffload_core.runtime.executor import Executor
    from hyperoffload_core.runtime.interleave import run_interleaved
    from hyperoffload_core.runtime.machine import this_machine

    with Executor(model, schedule, paced=paced) as executor:
        executor.load()
        recorders = run_interleaved({"": executor}, batches or (captured_batch(model),), steps)
    return recorders[""].profile(f"measured on {this_machine(1).title}, MindSpore kernels one by one")


def captured_batch(model: CapturedModel) -> Batch:
    """The inputs the model was captured with. Raises `InterfaceError` when it was captured without values."""
    missing = [storage for storage in model.inputs if storage not in model.values]
    if missing:
        raise InterfaceError(f"{model.graph.name} was captured without values, so it can be planned but not run")
    return tuple(model.values[storage] for storage in model.inputs)
