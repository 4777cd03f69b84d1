"""An independent check of a schedule: every rule of the design's section 5, in its timed and in its event form.

It reads the schedule alone and shares no code with what makes schedules: dependencies, stays on the device, event
order, live bytes and metrics are all worked out again. The timed form asks whether the planned times keep the rules.
The event form asks whether order, waits and edges keep them whatever the durations are: every op and transfer gets a
vector clock over the streams, and all pairs that touch the same bytes of the device or the same remote copy must be
ordered by it. Recomputed ops are held against their originals by following values in captured order. The rules of the
policy that keep storages on the device are matched again.

An op that writes a storage without reading it is taken to overwrite all of it; a partial write must be declared as a
read and a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from hyperoffload_core.ir import Graph
from hyperoffload_core.schedule import Schedule
from hyperoffload_core.verifier.events import clocks_of, event_violations
from hyperoffload_core.verifier.kept import keep_violations, policy_violations
from hyperoffload_core.verifier.numbers import limit_violations, metric_violations, workspace_violations
from hyperoffload_core.verifier.recomputed import graph_violations, recompute_violations
from hyperoffload_core.verifier.structure import order_violations, structure_violations
from hyperoffload_core.verifier.timed import storage_violations, time_violations
from hyperoffload_core.verifier.timeline import timeline_of
from hyperoffload_core.verifier.violation import Rule, ScheduleViolation

__all__ = ["Rule", "ScheduleViolation", "verify", "violations"]


def violations(
    schedule: Schedule, graph: Graph | None = None, fixed: Mapping[int, str] = MappingProxyType({})
) -> list[ScheduleViolation]:
    """Every violation found, in time order; empty for a valid schedule.

    Given ``graph``, what the schedule runs must be its ops, apart from recomputed ones. ``fixed``: storages of the
    graph that cannot move where it is to run, with the reasons.

    A document that contradicts itself (unknown ids, an op missing) is reported alone, since nothing else can be
    checked then; wrong metrics are reported only when all else is right.
    """
    broken = [*structure_violations(schedule), *policy_violations(schedule)]
    if broken:
        return broken
    timeline = timeline_of(schedule)
    found = [*order_violations(timeline), *recompute_violations(timeline), *storage_violations(timeline)]
    found += keep_violations(timeline, fixed)
    if graph is not None:
        found += graph_violations(schedule, graph)
    clocks = clocks_of(timeline)
    if isinstance(clocks, ScheduleViolation):
        found.append(clocks)
    else:
        found += [*event_violations(timeline, clocks), *workspace_violations(timeline, clocks)]
    found += [*limit_violations(timeline), *time_violations(timeline)]
    found.sort(key=lambda v: v.time_ns)
    return found or list(metric_violations(timeline))


def verify(schedule: Schedule, graph: Graph | None = None) -> None:
    """Raise the first of `violations`; return silently when every rule holds."""
    found = violations(schedule, graph)
    if found:
        raise found[0]
