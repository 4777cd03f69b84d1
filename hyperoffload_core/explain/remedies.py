"""What would help a move that costs time, and how much it would gain.

Every remedy is tried by playing the step again with only that changed (`replay`): the gain is how much shorter the
step then is, with the step's own durations. Room in memory is checked beside it; what would not fit says how many
bytes are missing. Remedies are about this schedule as it is: a planner that starts over may find more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from hyperoffload_core.explain.replay import (
    Events,
    ahead_of,
    events_of,
    faster_link,
    play,
    step_ns,
    with_edges,
    without_transfers,
    without_wait,
)
from hyperoffload_core.explain.step import Step
from hyperoffload_core.explain.verdicts import Cause, Root, roots_of, run_of
from hyperoffload_core.schedule import Transfer, TransferKind
from hyperoffload_core.simulator import DeadlockError
from hyperoffload_core.sizes import format_bytes, format_ns

RemedyKind = Literal[
    "nothing", "start earlier", "reorder", "other address", "keep resident", "higher limit", "faster link"
]
LINK_FACTOR = 2.0
"""A faster link is tried with twice the bandwidth."""


_GENTLEST: tuple[RemedyKind, ...] = get_args(RemedyKind)


@dataclass(frozen=True, slots=True)
class Remedy:
    """``gain_ns``: how much shorter the step would be, None where it was not worked out. ``bytes_over``: device memory
    it needs above the limit (0: it fits). ``transfer`` is the one to start earlier or to put first, ``what_if`` what
    `hyperoffload explain --what-if` takes to try it, empty where there is nothing to try."""

    kind: RemedyKind
    gain_ns: int | None
    text: str
    bytes_over: int = 0
    transfer: int | None = None
    what_if: str = ""

    @property
    def free(self) -> bool:
        """Whether it needs neither more memory nor another link."""
        return not self.bytes_over and self.kind != "faster link"


@dataclass(frozen=True)
class Replays:
    """A step with what is shared by all replays of it."""

    step: Step

    @cached_property
    def events(self) -> Events:
        return events_of(self.step)

    @cached_property
    def base_ns(self) -> int:
        return step_ns(play(self.events))

    @cached_property
    def roots(self) -> dict[int, Root]:
        """Where each transfer's lateness comes from, by transfer id."""
        return roots_of(self.step)

    @cached_property
    def at(self) -> dict[int, int]:
        """Position in the schedule by transfer id."""
        return {t.id: position for position, t in enumerate(self.step.schedule.transfers)}

    @cached_property
    def link_gains(self) -> dict[TransferKind, int]:
        """What twice the bandwidth of one direction gains in the whole step."""
        kinds: tuple[TransferKind, ...] = ("store", "prefetch")
        return {kind: self.gain(faster_link(self.step, self.events, kind, LINK_FACTOR)) for kind in kinds}

    @cached_property
    def found(self) -> dict[int, list[Remedy]]:
        """Remedies worked out so far, by transfer id."""
        return {}

    def gain(self, changed: Events) -> int:
        """How much shorter the step is with a change; one in which things wait for each other gains nothing."""
        try:
            return self.base_ns - step_ns(play(changed))
        except DeadlockError:
            return 0


def remedies_of(replays: Replays, transfer: int) -> list[Remedy]:
    """Everything that would shorten the step at a transfer that costs time, best first.

    First what needs neither more memory nor other hardware, unless something that needs more memory gains ten times as
    much; of those first what changes least, unless another gains twice as much. Then the rest, the largest gain first.
    A faster link counts for the whole step, not for this transfer.
    """
    if transfer not in replays.found:
        replays.found[transfer] = _remedies(replays, transfer)
    return replays.found[transfer]


def _remedies(replays: Replays, transfer: int) -> list[Remedy]:
    root = replays.roots[transfer]
    found = [
        *_earlier(replays, root),
        *_reordered(replays, transfer, root),
        *_kept(replays, transfer),
        *_unawaited(replays, transfer),
        _faster(replays, transfer),
    ]
    gains = [(r.gain_ns, r) for r in found if r.gain_ns is not None and r.gain_ns > 0]
    best = max((gain for gain, r in gains if r.kind != "faster link"), default=0)
    free = [g for g in gains if g[1].free and 10 * g[0] >= best]
    best_free = max((gain for gain, _ in free), default=0)

    def rank(found: tuple[int, Remedy]) -> tuple[int, int, int]:
        gain, remedy = found
        gentleness = _GENTLEST.index(remedy.kind)
        if found in free:
            return (0, gentleness, -gain) if 2 * gain >= best_free else (1, -gain, gentleness)
        return 2, -gain, gentleness

    return [r for _, r in sorted(gains, key=rank)]


def likely_remedy(replays: Replays, transfer: int) -> Remedy:
    """What the cause suggests, where the gain is not worked out."""
    root = replays.roots[transfer]
    kinds: dict[Cause, RemedyKind] = {
        "order": "start earlier",
        "memory": "higher limit",
        "link": "faster link",
        "dependency": "keep resident",
    }
    return Remedy(kinds["link" if root.count > 1 else root.cause], None, "not worked out for this transfer")


