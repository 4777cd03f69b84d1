"""The few functions most programs need; ``import hyperoffload as ho`` offers them.

    model = ho.capture(cell, inputs)
    schedule = ho.compile(model, limit="60%", link_bandwidth="4GB/s")
    profile = ho.run(model, schedule, steps=5)          # op by op

    # a cell, or a function as mindspore.jit takes it, which MindSpore's own graph mode runs under the schedule
    schedule = ho.compile(step, inputs, limit="60%", graph_mode=True)
    step = ho.attach(step, schedule)
    loss = step(*inputs)

mindspore is imported by what captures, measures or runs, never by importing this.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.capture import capture as capture_cell
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

if TYPE_CHECKING:
    from hyperoffload_core.mindspore_plugin.attach import Attached

__all__ = [
    "Policy",
    "attach",
    "capture",
    "compile",
    "detach",
    "load_hardware",
    "read_schedule",
    "run",
    "simulate",
    "write_schedule",
]

THIS_MACHINE = "this-machine"

Batch = Sequence[NDArray[Any]]


class InterfaceError(UserError):
    """Arguments that do not go together."""


def capture(target: Any, inputs: Any, *, name: str = "", with_values: bool = True) -> CapturedModel:
    """Capture ``target(*inputs)``: one step of a training cell, an inference cell, or a function as `mindspore.jit`
    takes it. Otherwise as `hyperoffload_core.capture.capture`. Raises `CaptureError` in one sentence.
    """
    from hyperoffload_core.capture.functions import as_cell

    name = name or getattr(target, "__name__", type(target).__name__)
    inputs = _as_tuple(inputs)
    for n, value in enumerate(inputs):
        if isinstance(value, np.ndarray):
            raise InterfaceError(f"input {n} is a numpy array; MindSpore compiles for mindspore.Tensor(array)")
    return capture_cell(as_cell(target), inputs, name=name, with_values=with_values)


def compile(
    model: CapturedModel | Graph | Any,
    inputs: Any = None,
    *,
    limit: str | None = None,
    strategy: str | None = None,
    policy: Policy | Path | str | None = None,
    hardware: Hardware | str | None = None,
    link_bandwidth: str | None = None,
    durations: Durations | None = None,
    graph_mode: bool = False,
) -> Schedule:
    """A verified schedule of a captured model, or of a cell or function and its ``inputs``, which is captured first.

    ``policy`` is a `Policy` or a file; ``limit`` (``"48GiB"``, ``"60%"`` of the no-offload live peak) and ``strategy``
    are put over it. ``hardware`` is a description or its name, whose roofline gives the op durations; without one, or
    with ``"this-machine"``, it is this machine, and the ops are measured here unless ``durations`` are given.
    ``graph_mode`` keeps what cannot move in MindSpore's graph mode on CPU, so that `attach` meets the limit. Raises
    `UserError` kinds: `InfeasibleError` names the smallest feasible limit.
    """
    fixed: dict[int, str] = {}
    if isinstance(model, CapturedModel | Graph):
        if graph_mode:
            raise InterfaceError("for graph mode give the cell or function: compile(step, inputs, graph_mode=True)")
        if inputs is not None:
            raise InterfaceError("a captured model has its inputs already; give inputs only with a cell or function")
    elif inputs is None:
        raise InterfaceError("a cell or function needs its inputs: compile(step, (tokens, targets), ...)")
    else:
        target, model = model, capture(model, inputs)
        if graph_mode:
            fixed = _fixed_in_graph_mode(target, inputs)
    chosen = read_policy(Path(policy)) if isinstance(policy, Path | str) else policy or Policy()
    changes = {name: value for name, value in (("memory_limit", limit), ("strategy", strategy)) if value is not None}
    if changes:
        chosen = Policy.model_validate(chosen.model_dump(by_alias=True) | changes)
    graph = model if isinstance(model, Graph) else model.graph
    rate = None if link_bandwidth is None else parse_rate(link_bandwidth)
    if hardware is None or hardware == THIS_MACHINE:
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
    return compile_schedule(graph, durations or roofline_durations(graph, machine), machine, chosen, fixed=fixed)


def _fixed_in_graph_mode(target: Any, inputs: Any) -> dict[int, str]:
    from hyperoffload_core.capture.functions import as_cell
    from hyperoffload_core.mindspore_plugin.fitting import fixed_storages
    from hyperoffload_core.mindspore_plugin.nodes import live_graph

    cell = as_cell(target)
    return fixed_storages(live_graph(cell, _as_tuple(inputs), ""), cell)


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


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


def attach(
    target: Any, schedule: Schedule | Path | str, *, pool_folder: Path | str | None = None, paced: bool = True
) -> Attached:
    """Run ``target``, a cell or a function as `mindspore.jit` takes it, inside MindSpore under ``schedule``.

    A cell may be called as before, a function by what this returns. ``schedule`` may be a file. Remote memory is shared
    memory, or a file without a name in ``pool_folder``; ``paced`` holds copies back to the links of the schedule's
    hardware. Raises `UserError` kinds, where the model is another one than the schedule's too; where its inputs are
    not only tensors, the first call says that.
    """
    from hyperoffload_core.mindspore_plugin.attach import attach as attach_schedule

    given = read_schedule(Path(schedule)) if isinstance(schedule, Path | str) else schedule
    if not isinstance(given, Schedule):
        raise InterfaceError(f"attach takes a schedule or a schedule file, not a value of type {type(given).__name__}")
    return attach_schedule(target, given, pool_folder=None if pool_folder is None else Path(pool_folder), paced=paced)


def detach(target: Any) -> None:
    """``target``, or what `attach` returned for it, runs as before, with the parameters' values of now."""
    from hyperoffload_core.mindspore_plugin.attach import detach as detach_schedule

    detach_schedule(target)


def captured_batch(model: CapturedModel) -> Batch:
    """The inputs the model was captured with. Raises `InterfaceError` when it was captured without values."""
    missing = [storage for storage in model.inputs if storage not in model.values]
    if missing:
        raise InterfaceError(f"{model.graph.name} was captured without values, so it can be planned but not run")
    return tuple(model.values[storage] for storage in model.inputs)
