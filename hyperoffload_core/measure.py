"""Op durations of a captured model on this machine. Imports mindspore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations, measured_durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.policy import Policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.interleave import run_interleaved
from hyperoffload_core.schedule import Schedule

NO_OFFLOAD_POLICY = Policy(name="no offload", strategy="none")
MEASURED_STEPS = 3


def measure_durations(
    captured: CapturedModel,
    hardware: Hardware,
    batches: Sequence[Sequence[NDArray[Any]]],
    cancelled: Callable[[], bool] | None = None,
) -> Durations:
    """Run a few steps without offload and take the op durations. ``hardware`` is this machine's.

    Raises `ExecutionError` for a model captured without values, `ExecutionCancelledError`.
    """
    schedule = unmeasured_schedule(captured.graph, hardware, cancelled)
    with Executor(captured, schedule, paced=False) as executor:
        executor.load()
        recorders = run_interleaved({"": executor}, batches, MEASURED_STEPS, cancelled=cancelled)
    return measured_durations([recorders[""].profile("measuring op durations")])


def unmeasured_schedule(graph: Graph, hardware: Hardware, cancelled: Callable[[], bool] | None = None) -> Schedule:
    """The step without offload, before op durations are known. Nothing moves in it, so they decide nothing."""
    assumed = Durations((1000,) * len(graph.ops), "assumed, before anything was measured")
    return compile_schedule(graph, assumed, hardware, NO_OFFLOAD_POLICY, cancelled=cancelled)
