"""A verdict on each transfer of a step: what it cost, how much later it could have ended, what decided its start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from hyperoffload_core.explain.step import Step, step_of
from hyperoffload_core.ir import storages_of
from hyperoffload_core.metrics import covered_ns, union_ns
from hyperoffload_core.recording import Profile
from hyperoffload_core.schedule import Schedule, Transfer

Cause = Literal["dependency", "memory", "link", "order"]


@dataclass(frozen=True, slots=True)
class Hold:
    """What decided when a transfer started, and the op or transfer that ended last of all it waited for.

    *dependency*: its own storage was not ready, or the step had only begun. *link*: the link was busy with the
    transfer before it. *memory*: just before it started, its storage would not have fitted under the limit. *order*:
    there was room, data and a free link, but the schedule does not let it start before something else has ended.
    """

    cause: Cause
    op: int | None = None
    transfer: int | None = None


@dataclass(frozen=True, slots=True)
class TransferVerdict:
    """What one transfer cost.

    ``hidden_ns + exposed_ns`` is its duration; ``blocking_ns`` the time for which an op, or the end of the step, stood
    waiting for it, or for what it held up; ``slack_ns`` how much later it could have ended without delaying an op or
    the end of the step (0 for one that blocks); ``cause`` what decided its start (`Hold`).
    """

    transfer: int
    hidden_ns: int
    exposed_ns: int
    blocking_ns: int
    slack_ns: int
    cause: Cause


def transfer_verdicts(source: Schedule | Profile, step: int = 0) -> list[TransferVerdict]:
    """A verdict on each transfer in the schedule's order, from planned times or from one step of a profile."""
    return verdicts_of(step_of(source, step))


def verdicts_of(step: Step) -> list[TransferVerdict]:
    """A verdict on each transfer in the schedule's order."""
    transfers = step.schedule.transfers
    start, end = [step.start[t.id] for t in transfers], [step.end[t.id] for t in transfers]
    hidden = covered_ns(start, end, union_ns(step.op_start, step.op_end)).tolist()
    blocking, latest = _blocking(step), _latest_ends(step)
    return [
        TransferVerdict(
            transfer=t.id,
            hidden_ns=hidden[row],
            exposed_ns=end[row] - start[row] - hidden[row],
            blocking_ns=blocking[t.id],
            slack_ns=max(0, latest[t.id] - end[row]),
            cause=hold_of(step, t).cause,
        )
        for row, t in enumerate(transfers)
    ]


def hold_of(step: Step, transfer: Transfer) -> Hold:
    """Which of the events that a transfer waited for ended last, and why it had to wait for it.

    Of several that ended at once a dependency counts first, then the link. An edge that is neither is there for
    memory or by choice; which of the two does not follow from the edge (a storage that comes in late may be given the
    address of whatever has just left), but from whether the storage would have fitted a moment earlier.
    """
    ops = step.schedule.graph.ops
    found: list[tuple[int, int, Hold]] = []
    for op in transfer.after_ops:
        own = transfer.storage in storages_of(ops[op])
        found.append((step.op_end[op], 2 if own else 0, Hold("dependency" if own else "order", op)))
    for other in transfer.after_transfers:
        own = step.transfers[other].storage == transfer.storage
        found.append((step.end[other], 2 if own else 0, Hold("dependency" if own else "order", None, other)))
    if transfer.id in step.link_before:
        before = step.link_before[transfer.id]
        found.append((step.end[before], 1, Hold("link", None, before)))
    if not found:
        return Hold("dependency")
    hold = max(found, key=lambda f: f[:2])[2]
    if hold.cause == "order" and not fitted_before(step, transfer):
        return Hold("memory", hold.op, hold.transfer)
    return hold


@dataclass(frozen=True, slots=True)
class Root:
    """Where a transfer's lateness comes from: the first transfer of the unbroken run on its link that it is the end of
    (itself, when the link was free before it), and what that one waited for. The run has ``count`` transfers."""

    transfer: int
    count: int
    cause: Cause
    op: int | None
    held_by: int | None