def named(step: Step, transfer: int) -> str:
    """``Prefetch of 'w3'``"""
    t = step.transfers[transfer]
    return f"{t.kind.title()} of {step.schedule.graph.storages[t.storage].name!r}"


def _earlier(replays: Replays, root: Root) -> list[Remedy]:
    """Start the root of the run earlier: as far as memory has room, and as far as data and link allow."""
    step = replays.step
    move = step.move_of[root.transfer]
    if root.cause not in ("order", "memory") or move[0].kind == "store" or move[0].id != root.transfer:
        return _earlier_store(replays, root) if root.cause == "order" else []
    first, size = move[0], step.size(move[0].storage)
    own = step.own_op(first)
    found = []
    room = step.place_since(first, step.room_since(step.start[first.id], size))
    # memory is there for sure once the first op behind that time has ended
    behind = next((op for op in step.schedule.order if step.op_end[op] >= room), None) if room > 0 else None
    if room == 0 or (behind is not None and step.op_end[behind] <= step.start[first.id]):
        after = [op for op in (own, behind) if op is not None]
        changed = _released(replays, move, after)
        gain, begins = _played(replays, changed, first)
        early = step.start[first.id] - begins
        if gain > 0 and early > 0:
            text = f"start the {named(step, first.id)} {format_ns(early)} earlier; memory has room for it by then"
            what = f"prefetch {first.id} earlier by {early}ns"
            found.append(Remedy("start earlier", gain, text, 0, first.id, what))
    changed = _released(replays, move, [] if own is None else [own])
    gain, begins = _played(replays, changed, first)
    missing = step.most_live(begins, min(room, step.start[first.id])) + size - step.limit_bytes
    if step.limit_bytes > 0 and missing > 0 and begins < room and gain > (found[0].gain_ns or 0 if found else 0):
        found.append(_higher_limit(step, gain, missing, f"the {named(step, first.id)} could start earlier"))
    return found


def _earlier_store(replays: Replays, root: Root) -> list[Remedy]:
    step, first = replays.step, replays.step.transfers[root.transfer]
    if first.kind != "store":
        return []
    own = step.own_op(first)
    changed = _released(replays, step.move_of[first.id], [] if own is None else [own])
    gain, begins = _played(replays, changed, first)
    early = step.start[first.id] - begins
    if gain <= 0 or early <= 0:
        return []
    text = f"start the {named(step, first.id)} {format_ns(early)} earlier, as soon as it is written"
    return [Remedy("start earlier", gain, text, 0, first.id, f"store {first.id} earlier by {early}ns")]


def _released(replays: Replays, move: tuple[Transfer, ...], after: list[int]) -> Events:
    """With a move that waits only for the ops ``after`` and for the transfers of its own storage."""
    step, at = replays.step, replays.at
    own = {at[t.id]: [at[o] for o in t.after_transfers if step.transfers[o].storage == t.storage] for t in move}
    return with_edges(replays.events, {at[t.id]: after for t in move}, own)


def _played(replays: Replays, changed: Events, first: Transfer) -> tuple[int, int]:
    """Gain of a change, and when a transfer then starts."""
    try:
        times = play(changed)
    except DeadlockError:
        return 0, replays.step.start[first.id]
    return replays.base_ns - step_ns(times), int(times.transfer_start[replays.at[first.id]])


def _higher_limit(step: Step, gain: int, missing: int, why: str) -> Remedy:
    needed = step.limit_bytes + missing
    return Remedy(
        "higher limit",
        gain,
        f"a limit {format_bytes(missing)} higher ({format_bytes(needed)}): {why}",
        missing,
        None,
        f"limit {needed}",
    )


def _reordered(replays: Replays, transfer: int, root: Root) -> list[Remedy]:
    """Put the move in front of those of its link's run that are needed later than it is."""
    step = replays.step
    run = run_of(step, transfer, root)
    move = [t for t in step.move_of[transfer] if t.id in run]
    needed = step.waited_by.get(move[-1].id)
    if needed is None:
        return []
    kept_before = {t.id for t in move} | {other for t in move for other in t.after_transfers}
    due = step.position[needed]
    ready = max(
        [step.op_end[op] for op in move[0].after_ops] + [step.end[t] for t in move[0].after_transfers], default=0
    )
    overtaken: list[int] = []
    for other in reversed(run[: run.index(move[0].id)]):
        user = step.waited_by.get(other)
        if other in kept_before or step.start[other] < ready or (user is not None and step.position[user] <= due):
            break
        overtaken.append(other)
    if not overtaken:
        return []
    size = step.size(move[0].storage)
    if move[0].kind == "prefetch" and step.limit_bytes > 0:
        began = step.start[overtaken[-1]]
        if step.most_live(began, step.start[move[0].id]) + size > step.limit_bytes:
            return []
    changed = ahead_of(replays.events, [replays.at[t.id] for t in move], replays.at[overtaken[-1]])
    gain = replays.gain(changed)
    count = len(overtaken)
    others = f"the {named(step, overtaken[0])}" if count == 1 else f"{count} transfers that are needed later"
    text = f"let the {named(step, move[0].id)} go before {others}"
    early = step.start[move[0].id] - step.start[overtaken[-1]]
    what = f"{move[0].kind} {move[0].id} earlier by {early}ns"
    return [Remedy("reorder", gain, text, 0, move[0].id, what)]


