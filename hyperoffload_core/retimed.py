"""The same schedule at other times: order, edges and addresses stay, times, residencies and metrics follow."""

from __future__ import annotations

from dataclasses import replace

from hyperoffload_core.metrics import step_metrics
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import OpTime, Schedule


def with_times(schedule: Schedule, profile: Profile) -> Schedule:
    """The schedule, transfers in order of id, with the times and metrics of a step that `simulator.simulate` made of
    it; the bound stays."""
    ops, moved, lives = profile.ops, profile.transfers, profile.lifetimes
    waits = {t.op: t.waits for t in schedule.op_times}
    op_times = tuple(
        OpTime(op, start, end, waits[op])
        for op, start, end in zip(ops.op.tolist(), ops.start_ns.tolist(), ops.end_ns.tolist(), strict=True)
    )
    starts = dict(zip(moved.transfer.tolist(), moved.start_ns.tolist(), strict=True))
    ends = dict(zip(moved.transfer.tolist(), moved.end_ns.tolist(), strict=True))
    transfers = tuple(
        replace(t, start_ns=starts[t.id], end_ns=ends[t.id]) for t in sorted(schedule.transfers, key=lambda t: t.id)
    )
    residencies = tuple(
        replace(r, start_ns=start, end_ns=end)
        for r, start, end in zip(schedule.residencies, lives.start_ns.tolist(), lives.end_ns.tolist(), strict=True)
    )
    graph = schedule.graph
    sizes, workspaces = [s.bytes for s in graph.storages], [op.workspace_bytes for op in graph.ops]
    metrics = step_metrics(sizes, workspaces, op_times, transfers, residencies, schedule.metrics.lower_bound_ns)
    top = max((r.offset + sizes[r.storage] for r in residencies), default=0)
    reserved = min(max(schedule.metrics.reserved_bytes, top), metrics.reserved_bytes)
    return replace(
        schedule,
        op_times=op_times,
        transfers=transfers,
        residencies=residencies,
        metrics=replace(metrics, reserved_bytes=reserved),
    )
