"""When every op and transfer of a schedule runs, given how long each takes.

Execution is driven by order and events, never by the clock, so the times follow from the order of ops, the order of
transfers on each link, the waits, and the durations alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]
_Event = tuple[str, int]  # ("op" or "transfer", id)


class DeadlockError(ValueError):
    """Ops and transfers that wait for each other in a circle; ``op`` and ``transfer`` are the first ones in it."""

    def __init__(self, message: str, op: int | None, transfer: int | None) -> None:
        super().__init__(message)
        self.op = op
        self.transfer = transfer


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Start and end in ns, int64, indexed by op id and by transfer id; -1 for an op that is not in the order."""

    op_start: Times
    op_end: Times
    transfer_start: Times
    transfer_end: Times


def event_times(
    order: Sequence[int],
    op_waits: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]],
    after_ops: Sequence[Sequence[int]],
    after_transfers: Sequence[Sequence[int]],
    op_ns: Sequence[int] | Times,
    transfer_ns: Sequence[int] | Times,
) -> EventTimes:
    """Earliest times that respect order and events.

    An op starts when its predecessor in ``order`` and the transfers ``op_waits[op]`` have ended. A transfer starts when
    its predecessor in its sequence of ``links``, ``after_ops[transfer]`` and ``after_transfers[transfer]`` have ended.
    Durations are ns, indexed by op id and transfer id. Raises `DeadlockError` when nothing can go on.
    """
    op_durations: list[int] = op_ns.tolist() if isinstance(op_ns, np.ndarray) else list(op_ns)
    transfer_durations: list[int] = transfer_ns.tolist() if isinstance(transfer_ns, np.ndarray) else list(transfer_ns)
    op_start, op_end = [-1] * len(op_durations), [-1] * len(op_durations)
    transfer_start, transfer_end = [-1] * len(transfer_durations), [-1] * len(transfer_durations)

    op_count, position, now = len(order), 0, 0
    link_position, link_now = [0] * len(links), [0] * len(links)
    moved = True
    while moved:
        moved = False
        while position < op_count:
            op = order[position]
            start = now
            for transfer in op_waits[op]:
                end = transfer_end[transfer]
                if end < 0:
                    break
                if end > start:
                    start = end
            else:
                op_start[op] = start
                op_end[op] = now = start + op_durations[op]
                position += 1
                moved = True
                continue
            break
        for link, transfers in enumerate(links):
            cursor, start_of_next, count = link_position[link], link_now[link], len(transfers)
            while cursor < count:
                transfer = transfers[cursor]
                start = start_of_next
                for op in after_ops[transfer]:
                    end = op_end[op]
                    if end < 0:
                        break
                    if end > start:
                        start = end
                else:
                    for earlier in after_transfers[transfer]:
                        end = transfer_end[earlier]
                        if end < 0:
                            break
                        if end > start:
                            start = end
                    else:
                        transfer_start[transfer] = start
                        transfer_end[transfer] = start_of_next = start + transfer_durations[transfer]
                        cursor += 1
                        moved = True
                        continue
                break
            link_position[link], link_now[link] = cursor, start_of_next

    if position < op_count or any(p < len(t) for p, t in zip(link_position, links, strict=True)):
        raise _deadlock(order, op_waits, links, after_ops, after_transfers, op_end, transfer_end)
    return EventTimes(
        np.array(op_start, dtype=np.int64),
        np.array(op_end, dtype=np.int64),
        np.array(transfer_start, dtype=np.int64),
        np.array(transfer_end, dtype=np.int64),
    )


def _deadlock(
    order: Sequence[int],
    op_waits: Sequence[Sequence[int]],
    links: Sequence[Sequence[int]],
    after_ops: Sequence[Sequence[int]],
    after_transfers: Sequence[Sequence[int]],
    op_end: Sequence[int],
    transfer_end: Sequence[int],
) -> DeadlockError:
    """Follow what each blocked event waits for until it repeats, and name the circle."""
    before: dict[_Event, _Event] = {}
    for earlier, later in pairwise(order):
        before["op", later] = ("op", earlier)
    for transfers in links:
        for earlier, later in pairwise(transfers):
            before["transfer", later] = ("transfer", earlier)

    def blocker(event: _Event) -> _Event | None:
        kind, number = event
        waits = [before[event]] if event in before else []
        waits += [("transfer", t) for t in (op_waits[number] if kind == "op" else after_transfers[number])]
        waits += [] if kind == "op" else [("op", o) for o in after_ops[number]]
        return next((w for w in waits if (op_end[w[1]] if w[0] == "op" else transfer_end[w[1]]) < 0), None)

    blocked = [("op", o) for o in order if op_end[o] < 0]
    blocked += [("transfer", t) for transfers in links for t in transfers if transfer_end[t] < 0]
    path: list[_Event] = [blocked[0]]
    following = blocker(path[0])
    while following is not None and following not in path:
        path.append(following)
        following = blocker(following)
    circle = path if following is None else path[path.index(following) :]
    first_op = next((number for kind, number in circle if kind == "op"), None)
    first_transfer = next((number for kind, number in circle if kind == "transfer"), None)
    names = [f"{kind} {number}" for kind, number in circle]
    if following is None:  # the last one is in no stream
        return DeadlockError(f"{names[0]} waits for {names[-1]}, which never runs", first_op, first_transfer)
    shown = [*names, names[0]] if len(names) < 7 else [*names[:6], "…"]
    return DeadlockError("waiting in a circle: " + ", which waits for ".join(shown), first_op, first_transfer)
