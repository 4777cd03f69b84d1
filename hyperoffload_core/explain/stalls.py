"""Where a step loses time to transfers, the dearest first, with the chain of events behind each stall."""

from __future__ import annotations

from dataclasses import dataclass

from hyperoffload_core.explain.moves import held_words
from hyperoffload_core.explain.remedies import Remedy, Replays, missing_bytes, named, remedies_of
from hyperoffload_core.explain.step import Step
from hyperoffload_core.explain.verdicts import Cause, Root, Wait, waits_of
from hyperoffload_core.sizes import format_bytes, format_ns

MOST_LINKS = 4
WORKED_OUT = 8
"""For so many stalls, the dearest, what would help is worked out."""


@dataclass(frozen=True, slots=True)
class ChainLink:
    """One transfer on the way back from a stall and why it was not sooner: ``cause`` and what it waited for.

    ``run_count`` transfers with ``run_bytes`` went over its link without a break since ``since_ns``, itself the last;
    ``root`` is the first of them. ``cause``, ``held_by_op`` and ``held_by_transfer`` are those of the root.
    """

    transfer: int
    root: int
    run_count: int
    run_bytes: int
    since_ns: int
    cause: Cause
    held_by_op: int | None
    held_by_transfer: int | None


@dataclass(frozen=True, slots=True)
class Stall:
    """Compute stands still for ``lost_ns`` before ``op`` (None: before the step's end), waiting for ``transfer``.

    ``cause`` is what would have to change: *dependency* (the data is ready too late to be moved in time), *link* (it
    carries too much), *memory* (the limit), *order* (the schedule itself: there was room to do better). ``remedies``
    are empty for stalls that cost too little to be worked out.
    """

    op: int | None
    start_ns: int
    lost_ns: int
    cause: Cause
    transfer: int
    chain: tuple[ChainLink, ...]
    remedies: tuple[Remedy, ...]
    text: str


@dataclass(frozen=True, slots=True)
class LostTime:
    """All time a step loses to transfers: ``total_ns``, how much of it per cause, and its stalls, dearest first."""

    total_ns: int
    by_cause: dict[Cause, int]
    stalls: tuple[Stall, ...]


def lost_time(step: Step, worked_out: int = WORKED_OUT, replays: Replays | None = None) -> LostTime:
    """Every stall of the step; ``remedies`` for the ``worked_out`` dearest. Planned stalls add up to step - compute."""
    replays = replays or Replays(step)
    waits = sorted(waits_of(step), key=lambda w: w.start_ns - w.end_ns)
    stalls = [_stall(replays, wait, rank < worked_out) for rank, wait in enumerate(waits)]
    by_cause: dict[Cause, int] = {}
    for stall in stalls:
        by_cause[stall.cause] = by_cause.get(stall.cause, 0) + stall.lost_ns
    ranked = dict(sorted(by_cause.items(), key=lambda item: -item[1]))
    return LostTime(sum(s.lost_ns for s in stalls), ranked, tuple(stalls))


def _stall(replays: Replays, wait: Wait, worked_out: bool) -> Stall:
    step = replays.step
    chain = _chain(replays, wait.transfer)
    cause = _cause(replays, wait)
    remedies = tuple(remedies_of(replays, wait.transfer)) if worked_out else ()
    text = _sentence(step, wait, chain)
    lost = wait.end_ns - wait.start_ns
    return Stall(wait.op, wait.start_ns, lost, cause, wait.transfer, chain, remedies, text)


def _chain(replays: Replays, transfer: int) -> tuple[ChainLink, ...]:
    step = replays.step
    result: list[ChainLink] = []
    following: int | None = transfer
    while following is not None and len(result) < MOST_LINKS:
        root = replays.roots[following]
        before_run = step.link_bytes[root.transfer] - step.transfers[root.transfer].bytes
        result.append(
            ChainLink(
                transfer=following,
                root=root.transfer,
                run_count=root.count,
                run_bytes=step.link_bytes[following] - before_run,
                since_ns=step.start[root.transfer],
                cause=root.cause,
                held_by_op=root.op,
                held_by_transfer=root.held_by,
            )
        )
        following = root.held_by
    return tuple(result)


def _cause(replays: Replays, wait: Wait) -> Cause:
    step = replays.step
    t = step.transfers[wait.transfer]
    if t.kind == "store" and wait.op is not None and t.storage not in step.schedule.graph.ops[wait.op].writes:
        return "memory" if missing_bytes(step, wait.op) > 0 else "order"
    root = replays.roots[wait.transfer]
    if step.move_of[root.transfer] is step.move_of[wait.transfer]:
        return root.cause
    if root.cause in ("order", "memory") and 2 * _advance(step, root) >= wait.end_ns - wait.start_ns:
        return root.cause
    return "link"


def _advance(step: Step, root: Root) -> int:
    """How much earlier the root of a run could at most have started, given its data and its link."""
    t = step.transfers[root.transfer]
    own = step.own_op(t)
    earliest = [0 if own is None else step.op_end[own]]
    earliest += [step.end[o] for o in t.after_transfers if step.transfers[o].storage == t.storage]
    earliest += [step.end[step.link_before[t.id]]] if t.id in step.link_before else []
    return step.start[t.id] - max(earliest)


def _sentence(step: Step, wait: Wait, chain: tuple[ChainLink, ...]) -> str:
    who = "the end of the step" if wait.op is None else f"op {step.schedule.graph.ops[wait.op].name!r}"
    t = step.transfers[wait.transfer]
    why = "for the bytes of the" if t.kind == "store" and wait.op is not None else "for the"
    text = f"{who} waited {format_ns(wait.end_ns - wait.start_ns)} {why} {named(step, wait.transfer)}"
    for number, link in enumerate(chain):
        said = "which" if not number or link.run_count == 1 else "and that"
        if link.run_count > 1:
            text += (
                f", {said} was the last of {link.run_count} transfers ({format_bytes(link.run_bytes)}) that kept the "
                f"link busy since {format_ns(link.since_ns)}; the first of them, the {named(step, link.root)},"
            )
            said = ""
        text += (
            f" {held_words(step, link.cause, link.held_by_op, link.held_by_transfer)}"
            if not said
            else (f", {said} {held_words(step, link.cause, link.held_by_op, link.held_by_transfer)}")
        )
    return text
