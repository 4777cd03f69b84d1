"""A schedule that comes as a file: read and verified, held against the model it is to run, timed for this machine.

Whatever made it, order, events and addresses are what counts; times are predictions and are made anew.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hyperoffload_core.analysis.bounds import step_lower_bound_ns
from hyperoffload_core.cost import Durations
from hyperoffload_core.errors import UserError
from hyperoffload_core.hardware import Hardware, transfer_ns
from hyperoffload_core.ir import Graph
from hyperoffload_core.retimed import with_times
from hyperoffload_core.schedule import Schedule, ScheduleFileError, read_schedule
from hyperoffload_core.simulator import simulate
from hyperoffload_core.verifier import violations


class OtherGraphError(UserError):
    """A schedule that was made for another graph than the one it is to run."""


def read_verified(path: Path) -> Schedule:
    """The schedule of a file. Raises `ScheduleFileError` for one that breaks a rule.

    One that reserves more than its own limit, and says so in its numbers, is what a strategy that cannot meet a limit
    returns: it may be run and simulated.
    """
    schedule = read_schedule(path)
    over = 0 < schedule.memory_limit_bytes < schedule.metrics.reserved_bytes
    for violation in violations(schedule):
        if not (over and violation.rule == "limit"):
            raise ScheduleFileError(f"{path}: the schedule breaks the rule {violation.rule!r}: {violation}")
    return schedule


def require_graph(schedule: Schedule, graph: Graph, where: str) -> None:
    """Raise `OtherGraphError` when the schedule, apart from what it recomputes, is for other ops and storages."""
    made_for = schedule.graph.original
    if made_for.hash != graph.hash:
        raise OtherGraphError(
            f"{where}: the schedule was made for another graph, {made_for.name!r} ({made_for.hash[:12]}, "
            f"{len(made_for.ops):,} ops), than {graph.name!r} ({graph.hash[:12]}, {len(graph.ops):,} ops); "
            "compile this model to get one for it"
        )


def timed_for(schedule: Schedule, durations: Durations, hardware: Hardware) -> Schedule:
    """The same order, events and addresses with other durations and links: every time and metric anew.

    ``durations`` are those of the graph without recomputed ops. A link stays full or half duplex as the schedule has
    it: on a half-duplex link its order holds transfers apart that no edge does.
    """
    graph, on = schedule.graph, replace(hardware, duplex=schedule.hardware.duplex)
    op_ns = tuple(durations.ns[op] for op in graph.origins)
    links = {"store": on.link_out, "prefetch": on.link_in}
    step = simulate(
        schedule, op_ns=op_ns, transfer_ns=[transfer_ns(t.bytes, links[t.kind]) for t in schedule.transfers]
    )
    # Every op runs once at least, one at a time; the bound on transfers holds within the limit, without recomputing.
    bound_ns = sum(durations.ns)
    if graph.original is graph and schedule.metrics.reserved_bytes <= schedule.memory_limit_bytes:
        bound_ns = step_lower_bound_ns(graph, durations.ns, on, schedule.memory_limit_bytes)
    planned = replace(
        schedule,
        durations_ns=op_ns,
        duration_source=durations.source,
        hardware=on,
        notes=(*schedule.notes, f"planned for {schedule.hardware.title}, timed for {on.title}"),
    )
    timed = with_times(planned, step)
    return replace(timed, metrics=replace(timed.metrics, lower_bound_ns=bound_ns))
