"""What a session does in MindSpore's graph mode: the same measurements, runs and checks as op by op, of one cell.

A cell has one schedule at a time, and is compiled anew for each. So schedules run one after the other, not step by step
in turn, and whatever disturbs the machine may hit one of them alone; the conditions of what is recorded say so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from hyperoffload_core.cost import Durations, measured_durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware
from hyperoffload_core.ir import Graph
from hyperoffload_core.measure import unmeasured_schedule
from hyperoffload_core.mindspore_plugin.attach import Attached
from hyperoffload_core.mindspore_plugin.fitting import fixed_storages
from hyperoffload_core.mindspore_plugin.nodes import LiveGraph, live_graph
from hyperoffload_core.mindspore_plugin.running import (
    CellRun,
    OnStep,
    run_plain,
    run_scheduled,
    stays_sentence,
)
from hyperoffload_core.recording import Profile
from hyperoffload_core.runtime.errors import ExecutionCancelledError
from hyperoffload_core.runtime.reference import tensors_of
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.sizes import format_bytes, format_ns
from hyperoffload_core.spool import CHUNK_STEPS, NO_OFFLOAD, Event, Progress, Recorded

WAY = "MindSpore graph mode"
WARM_UP = 1


class GraphModeError(UserError):
    """A model or schedule that MindSpore's graph mode does not run."""


@dataclass
class InGraphMode:
    """A cell and the inputs of its steps: step i gets ``batches[i % len(batches)]``; ``steps`` of each schedule are
    recorded, after one to warm up, and all start from the same values. ``conditions`` are said with every profile.

    `measure` comes first, then `execute`, then `bit_identical`.
    """

    cell: Any
    graph: Graph
    batches: Sequence[Sequence[NDArray[Any]]]
    steps: int
    conditions: Sequence[str]
    report: Callable[[Event], None]
    cancelled: Callable[[], bool]
    plain: CellRun = field(default_factory=CellRun, init=False)
    runs: dict[int, CellRun] = field(default_factory=dict, init=False)
    no_offload: list[Profile] = field(default_factory=list, init=False)
    live: LiveGraph | None = field(default=None, init=False)

    def measure(self, hardware: Hardware) -> Durations:
        """Op durations in graph mode, from all steps without offload; the plain graph runs before them.

        Raises `UserError`, `ExecutionCancelledError`.
        """
        says = "running MindSpore's graph mode without offload"
        self._run_plain(self._progress(says, 2))
        # MindSpore still knows what capturing compiled; the first schedule makes it forget.
        self.live = live_graph(self.cell, tensors_of(self.batches[0]), self.graph.name)
        schedule = unmeasured_schedule(self.graph, hardware, self.cancelled)
        self._run(NO_OFFLOAD, schedule, False, self.no_offload.append, self._progress(says, 2, 1))
        return measured_durations(self.no_offload)

    def fixed(self) -> dict[int, str]:
        """The storages that no schedule moves in graph mode, and why; `measure` comes first."""
        assert self.live is not None
        return fixed_storages(self.live, self.cell)

    def execute(self, schedules: Mapping[int, Schedule], paced: bool) -> dict[int, list[Profile]]:
        """Run every schedule but that without offload, which has run, and report the profiles of all.

        Raises `UserError`, `ExecutionCancelledError`.
        """
        profiles: dict[int, list[Profile]] = {policy: [] for policy in schedules}

        def take(policy: int, profile: Profile) -> None:
            profiles[policy].append(profile)
            self.report(Recorded(policy, profile))

        for profile in self.no_offload:
            take(NO_OFFLOAD, replace(profile, schedule=schedules[NO_OFFLOAD]))
        others = [policy for policy in schedules if policy != NO_OFFLOAD]
        for place, policy in enumerate(others):
            progress = self._progress("executing schedules one after the other", len(others), place)
            self._run(policy, schedules[policy], paced, partial(take, policy), progress)
        return profiles

    def bit_identical(self) -> dict[int, bool | None]:
        """Whether each schedule gave the results and parameters of the plain graph, byte for byte."""
        return {policy: run.same_as(self.plain) for policy, run in self.runs.items()}

    def _inputs(self) -> Iterator[Sequence[NDArray[Any]]]:
        return (self.batches[n % len(self.batches)] for n in range(WARM_UP + self.steps))

    def _progress(self, says: str, parts: int, part: int = 0) -> OnStep:
        steps = WARM_UP + self.steps
        return lambda number, _run: self.report(Progress(part * steps + number + 1, parts * steps, says))

    def _run(
        self, policy: int, schedule: Schedule, paced: bool, report: Callable[[Profile], None], on_step: OnStep
    ) -> None:
        self.runs[policy] = run_scheduled(
            self.cell,
            schedule,
            self._inputs(),
            self.cancelled,
            warm_up=WARM_UP,
            chunk_steps=CHUNK_STEPS,
            paced=paced,
            conditions=lambda run, attached: "; ".join([*self.conditions, *self._facts(run, schedule, attached)]),
            report=report,
            on_step=on_step,
            live=self.live,
        )

    def _run_plain(self, on_step: OnStep) -> None:
        try:
            self.plain = run_plain(self.cell, self._inputs(), self.cancelled, on_step)
        except ExecutionCancelledError:
            raise
        except Exception as error:  # whatever MindSpore raises for a model whose ops can be captured
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise GraphModeError(
                f"MindSpore's graph mode does not run this model ({first}); run it op by op instead"
            ) from error

    def _facts(self, run: CellRun, schedule: Schedule, attached: Attached) -> list[str]:
        plain, ours = self.plain.median_call_ns(WARM_UP), run.median_call_ns(WARM_UP)
        facts = ["one schedule after the other"]
        if attached.inserted is not None and (stays := stays_sentence(schedule, attached.inserted.stays)):
            facts.append(stays)
        facts.append(f"a call of the cell took {format_ns(ours)}, without any schedule {format_ns(plain)} (medians)")
        if resident := run.most_resident_bytes(WARM_UP):
            facts.append(
                f"up to {format_bytes(resident)} of the whole process resident, with what earlier schedules left in it"
            )
        return facts
