"""Op durations of a captured model on this machine. Imports mindspore."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.compile import compile_schedule
from hyperoffload_core.cost import Durations, measured_durations
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.policy import Policy
from hyperoffload_core.program import CapturedModel
from hyperoffload_core.runtime.executor import Executor
from hyperoffload_core.runtime.interleave import run_interleaved

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
    # Nothing moves in this plan, so the durations it is made with decide nothing.
    assumed = Durations((1000,) * len(captured.graph.ops), "assumed, before anything was measured")
    schedule = compile_schedule(captured.graph, assumed, hardware, NO_OFFLOAD_POLICY, cancelled=cancelled)
    with Executor(captured, schedule, paced=False) as executor:
        executor.load()
        recorders = run_interleaved({"": executor}, batches, MEASURED_STEPS, cancelled=cancelled)
    return measured_durations([recorders[""].profile("measuring op durations")])
