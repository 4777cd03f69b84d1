"""A step played again with something changed: other edges, another place on a link, transfers that do not happen.

Only order and events are played, as the simulator does, with the durations of the step that is explained. The
difference between two such plays is what a change would gain; whether memory has room for it is asked beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from hyperoffload_core.explain.step import Step
from hyperoffload_core.hardware import Link, transfer_ns
from hyperoffload_core.schedule import TransferKind
from hyperoffload_core.simulator import EventTimes, event_times


@dataclass(frozen=True)
class Events:
    """What `simulator.event_times` takes. Transfers are named by their position in the schedule, not by id."""

    order: tuple[int, ...]
    op_waits: Sequence[Sequence[int]]
    links: Sequence[Sequence[int]]
    after_ops: Sequence[Sequence[int]]
    after_transfers: Sequence[Sequence[int]]
    op_ns: Sequence[int]
    transfer_ns: Sequence[int]


def events_of(step: Step) -> Events:
    """The step as it was, with its own durations."""
    transfers = step.schedule.transfers
    at = {t.id: position for position, t in enumerate(transfers)}
    return Events(
        order=step.schedule.order,
        op_waits=[[at[t] for t in waits] for waits in step.op_waits],
        links=[[at[t.id] for t in link] for link in step.schedule.link_transfers()],
        after_ops=[t.after_ops for t in transfers],
        after_transfers=[[at[other] for other in t.after_transfers] for t in transfers],
        op_ns=[end - start for start, end in zip(step.op_start, step.op_end, strict=True)],
        transfer_ns=[step.end[t.id] - step.start[t.id] for t in transfers],
    )


def play(events: Events) -> EventTimes:
    return event_times(
        events.order,
        events.op_waits,
        events.links,
        events.after_ops,
        events.after_transfers,
        events.op_ns,
        events.transfer_ns,
    )


def step_ns(times: EventTimes) -> int:
    return int(max(times.op_end.max(initial=0), times.transfer_end.max(initial=0)))


def with_edges(
    events: Events, after_ops: Mapping[int, Sequence[int]], after_transfers: Mapping[int, Sequence[int]]
) -> Events:
    """With other edges for some transfers."""
    return replace(
        events,
        after_ops=[after_ops.get(p, row) for p, row in enumerate(events.after_ops)],
        after_transfers=[after_transfers.get(p, row) for p, row in enumerate(events.after_transfers)],
    )


def without_wait(events: Events, op: int, transfer: int) -> Events:
    """With an op that does not wait for a transfer."""
    waits = list(events.op_waits)
    waits[op] = [t for t in waits[op] if t != transfer]
    return replace(events, op_waits=waits)


def without_transfers(events: Events, removed: Collection[int]) -> Events:
    """Without some transfers; nothing waits for them."""
    gone = frozenset(removed)

    def rest(rows: Sequence[Sequence[int]]) -> list[Sequence[int]]:
        return [[t for t in row if t not in gone] if not gone.isdisjoint(row) else row for row in rows]

    return replace(
        events,
        op_waits=rest(events.op_waits),
        links=rest(events.links),
        after_transfers=rest(events.after_transfers),
    )


def ahead_of(events: Events, moved: Sequence[int], before: int) -> Events:
    """With transfers of one link in front of an earlier one of the same link."""
    links = []
    for link in events.links:
        if before in link:
            others = [t for t in link if t not in moved]
            place = others.index(before)
            link = [*others[:place], *moved, *others[place:]]
        links.append(link)
    return replace(events, links=links)


def with_link(step: Step, events: Events, kind: TransferKind, link: Link) -> Events:
    """With another link in the direction of ``kind``.

    Planned transfers take what that link needs for them; measured ones, which took longer or shorter than their link
    says, as many times longer or shorter.
    """
    hardware = step.schedule.hardware
    now = hardware.link_out if kind == "store" else hardware.link_in
    durations = list(events.transfer_ns)
    for position, t in enumerate(step.schedule.transfers):
        if t.kind == kind:
            planned, other = transfer_ns(t.bytes, now), transfer_ns(t.bytes, link)
            taken = durations[position]
            durations[position] = other if taken == planned else taken * other // max(1, planned)
    return replace(events, transfer_ns=durations)


def faster_link(step: Step, events: Events, kind: TransferKind, factor: float) -> Events:
    """With ``factor`` times the bandwidth in the direction of ``kind``; latency stays."""
    hardware = step.schedule.hardware
    link = hardware.link_out if kind == "store" else hardware.link_in
    return with_link(step, events, kind, replace(link, bytes_per_s=max(1, round(link.bytes_per_s * factor))))
