"""Why each storage stays on the device or leaves it, and what keeping it there would cost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hyperoffload_core.analysis.lifetimes import Uses, reuse_gaps, uses_in_order
from hyperoffload_core.analysis.liveness import live_bytes
from hyperoffload_core.explain.remedies import Replays
from hyperoffload_core.explain.replay import without_transfers
from hyperoffload_core.explain.step import Step
from hyperoffload_core.explain.verdicts import TransferVerdict, verdicts_of
from hyperoffload_core.hardware import transfer_ns
from hyperoffload_core.policy import Policy, PolicyError, policy_from_document, rule_matches
from hyperoffload_core.sizes import format_bytes, format_ns

Reason = Literal[
    "kept by a rule",
    "no gap",
    "never over the limit",
    "gaps too short",
    "others left",
    "nothing leaves",
    "unused",
    "offloaded by a rule",
    "the limit",
    "it would have fitted",
    "recomputed",
]


@dataclass(frozen=True, slots=True)
class Absence:
    """One time of the step during which a storage is not on the device.

    Had it stayed, memory would have been fullest at op ``op`` (the one running or next then; None at the step's end),
    ``over_bytes`` above the limit; 0 or less where it would have fitted.
    """

    start_ns: int
    end_ns: int
    op: int | None
    over_bytes: int


@dataclass(frozen=True, slots=True)
class StorageDecision:
    """What happens to a storage in a step, and why.

    ``rule`` is the number (from 1) of the policy's rule that decides about it. ``bytes_out`` to ``blocking_ns`` are
    what its moves cost (``link_ns``: time on the links). ``keep_peak_bytes`` is the live peak if it stayed all the
    time and all else were as it is, ``keep_over_bytes`` by how much that is above the limit, ``saved_bytes`` what its
    leaving takes off the peak, ``keep_gain_ns`` how much shorter the step would be (played again without its moves;
    None where that was not asked for).
    """

    storage: int
    stays: bool
    reason: Reason
    rule: int | None
    absences: tuple[Absence, ...]
    bytes_out: int
    bytes_in: int
    link_ns: int
    exposed_ns: int
    blocking_ns: int
    keep_peak_bytes: int
    keep_over_bytes: int
    saved_bytes: int
    keep_gain_ns: int | None
    text: str


def storage_decisions(
    step: Step, worked_out: Sequence[int] = (), replays: Replays | None = None
) -> list[StorageDecision]:
    """A decision on every storage of the graph, by id; those of ``worked_out`` with what keeping them would gain.

    Storages that hold a value a second time (recomputed) are part of the decision on the one they stand for.
    """
    view = _View(step)
    replays = replays or Replays(step)
    verdicts = {v.transfer: v for v in verdicts_of(step)}
    return [
        _decision(view, replays, verdicts, s.id, s.id in worked_out)
        for s in step.schedule.graph.storages
        if s.recompute_of is None
    ]


def deciding_rules(step: Step) -> list[int | None]:
    """The number (from 1) of the first rule of the schedule's policy that matches each storage.

    All None for a schedule whose policy this program does not know (files may come from anywhere).
    """
    graph = step.schedule.graph
    result: list[int | None] = [None] * len(graph.storages)
    for number, rule in enumerate(_policy(step).rules, 1):
        for storage in rule_matches(graph, rule):
            if result[storage] is None:
                result[storage] = number
    return result


def _policy(step: Step) -> Policy:
    try:
        return policy_from_document(step.schedule.policy)
    except PolicyError:
        return Policy()


class _View:
    """What decisions on all storages share."""

    def __init__(self, step: Step) -> None:
        schedule = step.schedule
        self.step = step
        self.rules = deciding_rules(step)
        self.actions = [r.action for r in _policy(step).rules]
        self.uses: tuple[Uses, ...] = uses_in_order(schedule.graph, schedule.order)
        self.wanted: NDArray[np.int64] = live_bytes(schedule.graph, schedule.order)
        over = self.wanted > step.limit_bytes if step.limit_bytes > 0 else np.zeros(len(self.wanted), bool)
        self.over_until = np.concatenate(([0], np.cumsum(over)))
        self.starts = [step.op_start[op] for op in schedule.order]
        self.peak = int(step.live.max(initial=0))
        self.copies: dict[int, list[int]] = {}
        for s in schedule.graph.storages:
            if s.recompute_of is not None:
                self.copies.setdefault(s.recompute_of, []).append(s.id)

    def op_at(self, time_ns: int) -> int | None:
        """The op that runs at a time, or the next one."""
        place = bisect_right(self.starts, time_ns) - 1
        order = self.step.schedule.order
        if place >= 0 and self.step.op_end[order[place]] > time_ns:
            return order[place]
        return order[place + 1] if place + 1 < len(order) else None

    def absence(self, start_ns: int, end_ns: int, size: int) -> Absence:
        step = self.step
        first = max(0, int(np.searchsorted(step.live_times, start_ns, side="right")) - 1)
        last = int(np.searchsorted(step.live_times, end_ns, side="left"))
        if first >= last:
            return Absence(start_ns, end_ns, self.op_at(start_ns), size - step.limit_bytes)
        at = first + int(np.argmax(step.live[first:last]))
        time = max(start_ns, int(step.live_times[at]))
        over = int(step.live[at]) + size - step.limit_bytes if step.limit_bytes > 0 else 0
        return Absence(start_ns, end_ns, self.op_at(time), over)

    def over_inside(self, left: int, right: int) -> bool:
        """Whether without any offload memory would be over the limit at an op strictly between two positions."""
        return bool(self.over_until[min(right, len(self.wanted))] > self.over_until[left + 1])


def _decision(
    view: _View, replays: Replays, verdicts: dict[int, TransferVerdict], storage: int, worked_out: bool
) -> StorageDecision:
    step = view.step
    size = step.size(storage)
    moves = step.moves[storage]
    gone = {t.id for move in moves for t in move}
    rows = step.stays[storage]
    copies = view.copies.get(storage, [])
    times = list(step.absences(storage))
    if copies:
        rows = sorted([*rows, *(stay for copy in copies for stay in step.stays[copy])])
        times = [(before[1], after[0]) for before, after in pairwise(rows) if after[0] > before[1]]
    absences = tuple(view.absence(start, end, size) for start, end in times if end > start)
    peak = max([view.peak, *(a.over_bytes + step.limit_bytes for a in absences if step.limit_bytes > 0)])
    rule = view.rules[storage]
    reason = _reason(view, storage, absences, bool(gone), bool(copies))
    gain = None
    if worked_out and gone:
        gain = replays.gain(without_transfers(replays.events, {replays.at[t] for t in gone}))
    moved = [(t, verdicts[t.id]) for move in moves for t in move]
    over = max(0, peak - step.limit_bytes) if step.limit_bytes > 0 and absences else 0
    decision = StorageDecision(
        storage=storage,
        stays=not absences and not gone,
        reason=reason,
        rule=rule,
        absences=absences,
        bytes_out=sum(t.bytes for t, _ in moved if t.kind == "store"),
        bytes_in=sum(t.bytes for t, _ in moved if t.kind == "prefetch"),
        link_ns=sum(step.end[t.id] - step.start[t.id] for t, _ in moved),
        exposed_ns=sum(v.exposed_ns for _, v in moved),
        blocking_ns=sum(v.blocking_ns for _, v in moved),
        keep_peak_bytes=peak,
        keep_over_bytes=over,
        saved_bytes=peak - view.peak,
        keep_gain_ns=gain,
        text="",
    )
    return replace(decision, text=_text(view, decision))


def _reason(view: _View, storage: int, absences: Sequence[Absence], moved: bool, recomputed: bool) -> Reason:
    step, use = view.step, view.uses[storage]
    rule = view.rules[storage]
    action = view.actions[rule - 1] if rule is not None else "auto"
    if recomputed:
        return "recomputed"
    if moved or absences:
        if not use.positions:
            return "unused"
        if action == "offload":
            return "offloaded by a rule"
        return "the limit" if any(a.over_bytes > 0 for a in absences) else "it would have fitted"
    if action == "keep":
        return "kept by a rule"
    if not use.positions:
        return "unused"
    count = len(step.schedule.order)
    gaps = [g for g in reuse_gaps(use, count) if g.right - g.left > 1 or g.left < 0 or g.right >= count]
    if not gaps:
        return "no gap"
    needed = [g for g in gaps if view.over_inside(g.left, g.right)]
    if not needed:
        return "never over the limit"
    if all(_length(view, g.left, g.right) < _round_trip(view, use) for g in needed):
        return "gaps too short"
    return "others left" if step.schedule.transfers else "nothing leaves"


def _length(view: _View, left: int, right: int) -> int:
    """Time between the op at position ``left`` and the one at ``right`` of the order, ns."""
    step, order = view.step, view.step.schedule.order
    begin = step.op_end[order[left]] if left >= 0 else 0
    return (step.op_start[order[right]] if right < len(order) else step.end_ns) - begin


def _round_trip(view: _View, use: Uses) -> int:
    """Link time of one leaving: out and in again; only in for what is never written."""
    hardware, size = view.step.schedule.hardware, view.step.size(use.storage)
    out = transfer_ns(size, hardware.link_out) if any(use.writes) else 0
    return out + transfer_ns(size, hardware.link_in)


def _text(view: _View, d: StorageDecision) -> str:
    """The decision in one sentence, and what keeping the storage would cost in another."""
    step = view.step
    graph, use = step.schedule.graph, view.uses[d.storage]
    name, size = graph.storages[d.storage].name, format_bytes(graph.storages[d.storage].bytes)
    limit = format_bytes(step.limit_bytes)
    if d.stays:
        why: str = {
            "kept by a rule": f"rule {d.rule} of the policy keeps it",
            "no gap": "from its first to its last use there is no op that does not need it",
            "never over the limit": f"memory would not be over {limit} at any op that does not need it",
            "gaps too short": (
                f"its longest gap is {format_ns(_longest(view, use))}, and it would take "
                f"{format_ns(_round_trip(view, use))} to move it out and in again"
            ),
            "others left": "where memory would be over the limit, other storages leave instead",
            "nothing leaves": "this schedule moves nothing, although memory is over the limit",
            "unused": "no op of this step uses it",
        }[d.reason]
        return f"{name!r} ({size}) stays: {why}"
    where = _where(d)
    if d.reason == "unused":
        return f"{name!r} ({size}) is not on the device: no op of this step uses it"
    if d.reason == "recomputed":
        return f"{name!r} ({size}) leaves {where} without a copy and is computed again; {_cost(view, d)}"
    why = {
        "offloaded by a rule": f"rule {d.rule} of the policy says so",
        "it would have fitted": "memory would have had room for it alone, so nothing but the strategy asks for it",
    }.get(d.reason, "")
    if d.reason == "the limit":
        worst = max(d.absences, key=lambda a: a.over_bytes)
        at = "the end of the step" if worst.op is None else f"op {graph.ops[worst.op].name!r}"
        why = f"with it, memory at {at} would be {format_bytes(worst.over_bytes)} over the limit of {limit}"
    return f"{name!r} ({size}) leaves {where}: {why}; {_cost(view, d)}"


def _where(d: StorageDecision) -> str:
    if not d.absences:
        return "at the step's boundary"
    longest = max(d.absences, key=lambda a: a.end_ns - a.start_ns)
    span = f"from {format_ns(longest.start_ns)} to {format_ns(longest.end_ns)}"
    return span if len(d.absences) == 1 else f"in {len(d.absences)} gaps, the longest {span}"


def _cost(view: _View, d: StorageDecision) -> str:
    moved = f"its copies take {format_ns(d.link_ns)} of the links"
    if d.blocking_ns:
        moved += f" and delay compute by {format_ns(d.blocking_ns)}"
    if d.reason == "recomputed" and not d.link_ns:
        moved = "computing it again takes " + format_ns(_recompute_ns(view, d.storage))
    keep = (
        f"keeping it would need {format_bytes(d.keep_over_bytes)} more than the limit"
        if d.keep_over_bytes
        else ("keeping it would fit")
    )
    if d.keep_gain_ns is not None:
        gained = f"make the step {format_ns(d.keep_gain_ns)} shorter" if d.keep_gain_ns > 0 else "not make it shorter"
        keep += f" and {gained}"
    return f"{moved}; {keep}"


def _recompute_ns(view: _View, storage: int) -> int:
    ops, copies = view.step.schedule.graph.ops, set(view.copies.get(storage, ()))
    return sum(
        view.step.op_end[op.id] - view.step.op_start[op.id]
        for op in ops
        if op.recompute_of is not None and not copies.isdisjoint(op.writes)
    )


def _longest(view: _View, use: Uses) -> int:
    gaps = reuse_gaps(use, len(view.step.schedule.order))
    return max((_length(view, g.left, g.right) for g in gaps), default=0)