def roots_of(step: Step) -> dict[int, Root]:
    """The root of every transfer, by transfer id: follow the link back to where its unbroken run began."""
    found: dict[int, Root] = {}
    for link in step.schedule.link_transfers():
        for t in link:
            hold = hold_of(step, t)
            if hold.cause == "link" and hold.transfer is not None:
                found[t.id] = replace(found[hold.transfer], count=found[hold.transfer].count + 1)
            else:
                found[t.id] = Root(t.id, 1, hold.cause, hold.op, hold.transfer)
    return found


def run_of(step: Step, transfer: int, root: Root) -> list[int]:
    """The transfers of a run, root first."""
    run = [transfer]
    while run[-1] != root.transfer:
        run.append(step.link_before[run[-1]])
    return run[::-1]


def fitted_before(step: Step, transfer: Transfer) -> bool:
    """Whether a moment before the transfer started there was room for what it reserves."""
    if transfer.kind == "store" or step.move_of[transfer.id][0].id != transfer.id or step.limit_bytes <= 0:
        return True
    return step.live_before(step.start[transfer.id]) + step.size(transfer.storage) <= step.limit_bytes


def _blocking(step: Step) -> dict[int, int]:
    """Waiting time of ops and of the step's end, given to the chain of transfers that was waited for.

    The transfer waited for last gets the time back to the end of the transfer that held it up, that one the time
    before, and so on until the wait began.
    """
    result = dict.fromkeys(step.start, 0)

    def give(last: int, began: int, ended: int) -> None:
        while ended > began:
            before = [*step.transfers[last].after_transfers]
            before += [step.link_before[last]] if last in step.link_before else []
            holding = max(before, key=lambda t: step.end[t], default=None)
            since = began if holding is None else min(ended, max(began, step.end[holding]))
            result[last] += ended - since
            if holding is None:
                return
            last, ended = holding, since

    for wait in waits_of(step):
        give(wait.transfer, wait.start_ns, wait.end_ns)
    return result


@dataclass(frozen=True, slots=True)
class Wait:
    """Compute stands still from ``start_ns`` to ``end_ns`` because ``op`` (None: the end of the step) waits for
    ``transfer``."""

    op: int | None
    transfer: int
    start_ns: int
    end_ns: int


def waits_of(step: Step) -> list[Wait]:
    """All time that compute loses to transfers, in time order."""
    result = []
    free = 0
    for op in step.schedule.order:
        waits, start = step.op_waits[op], step.op_start[op]
        if waits and start > free:
            last = max(waits, key=lambda t: step.end[t])
            until = min(start, step.end[last])
            if until > free:
                result.append(Wait(op, last, free, until))
        free = step.op_end[op]
    if step.end and step.end_ns > free:
        last = max(step.end, key=lambda t: step.end[t])
        result.append(Wait(None, last, free, step.end[last]))
    return result


def _latest_ends(step: Step) -> dict[int, int]:
    """Backward over transfers: the latest end that delays no op and not the step's end.

    A measured op or transfer starts some time after the last thing it waited for: the program has to wake up. It takes
    that long whenever that thing ends, so all it waits for may end as late as the last of it did, not as its start.
    """
    latest = dict.fromkeys(step.start, step.end_ns)
    free = 0
    for op in step.schedule.order:
        waits = step.op_waits[op]
        ready = max([free, *(step.end[t] for t in waits)])
        for wait in waits:
            latest[wait] = min(latest[wait], ready, step.op_start[op])
        free = step.op_end[op]

    for t in sorted(step.schedule.transfers, key=lambda t: step.start[t.id], reverse=True):
        before = [*t.after_transfers, *([step.link_before[t.id]] if t.id in step.link_before else [])]
        ends = [*(step.end[earlier] for earlier in before), *(step.op_end[op] for op in t.after_ops)]
        waking = max(0, step.start[t.id] - max(ends, default=step.start[t.id]))
        latest_start = latest[t.id] - (step.end[t.id] - step.start[t.id])
        for earlier in before:
            latest[earlier] = min(latest[earlier], latest_start - waking)
    return latest