def _kept(replays: Replays, transfer: int) -> list[Remedy]:
    """Do not let the storage leave in the gap that this move is part of."""
    step = replays.step
    storage = step.transfers[transfer].storage
    gone, absences = gap_of(step, transfer)
    changed = without_transfers(replays.events, {replays.at[t] for t in gone})
    gain = replays.gain(changed)
    most = max((step.most_live(*absence) for absence in absences), default=0)
    over = max(0, most + step.size(storage) - step.limit_bytes) if step.limit_bytes > 0 else 0
    name = step.schedule.graph.storages[storage].name
    fits = f"that needs {format_bytes(over)} more than the limit" if over else "memory has room for it"
    return [Remedy("keep resident", gain, f"keep {name!r} on the device: {fits}", over, None, f"keep {name}")]


def gap_of(step: Step, transfer: int) -> tuple[set[int], list[tuple[int, int]]]:
    """The transfers that would not happen if the storage stayed in the gap this one is part of, and when it is away.

    A Store that a later Prefetch needs as well stays. The gap around the step boundary of a storage at home in the
    pool has its first Prefetch and its last Store.
    """
    move = step.move_of[transfer]
    storage = move[0].storage
    moves = step.moves[storage]
    index = next(i for i, m in enumerate(moves) if m[0].id == move[0].id)
    away = list(step.absences(storage))
    in_pool = step.schedule.homes[storage] == "pool"
    if move[0].kind == "prefetch" and index == 0 and in_pool:
        pair = [0] + ([len(moves) - 1] if len(moves) > 1 and moves[-1][0].kind == "store" else [])
    elif move[0].kind == "store" and index == len(moves) - 1 and in_pool:
        pair = [index] + ([0] if index and moves[0][0].kind == "prefetch" else [])
    elif move[0].kind == "prefetch":
        before = index > 0 and moves[index - 1][0].kind == "store"
        again = index + 1 < len(moves) and moves[index + 1][0].kind == "prefetch"
        pair = [index] + ([index - 1] if before and not again else [])
    else:
        again = index + 2 < len(moves) and moves[index + 2][0].kind == "prefetch"
        pair = ([index + 1] if index + 1 < len(moves) else []) + ([] if again else [index])
    gone = {t.id for i in pair for t in moves[i]}
    starts = {step.start[t.id] for i in pair for t in moves[i] if t.kind == "prefetch"}
    if not starts:
        begin = step.start[move[0].id]
        inside = [gap for gap in away if gap[0] >= begin]
    else:
        inside = [gap for gap in away if gap[1] in starts]
    if in_pool and (0 in pair or len(moves) - 1 in pair):
        inside = list(dict.fromkeys([*inside, *(gap for gap in away if gap[0] == 0 or gap[1] >= step.end_ns)]))
    return gone, inside


def _unawaited(replays: Replays, transfer: int) -> list[Remedy]:
    """For an op that waits until a Store has given its bytes back: what it would be with room beside them."""
    step = replays.step
    t, op = step.transfers[transfer], step.waited_by.get(transfer)
    if t.kind != "store" or op is None or t.storage in step.schedule.graph.ops[op].writes:
        return []
    gain = replays.gain(without_wait(replays.events, op, replays.at[transfer]))
    graph = step.schedule.graph
    missing = missing_bytes(step, op)
    if missing > 0:
        why = f"op {graph.ops[op].name!r} need not wait for the bytes of the Store"
        return [_higher_limit(step, gain, missing, why)]
    return [Remedy("other address", gain, f"give what op {graph.ops[op].name!r} writes another address: there is room")]


def missing_bytes(step: Step, op: int) -> int:
    """How much of the limit is missing for an op to start when the op before it ends, given what it writes for the
    first time; 0 or less where it fits, or there is no limit."""
    graph, start, place = step.schedule.graph, step.op_start[op], step.position[op]
    free = step.op_end[step.schedule.order[place - 1]] if place else 0
    new = sum(step.size(s) for s in graph.ops[op].writes if any(begin == start for begin, _ in step.stays[s]))
    beside = step.most_live(min(free, start - 1), start)
    return beside + new + graph.ops[op].workspace_bytes - step.limit_bytes if step.limit_bytes > 0 else 0


def _faster(replays: Replays, transfer: int) -> Remedy:
    kind = replays.step.transfers[transfer].kind
    way, words = ("out", "device-to-host") if kind == "store" else ("in", "host-to-device")
    text = f"a {words} link twice as fast, in the whole step"
    return Remedy("faster link", replays.link_gains[kind], text, 0, None, f"link {way} x{LINK_FACTOR:g}")
