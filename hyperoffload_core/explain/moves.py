"""A verdict on each move: one transfer, or all the parts that together bring or store a storage once."""

from __future__ import annotations

from dataclasses import dataclass

from hyperoffload_core.explain.remedies import Remedy, Replays, likely_remedy, named, remedies_of
from hyperoffload_core.explain.step import Step
from hyperoffload_core.explain.verdicts import Cause, hold_of, verdicts_of
from hyperoffload_core.schedule import TransferKind
from hyperoffload_core.sizes import format_ns

WORKED_OUT = 12
"""For so many moves, those that block most, the gain of what would help is worked out."""


@dataclass(frozen=True, slots=True)
class MoveVerdict:
    """What one move cost; named by the id of its first part.

    ``hidden_ns + exposed_ns`` is the time its parts occupied the link. ``slack_ns`` is how much later all of it could
    have ended without delaying anything. ``cause`` says what decided when it got on its way: of a move in parts the
    cause of the last part that did not just follow another part of the same move. ``held_by_op`` and
    ``held_by_transfer`` are what that was. ``remedy`` is the best thing that would help; ``text`` all of it in one
    sentence.
    """

    id: int
    parts: tuple[int, ...]
    kind: TransferKind
    storage: int
    bytes: int
    start_ns: int
    end_ns: int
    hidden_ns: int
    exposed_ns: int
    blocking_ns: int
    slack_ns: int
    cause: Cause
    held_by_op: int | None
    held_by_transfer: int | None
    remedy: Remedy
    text: str


def move_verdicts(step: Step, worked_out: int = WORKED_OUT, replays: Replays | None = None) -> list[MoveVerdict]:
    """A verdict on every move, in order of start. Remedies have a gain for the ``worked_out`` most blocking moves."""
    replays = replays or Replays(step)
    rows = []
    verdicts = {v.transfer: v for v in verdicts_of(step)}
    for move in step.schedule.moves:
        parts = [verdicts[t.id] for t in move]
        inside = {t.id for t in move}
        hold = hold_of(step, move[-1])
        while hold.cause == "link" and hold.transfer in inside:
            hold = hold_of(step, step.transfers[hold.transfer])
        rows.append((move, parts, hold))
    blocking = sorted(rows, key=lambda r: -sum(v.blocking_ns for v in r[1]))[:worked_out]
    tried = {move[0].id for move, parts, _ in blocking if sum(v.blocking_ns for v in parts)}
    result = []
    for move, parts, hold in rows:
        blocked, exposed = sum(v.blocking_ns for v in parts), sum(v.exposed_ns for v in parts)
        if not blocked:
            remedy = Remedy("nothing", 0, "it delays nothing" if exposed else "it is hidden already")
        elif move[0].id in tried:
            remedy = best_remedy(replays, move[-1].id)
        else:
            remedy = likely_remedy(replays, move[-1].id)
        result.append(
            MoveVerdict(
                id=move[0].id,
                parts=tuple(t.id for t in move),
                kind=move[0].kind,
                storage=move[0].storage,
                bytes=sum(t.bytes for t in move),
                start_ns=min(step.start[t.id] for t in move),
                end_ns=max(step.end[t.id] for t in move),
                hidden_ns=sum(v.hidden_ns for v in parts),
                exposed_ns=exposed,
                blocking_ns=blocked,
                slack_ns=min(v.slack_ns for v in parts),
                cause=hold.cause,
                held_by_op=hold.op,
                held_by_transfer=hold.transfer,
                remedy=remedy,
                text=_sentence(step, move[0].id, hold.cause, hold.op, hold.transfer, blocked, exposed, remedy),
            )
        )
    return result


def best_remedy(replays: Replays, transfer: int) -> Remedy:
    found = remedies_of(replays, transfer)
    return found[0] if found else Remedy("nothing", 0, "no single change to this schedule makes the step shorter")


def held_words(step: Step, cause: Cause, op: int | None, transfer: int | None) -> str:
    """What a transfer waited for, as a clause: ``waited for the link, busy with the Prefetch of 'w2'``."""
    other = f"the {named(step, transfer)}" if transfer is not None else None
    if op is not None:
        other = f"op {step.schedule.graph.ops[op].name!r}"
    if cause == "link":
        return f"waited for the link, busy with {other}"
    if cause == "dependency":
        return "could start with the step" if other is None else f"could start only after {other}"
    if cause == "memory":
        return f"waited for memory until {other} had ended"
    return f"is placed behind {other}, though data, link and memory were free"


def _sentence(
    step: Step,
    first: int,
    cause: Cause,
    op: int | None,
    transfer: int | None,
    blocking_ns: int,
    exposed_ns: int,
    remedy: Remedy,
) -> str:
    head = f"the {named(step, first)} {held_words(step, cause, op, transfer)}"
    if not blocking_ns:
        rest = "it delays nothing" if exposed_ns else "it is hidden beside compute"
        return f"{head}; {rest}"
    return f"{head}; it delays compute by {format_ns(blocking_ns)}; {help_words(remedy)}"


def help_words(remedy: Remedy) -> str:
    """What would help, as a clause with the predicted gain."""
    if remedy.kind == "nothing":
        return remedy.text
    if remedy.gain_ns is None:
        return f"{_LIKELY[remedy.kind]} would help"
    return f"what would help: {remedy.text} (the step is then {format_ns(remedy.gain_ns)} shorter)"


_LIKELY = {
    "start earlier": "starting earlier",
    "higher limit": "a higher limit",
    "faster link": "a faster link",
    "keep resident": "keeping it on the device",
}
