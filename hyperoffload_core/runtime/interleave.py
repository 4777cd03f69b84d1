"""Several executors in one run, step by step in turn, so that whatever disturbs the machine hits all of them alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.runtime.executor import Executor, StepResult
from hyperoffload_core.runtime.recorder import Recorder

Batch = Sequence[NDArray[Any]]
OnStep = Callable[[str, int, StepResult], None]


def run_interleaved(
    executors: Mapping[str, Executor],
    batches: Sequence[Batch],
    steps: int,
    *,
    warm_up: int = 1,
    on_step: OnStep | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> dict[str, Recorder]:
    """Run ``warm_up + steps`` steps of every (loaded) executor in turn and record the last ``steps`` of each.

    Each executor has its own state; step number i of all of them gets ``batches[i % len(batches)]``, counted from the
    first warm-up step. The order of the executors turns by one each round, so none always follows the same one.
    ``on_step(name, step, result)`` is called after each step, with negative step numbers while warming up.
    """
    recorders = {name: Recorder(executor.schedule, steps) for name, executor in executors.items()}
    names = list(executors)
    for number in range(warm_up + steps):
        batch = batches[number % len(batches)]
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            recorder = recorders[name] if number >= warm_up else None
            result = executors[name].run_step(batch, recorder=recorder, cancelled=cancelled)
            if on_step is not None:
                on_step(name, number - warm_up, result)
    return recorders
